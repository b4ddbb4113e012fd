// `vkattn tune`, as a user runs it.
#include <vkattn/runtime.hpp>

#include <gtest/gtest.h>

#include <string>

#include "runtime/tuning_file.hpp"
#include "support/temp_folder.hpp"
#include "tool.hpp"

namespace vkattn::tests {
namespace {

class ToolTune : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no Vulkan device";
  }
  [[nodiscard]] std::string file(const char* name) const { return (folder_ / name).string(); }
  TempFolder folder_;
};

TEST_F(ToolTune, WritesWhatPlansRead) {
  const auto tuned =
      run_tool({"tune", "h2 40x64 d16", "--max-seconds", "3", "--output", file("tuning.json")});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  EXPECT_NE(tuned.out.find("h2 40x64 d16"), std::string::npos) << tuned.out;
  const auto used = run_tool({"kernels", "h2 50x70 d16"}, "VKATTN_TUNING=" + file("tuning.json"));
  ASSERT_EQ(used.exit_code, 0) << used.err;
  EXPECT_NE(used.out.find("measured for 'h2 40x64 d16'"), std::string::npos) << used.out;
  const auto named = run_tool({"kernels", "h2 50x70 d16", "--tuning", file("tuning.json")});
  EXPECT_NE(named.out.find("measured for 'h2 40x64 d16'"), std::string::npos) << named.out << named.err;
  const auto more = run_tool({"tune", "h2 1x300 d16", "--max-seconds", "3", "--output", file("tuning.json")});
  ASSERT_EQ(more.exit_code, 0) << more.err;
  const std::string text = read_file(folder_ / "tuning.json");
  EXPECT_NE(text.find("h2 40x64 d16"), std::string::npos) << "what was there stays";
  EXPECT_NE(text.find("h2 1x300 d16"), std::string::npos);
  EXPECT_EQ(folder_.file_count(), 1U) << "no temporary file is left";
}

TEST_F(ToolTune, ForeignFilesAreNotTouched) {
  write_file(folder_ / "notes.txt", "my notes");
  expect_refusal({"tune", "h2 40x64 d16", "--output", file("notes.txt")}, 2, "no vkattn tuning file");
  EXPECT_EQ(read_file(folder_ / "notes.txt"), "my notes");
}

TEST_F(ToolTune, WrongArgumentsAreRefused) {
  expect_refusal({"tune"}, 2, "tune needs a problem");
  expect_refusal({"tune", "h2 40x64 d16", "--max-seconds", "0"}, 2, "--max-seconds");
  expect_refusal({"tune", "h2 40x64 d16", "--output", file("no/folder/t.json")}, 2, "t.json");
}

TEST_F(ToolTune, ForeignTuningFilesAreSaidToBeIgnored) {
  write_file(folder_ / "notes.txt", "my notes");
  const auto used = run_tool({"kernels", "h2 50x70 d16"}, "VKATTN_TUNING=" + file("notes.txt"));
  ASSERT_EQ(used.exit_code, 0) << used.err;
  EXPECT_NE(used.out.find("tuning: ignored " + file("notes.txt")), std::string::npos) << used.out;
  for (const std::string& unusable : {file("notes.txt"), file("missing.json")}) {
    const auto timed = run_tool({"bench", "h2 8x8 d8", "--repeat", "3", "--tuning", unusable});
    EXPECT_EQ(timed.exit_code, 0) << timed.err;
    EXPECT_NE(timed.err.find("vkattn: warning: tuning: "), std::string::npos) << timed.err;
    EXPECT_NE(timed.err.find(unusable), std::string::npos) << timed.err;
  }
}

}  // namespace
}  // namespace vkattn::tests
