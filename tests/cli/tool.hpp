// Runs the built command line tool as a user does, and keeps what it printed.
#pragma once

#include <string>
#include <vector>

namespace vkattn::tests {

struct ToolResult {
  int exit_code = -1;
  std::string out;
  std::string err;
};

/// The words become arguments as they are; `environment` goes in front, as in `NAME=value`. `output` is what
/// a shell makes of standard output where it is not kept, as in `| true`.
[[nodiscard]] ToolResult run_tool(const std::vector<std::string>& words, const std::string& environment = "",
                                  const std::string& output = "");

/// The command for a failure message.
[[nodiscard]] std::string command_text(const std::vector<std::string>& words);

/// Fails the test unless the tool ended with that code and one sentence on standard error that contains
/// `part`.
void expect_refusal(const std::vector<std::string>& words, int exit_code, const std::string& part,
                    const std::string& environment = "");

/// True where the tool finds a device.
[[nodiscard]] bool has_device();

}  // namespace vkattn::tests
