// Runs the built command line tool as a user does, and keeps what it printed.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/temp_folder.hpp"

namespace vkattn::tests {

struct ToolResult {
  int exit_code = -1;
  std::string out;
  std::string err;
};

/// What stands around a command in a shell.
struct Shell {
  std::string before = {};  ///< as in `NAME=value` and `ulimit -f 1;`
  std::string output = {};  ///< what becomes of standard output where it is not kept, as in `| true`
  std::filesystem::path folder = {};  ///< in which file names are looked for
};

/// `command` is what a user types behind `vkattn`.
[[nodiscard]] ToolResult run_tool(const std::string& command, const Shell& shell = {});

/// True where the tool finds a device.
[[nodiscard]] bool has_device();

/// What docs/tool.md has `vkattn inspect` read.
inline const std::string kSentence = "The animal didn't cross the street because it was too tired";

/// Where it finds none.
constexpr const char* kNoDevice = "VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent";

/// With loops unrolled where tests have them rolled (tests/rolled_loops): problems too long for loops as they
/// are written.
constexpr const char* kUnrolledLoops = "VKATTN_TEST_UNROLLED_LOOPS=1";

/// Options behind a command, and what is said against them.
struct Refusal {
  std::string options;
  std::string words;
  int exit_code = 2;
};

/// Commands in a folder of their own.
class Tool : public testing::Test {
 protected:
  [[nodiscard]] ToolResult run(const std::string& command, const std::string& before = "",
                               const std::string& output = "") const {
    return run_tool(command, {before, output, folder_.path()});
  }
  /// Standard output of a command that has to succeed.
  [[nodiscard]] std::string printed(const std::string& command, const std::string& before = "") const;
  /// Fails the test unless the command ends with that code and one sentence on standard error that has
  /// `part`.
  void refuses(const std::string& command, const std::string& part, int exit_code = 2,
               const std::string& before = "") const;

  /// The same of each of these.
  void expect_refused(const std::string& command, const std::vector<Refusal>& refusals,
                      const std::string& before = "") const;

  TempFolder folder_;
};

/// The same where there is a device.
class ToolOnDevice : public Tool {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "the tool finds no Vulkan device";
  }
};

}  // namespace vkattn::tests
