// Which kernel is used by the times that the device's first ones took, and what is said of it.
#include "runtime/first_use.hpp"

#include <vkattn/self_test.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace vkattn::detail {
namespace {

std::size_t chosen(const std::vector<std::uint64_t>& times) {
  return kernel_by_time(times);
}

TEST(KernelByTime, SmallDifferencesLeaveTheOrder) {
  EXPECT_EQ(chosen({100, 100}), 0U);
  EXPECT_EQ(chosen({100, 68}), 0U);
  EXPECT_EQ(chosen({149, 100, 120}), 0U);
  EXPECT_EQ(chosen({100, 3000, 70}), 0U);
}

TEST(KernelByTime, ALargeDifferenceOverrulesIt) {
  EXPECT_EQ(chosen({150, 100}), 1U);
  EXPECT_EQ(chosen({1'000'000'000'000, 700'000'000}), 1U) << "0.0007 times as fast";
  EXPECT_EQ(chosen({1000, 900, 100}), 2U);
}

TEST(KernelByTime, AmongFastKernelsTheOrderDecides) {
  EXPECT_EQ(chosen({1000, 105, 100}), 1U) << "the third is faster by noise only";
  EXPECT_EQ(chosen({1000, 100, 105}), 1U);
  EXPECT_EQ(chosen({1000, 151, 100}), 2U);
}

TEST(KernelByTime, WhatIsNotKnownChangesNothing) {
  EXPECT_EQ(chosen({}), 0U);
  EXPECT_EQ(chosen({7}), 0U);
  EXPECT_EQ(chosen({0, 1}), 0U);
  EXPECT_EQ(chosen({1000, 0}), 0U);
  EXPECT_EQ(chosen({1000, 0, 900}), 0U);
  EXPECT_EQ(chosen({1000, 0, 100}), 2U) << "a kernel with a time goes before one without";
  EXPECT_EQ(chosen({0, 0, 0}), 0U);
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
