// Standard streams that are closed, full, or abandoned by their reader, and files beyond a size limit: each
// gives an error in a sentence, and leaves no file.
#include <filesystem>
#include <string>
#include <vector>

#include "support/text.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

const std::string kTune = "tune '8x8 d8' --max-seconds 1 --output tuning.json";

class ToolStreams : public RunFolder {
 protected:
  /// Checks that the command ends with an error about its output, and leaves no file.
  void expect_write_error(const std::string& command, const std::string& output,
                          const std::string& part = "standard output cannot be written",
                          const std::string& before = "") const {
    SCOPED_TRACE(before + " vkattn " + command + " " + output);
    const std::size_t files = folder_.file_count();
    const ToolResult result = run(command, before, output);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_TRUE(has(result.err, "vkattn: "));
    EXPECT_TRUE(has(result.err, part));
    EXPECT_EQ(folder_.file_count(), files);
  }
};

TEST_F(ToolStreams, WhatCannotBePrintedIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  std::vector<std::string> commands = {"--help", "--version", "bench --help", "run --help", "bench --list"};
  if (has_device()) commands.insert(commands.end(), {"devices", "kernels '8x8 d8'", kTune});
  for (const std::string& command : commands) {
    expect_write_error(command, "> /dev/full", "standard output cannot be written: No space left on device");
  }
}

TEST_F(ToolStreams, ClosedStreamsAreNoFiles) {
  EXPECT_EQ(run("--version", "", "<&- > version").exit_code, 0);
  EXPECT_TRUE(read_file(folder_ / "version").starts_with("vkattn "));
  expect_write_error("--version", ">&-");
  if (!has_device()) GTEST_SKIP() << "no Vulkan device";
  // Printed text must not get into a file either.
  expect_write_error(kTune, "<&- >&-");
  expect_write_error("bench '8x8 d8' --repeat 3 --plot plot.svg", "<&- >&-", "");
}

TEST_F(ToolStreams, AReaderThatLeftIsAnError) {
  if (!has_device()) GTEST_SKIP() << "no Vulkan device";
  expect_write_error(kTune, "| true", "standard output cannot be written: Broken pipe");
  expect_write_error("bench '8x8 d8' --repeat 3 --plot plot.svg", "| true", "");
}

TEST_F(ToolStreams, FilesBeyondTheLimitAreErrors) {
  if (!has_device()) GTEST_SKIP() << "no Vulkan device";
  write_inputs({2, 4, 9, 16}, {2, 2, 13, 16}, {2, 2, 13, 8});
  // The lavapipe of Mesa 26 keeps device memory in files, and crashes if they may not grow.
  if (run(attend(""), "ulimit -f 1;").exit_code != 0) GTEST_SKIP() << "the driver needs larger files";
  // 2304 bytes of output are more than a block of 512 or 1024 bytes.
  expect_write_error(attend("--output out.npy"), "", "out.npy: cannot be written: File too large",
                     "ulimit -f 1;");
}

}  // namespace
}  // namespace vkattn::tests
