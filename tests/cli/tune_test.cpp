// `vkattn tune` as a user runs it.
#include <sys/stat.h>

#include <string>

#include "support/text.hpp"
#include "tool.hpp"

namespace vkattn::tests {
namespace {

using ToolTune = ToolOnDevice;

TEST_F(ToolTune, WritesWhatPlansRead) {
  const std::string options = " --max-seconds 3 --output tuning.json";
  EXPECT_TRUE(has(printed("tune 'h2 40x64 d16'" + options, kUnrolledLoops), "h2 40x64 d16"));
  const std::string measured = "measured for 'h2 40x64 d16'";
  EXPECT_TRUE(has(printed("kernels 'h2 50x70 d16'", "VKATTN_TUNING=tuning.json"), measured));
  EXPECT_TRUE(has(printed("kernels 'h2 50x70 d16' --tuning tuning.json"), measured));
  static_cast<void>(printed("tune 'h2 1x300 d16'" + options, kUnrolledLoops));
  const std::string text = read_file(folder_ / "tuning.json");
  EXPECT_TRUE(has(text, "h2 40x64 d16")) << "what was there stays";
  EXPECT_TRUE(has(text, "h2 1x300 d16"));
  EXPECT_EQ(folder_.file_count(), 1U) << "no temporary file is left";
}

/// Each may stand for hours of work, so neither result may be lost.
TEST_F(ToolTune, TwoAtOnceKeepBothResults) {
  const std::string tool = std::string("'") + VKATTN_TOOL + "' ";
  const std::string options = " --max-seconds 2 --output tuning.json ";
  const ToolResult both = run("tune 'h2 40x64 d16'" + options + "& " + kUnrolledLoops + " " + tool +
                                  "tune 'h2 1x300 d16'" + options + "> second; wait",
                              kUnrolledLoops);
  EXPECT_EQ(both.exit_code, 0) << both.err;
  const std::string text = read_file(folder_ / "tuning.json");
  EXPECT_TRUE(has(text, "h2 40x64 d16"));
  EXPECT_TRUE(has(text, "h2 1x300 d16"));
  EXPECT_EQ(folder_.file_count(), 2U) << "no lock and no temporary file is left";
}

TEST_F(ToolTune, WhatIsMeasuredIsKeptWhereTheFileCannotBeHad) {
  write_file(folder_ / "tuning.json.1", "of another time");
  // Spoils the file after the command has begun.
  const std::string spoil =
      "& until ls *.tmp > ls 2>&1; do sleep 0.01; done; echo my notes > tuning.json; wait $!";
  const ToolResult tune =
      run("tune 'h2 40x64 d16' --max-seconds 3 --output tuning.json > out 2> err " + spoil, kUnrolledLoops);
  EXPECT_EQ(tune.exit_code, 2);
  const std::string error = read_file(folder_ / "err");
  EXPECT_TRUE(has(error, "tuning.json: the file that is there is no vkattn tuning file"));
  EXPECT_TRUE(has(error, "; what was measured is in tuning.json.2"));
  EXPECT_EQ(read_file(folder_ / "tuning.json"), "my notes\n");
  EXPECT_TRUE(has(read_file(folder_ / "tuning.json.2"), "h2 40x64 d16"));
}

TEST_F(ToolTune, MeasuresGradientsAndProducts) {
  const std::string both = "tune '40x64 d16 backward' 'matmul 8x24x300' --max-seconds 3 --output tuning.json";
  const std::string table = printed(both, kUnrolledLoops);
  EXPECT_TRUE(has(table, "40x64 d16 backward"));
  EXPECT_TRUE(has(table, ": rows")) << "block sizes of the product, by whichever kernel was the fastest";
  for (const char* const problem : {"50x70 d16 backward", "matmul 8x20x400"}) {
    const std::string plan = printed("kernels '" + std::string(problem) + "'", "VKATTN_TUNING=tuning.json");
    EXPECT_TRUE(has(plan, "measured for '")) << plan;
  }
}

TEST_F(ToolTune, NamedPipesAreNotWaitedFor) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  refuses("tune 'h2 40x64 d16' --output pipe", "pipe cannot be read: this is a named pipe", 2, "timeout 60");
  const std::string warning = "tuning: ignored pipe, which cannot be read: this is a named pipe";
  EXPECT_TRUE(has(printed("kernels 'h2 50x70 d16'", "VKATTN_TUNING=pipe timeout 60"), warning));
}

TEST_F(ToolTune, ForeignFilesAreNotTouched) {
  write_file(folder_ / "notes.txt", "my notes");
  refuses("tune 'h2 40x64 d16' --output notes.txt", "no vkattn tuning file");
  EXPECT_EQ(read_file(folder_ / "notes.txt"), "my notes");
}

TEST_F(ToolTune, WrongArgumentsAreRefused) {
  expect_refused("tune ",
                 {{"", "tune needs a problem"},
                  {"'h2 40x64 d16' --max-seconds 0", "--max-seconds"},
                  {"'h2 40x64 d16 f16' '40x64 d16 backward' --arithmetic f16",
                   "'40x64 d16 backward' is a backward pass"},
                  {"--suite projections --arithmetic f16", "'matmul 512' is a matrix multiplication"},
                  {"'h2 40x64 d16' --output no/folder/t.json", "t.json"}});
}

TEST_F(ToolTune, ForeignTuningFilesAreSaidToBeIgnored) {
  write_file(folder_ / "notes.txt", "my notes");
  EXPECT_TRUE(has(printed("kernels 'h2 50x70 d16'", "VKATTN_TUNING=notes.txt"), "tuning: ignored notes.txt"));
  ASSERT_EQ(mkfifo((folder_ / "pipe.json").c_str(), 0600), 0);
  for (const std::string unusable : {"notes.txt", "missing.json", "pipe.json"}) {
    const ToolResult timed = run("bench 'h2 8x8 d8' --no-peaks --repeat 3 --tuning " + unusable);
    EXPECT_EQ(timed.exit_code, 0) << timed.err;
    EXPECT_TRUE(has(timed.err, "vkattn: warning: tuning: "));
    EXPECT_TRUE(has(timed.err, unusable));
  }
}

}  // namespace
}  // namespace vkattn::tests
