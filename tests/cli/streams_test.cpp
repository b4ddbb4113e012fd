// Standard streams that are closed, full or left by their reader, and files beyond a limit: errors in a
// sentence, and nothing left behind.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/temp_folder.hpp"
#include "tool.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

/// The tool's words end with an error about what was written.
void expect_write_error(const std::vector<std::string>& words, const std::string& before,
                        const std::string& output, const std::string& part) {
  const ToolResult result = run_tool(words, before, output);
  const std::string context = before + " " + command_text(words) + " " + output + " printed: " + result.err;
  EXPECT_EQ(result.exit_code, 2) << context;
  EXPECT_NE(result.err.find("vkattn: "), std::string::npos) << context;
  EXPECT_NE(result.err.find(part), std::string::npos) << context;
}

class ToolStreams : public testing::Test {
 protected:
  [[nodiscard]] std::string file(const char* name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::vector<std::string> tune() const {
    return {"tune", "8x8 d8", "--max-seconds", "1", "--output", file("tuning.json")};
  }
  TempFolder folder_;
};

TEST_F(ToolStreams, WhatCannotBePrintedIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--help"}, {"--version"}, {"bench", "--help"}, {"run", "--help"}, {"bench", "--list"}}) {
    expect_write_error(words, "", "> /dev/full",
                       "standard output cannot be written: No space left on device");
  }
  if (!has_device()) GTEST_SKIP() << "no Vulkan device";
  for (const std::vector<std::string>& words : {std::vector<std::string>{"devices"}, {"kernels", "8x8 d8"}}) {
    expect_write_error(words, "", "> /dev/full",
                       "standard output cannot be written: No space left on device");
  }
  expect_write_error(tune(), "", "> /dev/full", "standard output cannot be written");
  EXPECT_EQ(folder_.file_count(), 0U);
}

TEST_F(ToolStreams, ClosedStreamsAreNoFiles) {
  EXPECT_EQ(run_tool({"--version"}, "", "<&- > " + file("version")).exit_code, 0);
  EXPECT_EQ(read_file(folder_ / "version").rfind("vkattn ", 0), 0U);
  std::filesystem::remove(folder_ / "version");
  expect_write_error({"--version"}, "", ">&-", "standard output cannot be written");
  if (!has_device()) GTEST_SKIP() << "no Vulkan device";
  expect_write_error(tune(), "", "<&- >&-", "standard output cannot be written");
  EXPECT_EQ(folder_.file_count(), 0U) << "what was printed did not become a file";
  const ToolResult plotted =
      run_tool({"bench", "8x8 d8", "--repeat", "3", "--plot", file("plot.svg")}, "", "<&- >&-");
  EXPECT_EQ(plotted.exit_code, 2) << plotted.err;
  EXPECT_EQ(folder_.file_count(), 0U);
}

TEST_F(ToolStreams, AReaderThatLeftIsAnError) {
  if (!has_device()) GTEST_SKIP() << "no Vulkan device";
  expect_write_error(tune(), "", "| true", "standard output cannot be written: Broken pipe");
  EXPECT_EQ(folder_.file_count(), 0U);
}

class ToolRunLimited : public ToolRun {};

TEST_F(ToolRunLimited, FilesBeyondTheLimitAreErrors) {
  // The lavapipe of Mesa 26 keeps device memory in files, and dies where they may not grow.
  if (run_tool(words({}), "ulimit -f 1;").exit_code != 0) GTEST_SKIP() << "the driver needs larger files";
  const TempFolder outputs;  // 2304 bytes of output are more than a block of 512 or 1024
  expect_write_error(words({"--output", (outputs / "out.npy").string()}), "ulimit -f 1;", "",
                     "out.npy: cannot be written: File too large");
  EXPECT_EQ(outputs.file_count(), 0U);
}

}  // namespace
}  // namespace vkattn::tests
