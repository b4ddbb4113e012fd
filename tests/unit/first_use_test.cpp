// Chooses a kernel by the times of its first use on a device, and explains the choice.
#include "runtime/first_use.hpp"

#include <vkattn/self_test.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace vkattn::detail {
namespace {

TEST(KernelByTime, LargeDifferencesOverruleTheOrder) {
  struct Case {
    const char* why;
    std::vector<std::uint64_t> times;
    std::size_t chosen;
  };
  const char* const small = "small differences leave the order";
  const char* const large = "a large difference overrules it";
  const char* const fast = "among fast kernels the order decides";
  const char* const unknown = "what is not known changes nothing";
  for (const Case& c : {Case{small, {100, 100}, 0},
                        {small, {100, 68}, 0},
                        {small, {149, 100, 120}, 0},
                        {small, {100, 3000, 70}, 0},
                        {large, {150, 100}, 1},
                        {large, {1'000'000'000'000, 700'000'000}, 1},  // this kernel is 0.0007 times as fast
                        {large, {1000, 900, 100}, 2},
                        {fast, {1000, 105, 100}, 1},  // the third is faster by noise only
                        {fast, {1000, 100, 105}, 1},
                        {fast, {1000, 151, 100}, 2},
                        {unknown, {}, 0},
                        {unknown, {7}, 0},
                        {unknown, {0, 1}, 0},
                        {unknown, {1000, 0}, 0},
                        {unknown, {1000, 0, 900}, 0},
                        {unknown, {0, 0, 0}, 0},
                        {"a kernel with a time goes before one without", {1000, 0, 100}, 2}}) {
    EXPECT_EQ(kernel_by_time(c.times), c.chosen) << c.why << ": " << testing::PrintToString(c.times);
  }
}

TEST(JudgeTimes, TellTheTimes) {
  const TimesVerdict verdict = judge_times(std::vector<KernelTime>{{"matrix", 412'300}, {"tile", 1'234'567}});
  EXPECT_TRUE(verdict.refusals.empty());
  EXPECT_EQ(verdict.note, "timed on this device: matrix 0.412 ms, tile 1.23 ms");
}

TEST(JudgeTimes, RefuseWhatIsSlow) {
  const TimesVerdict verdict = judge_times(
      std::vector<KernelTime>{{"matrix2", 571'400'000}, {"matrix", 9'000'000}, {"tile", 400'000}});
  ASSERT_EQ(verdict.refusals.size(), 2U);
  EXPECT_EQ(verdict.refusals[0].kernel, "matrix2");
  EXPECT_EQ(verdict.refusals[0].reason, "took 571 ms on this device for a problem of this kind, tile 0.4 ms");
  EXPECT_EQ(verdict.refusals[1].kernel, "matrix");
  EXPECT_EQ(verdict.refusals[1].reason, "took 9 ms on this device for a problem of this kind, tile 0.4 ms");
  EXPECT_EQ(verdict.note, "timed on this device: matrix2 571 ms, matrix 9 ms, tile 0.4 ms");
}

TEST(JudgeTimes, OfOneKernelSayNothing) {
  for (const std::vector<KernelTime>& times : {std::vector<KernelTime>{},
                                               {{"matrix", 5}},
                                               {{"matrix", 0}, {"tile", 5}},
                                               {{"matrix", 5}, {"tile", 0}}}) {
    const TimesVerdict verdict = judge_times(times);
    EXPECT_TRUE(verdict.refusals.empty());
    EXPECT_EQ(verdict.note, "");
  }
}

TEST(JudgeTimes, RefuseWhatHasNoTimeBeforeAFastKernel) {
  const TimesVerdict verdict =
      judge_times(std::vector<KernelTime>{{"matrix2", 9'000'000}, {"matrix", 0}, {"tile", 400'000}});
  ASSERT_EQ(verdict.refusals.size(), 2U);
  EXPECT_EQ(verdict.refusals[1].reason, "was not timed on this device, tile 0.4 ms");
}

}  // namespace
}  // namespace vkattn::detail
