// Runs the built command line tool as a user does, and keeps what it prints.
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

/// The text around a command in a shell.
struct Shell {
  std::string before = {};            ///< such as `NAME=value` or `ulimit -f 1;`
  std::string output = {};            ///< where standard output goes if it is not kept, such as `| true`
  std::filesystem::path folder = {};  ///< the working folder
};

/// `command` is the text that a user types after `vkattn`.
[[nodiscard]] ToolResult run_tool(const std::string& command, const Shell& shell = {});

/// Whether the tool finds a device.
[[nodiscard]] bool has_device();

/// The sentence that `vkattn inspect` reads in docs/tool.md.
inline const std::string kSentence = "The animal didn't cross the street because it was too tired";

/// The tool finds no device with it.
constexpr const char* kNoDevice = "VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent";

/// Turns off the layer of tests/rolled_loops, for problems that are too long for loops that are not unrolled.
constexpr const char* kUnrolledLoops = "VKATTN_TEST_UNROLLED_LOOPS=1";

/// Options after a command, and words of the refusal.
struct Refusal {
  std::string options;
  std::string words;
  int exit_code = 2;
};

/// Runs commands in a folder of their own.
class Tool : public testing::Test {
 protected:
  [[nodiscard]] ToolResult run(const std::string& command, const std::string& before = "",
                               const std::string& output = "") const {
    return run_tool(command, {before, output, folder_.path()});
  }
  /// The standard output of a command that must succeed.
  [[nodiscard]] std::string printed(const std::string& command, const std::string& before = "") const;
  /// Fails the test unless the command ends with that exit code, and with one sentence on standard error that
  /// contains `part`.
  void refuses(const std::string& command, const std::string& part, int exit_code = 2,
               const std::string& before = "") const;

  /// Checks each of these refusals with refuses().
  void expect_refused(const std::string& command, const std::vector<Refusal>& refusals,
                      const std::string& before = "") const;

  TempFolder folder_;
};

/// Tests that need a device.
class ToolOnDevice : public Tool {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "the tool finds no Vulkan device";
  }
};

}  // namespace vkattn::tests
