// Slices that fit a frame, on made-up dispatches.
#include <vkattn/frame_budget.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace vkattn {
namespace {

std::vector<DispatchInfo> dispatches(std::size_t count, double ns) {
  std::vector<DispatchInfo> all(count);
  for (DispatchInfo& each : all) each.estimated_ns = ns;
  return all;
}

TEST(FrameBudget, EveryDispatchComesOnceAndInOrder) {
  FrameBudget frames(dispatches(100, 10));
  std::uint32_t next = 0;
  for (double budget = 1; !frames.is_done(); budget *= 1.5) {
    const RecordOptions slice = frames.next(budget);
    EXPECT_EQ(slice.first_dispatch, next);
    ASSERT_GE(slice.dispatch_count, 1U);
    next += slice.dispatch_count;
    frames.measured(slice, 10.0 * slice.dispatch_count);
  }
  EXPECT_EQ(next, 100U);
  EXPECT_EQ(frames.next(1e9).dispatch_count, 0U);
  frames.restart();
  EXPECT_EQ(frames.next(1e9).dispatch_count, 100U);
}

TEST(FrameBudget, SlicesAreOneDispatchUntilSomethingWasMeasured) {
  FrameBudget frames(dispatches(10, 1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(frames.next(1e9).dispatch_count, 1U);
  frames.measured({.first_dispatch = 0, .dispatch_count = 1}, 1);
  EXPECT_EQ(frames.next(1e9).dispatch_count, 7U);
}

// Until a slice took longer than its budget, 2.5 times the expected time must fit.
TEST(FrameBudget, ADeviceOfAnotherSpeedIsBelievedAfterTwoMeasurements) {
  FrameBudget frames(dispatches(1000, 10000));
  const RecordOptions one{.first_dispatch = 0, .dispatch_count = 1};
  frames.measured(one, 100000);  // ten times slower than estimated
  EXPECT_EQ(frames.next(2.51e6).dispatch_count, 10U);
  frames.measured(one, 100000);
  frames.measured(one, 900000);
  EXPECT_NEAR(frames.estimated_ns(one), 100000, 1) << "a slice that had to wait";
  frames.measured(one, 100000);
  frames.measured(one, 200000);
  EXPECT_NEAR(frames.estimated_ns(one), 200000, 1) << "slower than usual twice within three";
  frames.measured(one, 20000);
  frames.measured(one, 20000);
  EXPECT_NEAR(frames.estimated_ns(one), 20000, 1);
  EXPECT_EQ(frames.next(2.51e6).dispatch_count, 50U);
}

TEST(FrameBudget, AFirstSliceThatWaitedForTheCompilerIsForgotten) {
  FrameBudget frames(dispatches(1000, 10000));
  frames.measured(frames.next(2.51e6), 2e9);
  const RecordOptions second = frames.next(2.51e6);
  EXPECT_EQ(second.dispatch_count, 1U);
  frames.measured(second, 20000);
  EXPECT_EQ(frames.next(2.51e6).dispatch_count, 50U);
  EXPECT_NEAR(frames.estimated_ns(second), 20000, 1);
  frames.measured(second, 10000);
  EXPECT_NEAR(frames.estimated_ns(second), 20000, 1) << "the third is believed if the fourth agrees";
  frames.measured(second, 10000);
  EXPECT_NEAR(frames.estimated_ns(second), 10000, 1);
}

// Plans in a row: those without estimates, as appends, count as a launch does, and one dispatch that is
// longer than the budget has a slice of its own.
TEST(FrameBudget, DispatchesOfSeveralPlansAreDealtOutTogether) {
  std::vector<DispatchInfo> all;
  for (const double ns : {0.0, 8000.0, 6000.0, 50000.0, 0.0, 0.0, 1.0}) all.emplace_back().estimated_ns = ns;
  FrameBudget frames(all);
  EXPECT_DOUBLE_EQ(frames.estimated_ns({}), 2000 + 8000 + 6000 + 50000 + 3 * 2000);
  frames.measured(frames.next(1), 2000);
  std::vector<std::uint32_t> counts;
  while (!frames.is_done()) counts.push_back(frames.next(2.5 * 14001).dispatch_count);
  EXPECT_EQ(counts, (std::vector<std::uint32_t>{2, 1, 3}));
}

// Passes have corrections of their own: a slow append makes no attention slow.
TEST(FrameBudget, EachPassIsCorrectedByItself) {
  std::vector<DispatchInfo> all = dispatches(8, 10000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].pass = i < 2 ? "append" : "tile";
  FrameBudget frames(all);
  const RecordOptions append{.first_dispatch = 0, .dispatch_count = 1},
      tile{.first_dispatch = 2, .dispatch_count = 1};
  frames.measured(append, 100000);
  EXPECT_DOUBLE_EQ(frames.estimated_ns(tile), 100000) << "not measured yet: taken for as slow";
  frames.measured(tile, 5000);
  EXPECT_DOUBLE_EQ(frames.estimated_ns(append), 100000);
  EXPECT_DOUBLE_EQ(frames.estimated_ns(tile), 5000);
  EXPECT_EQ(frames.next(2.5 * 201000).dispatch_count, 2U);
  EXPECT_EQ(frames.next(2.5 * 21000).dispatch_count, 4U);
  // A slice with both: each becomes slower by the same factor.
  frames.measured({.first_dispatch = 0, .dispatch_count = 3}, 2 * 205000);
  EXPECT_DOUBLE_EQ(frames.estimated_ns(append), 200000);
  EXPECT_DOUBLE_EQ(frames.estimated_ns(tile), 10000);
}

// The estimate of a pass may be far off, and its first execution may wait for the driver's compiler: a
// dispatch that was not measured yet shares a slice with nothing.
TEST(FrameBudget, APassThatWasNotMeasuredComesAlone) {
  std::vector<DispatchInfo> all = dispatches(6, 10000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].pass = i % 3 == 0 ? "append" : "tile";
  FrameBudget frames(all);
  frames.measured(frames.next(1e9), 1);
  EXPECT_EQ(frames.next(1e9).dispatch_count, 1U) << "tile";
  EXPECT_EQ(frames.next(1e9).dispatch_count, 1U);
  EXPECT_EQ(frames.next(1e9).dispatch_count, 1U) << "append, and no tile with it";
  frames.measured({.first_dispatch = 1, .dispatch_count = 1}, 1e8);
  EXPECT_DOUBLE_EQ(frames.estimated_ns({.first_dispatch = 0, .dispatch_count = 1}), 1)
      << "as it was measured";
  EXPECT_EQ(frames.next(1e9).dispatch_count, 2U);
}

// A program that divides 0 by 0 must not get the whole plan in one frame.
TEST(FrameBudget, ABudgetThatIsNoNumberIsNone) {
  FrameBudget frames(dispatches(10, 10));
  frames.measured(frames.next(20), 10);
  EXPECT_EQ(frames.next(std::numeric_limits<double>::quiet_NaN()).dispatch_count, 1U);
}

TEST(FrameBudget, NonsenseTeachesNothing) {
  FrameBudget frames(dispatches(10, 10));
  frames.measured({.first_dispatch = 0, .dispatch_count = 1}, 0);
  frames.measured({.first_dispatch = 0, .dispatch_count = 1}, -5);
  frames.measured({.first_dispatch = 10, .dispatch_count = 1}, 5);
  frames.measured({.first_dispatch = 0, .dispatch_count = 1}, std::numeric_limits<double>::infinity());
  frames.measured({.first_dispatch = 0, .dispatch_count = 1}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(frames.next(1e9).dispatch_count, 1U);
  EXPECT_TRUE(FrameBudget({}).is_done());
}

// Frames of a device whose times were made up: 100 dispatches of 95 us, told two frames later, with a budget
// of 2 ms.
class MadeUpDevice {
 public:
  static constexpr double kBudgetNs = 2e6, kDispatchNs = 95000;
  // The shares of `count` slices that took longer than the budget, and of the budget that they took, if
  // `factor` gives the times as multiples of the usual ones.
  template <class Factor>
  std::pair<double, double> run(int count, Factor&& factor) {
    int longer = 0;
    double all = 0;
    for (int i = 0; i < count; ++i) {
      if (in_flight_.size() == 2) {
        frames_.measured(in_flight_[0].first, in_flight_[0].second);
        in_flight_.erase(in_flight_.begin());
      }
      if (frames_.is_done()) frames_.restart();
      const RecordOptions slice = frames_.next(kBudgetNs);
      const double ns = kDispatchNs * slice.dispatch_count * factor();
      in_flight_.emplace_back(slice, ns);
      longer += ns > kBudgetNs ? 1 : 0;
      all += std::min(ns, kBudgetNs);
    }
    return {static_cast<double>(longer) / count, all / (count * kBudgetNs)};
  }

 private:
  FrameBudget frames_{dispatches(100, 10000)};
  std::vector<std::pair<RecordOptions, double>> in_flight_;
};

// The same on every system, unlike the standard library's distributions.
class MadeUpTimes {
 public:
  double uniform() { return static_cast<double>(random_()) / 4294967296.0; }
  double scatter(double by) {
    double normal = -6;
    for (int i = 0; i < 12; ++i) normal += uniform();
    return std::exp(by * normal);
  }
  double scatter_and(double share, double factor) { return scatter(0.05) * (uniform() < share ? factor : 1); }

 private:
  std::mt19937 random_{7};
};

// Whatever the distribution: 0.32 to 0.52 % of many slices, and at most 3 of the first 240, so that 99 % of
// these are within the budget. The less the times scatter, the more of the budget is used.
TEST(FrameBudget, OneSliceIn250TakesLonger) {
  MadeUpTimes times;
  const auto check = [](const char* name, double least_use, auto&& factor) {
    SCOPED_TRACE(name);
    MadeUpDevice device;
    EXPECT_LE(device.run(240, factor).first, 3.5 / 240);
    device.run(2000, factor);
    const auto [longer, use] = device.run(20000, factor);
    EXPECT_NEAR(longer, 0.0042, 0.001);
    EXPECT_GE(use, least_use);
  };
  check("3 %", 0.73, [&] { return times.scatter(0.03); });
  check("10 %", 0.62, [&] { return times.scatter(0.1); });
  check("30 %", 0.35, [&] { return times.scatter(0.3); });
  check("1.3 times in 3 %", 0.62, [&] { return times.scatter_and(0.03, 1.3); });
  check("twice in 20 %", 0.42, [&] { return times.scatter_and(0.2, 2); });
  check("3 times in 1 %", 0.3, [&] { return times.scatter_and(0.01, 3); });
}

// Slices that wait six times as long are longer than the budget with any reserve, so they change none.
TEST(FrameBudget, SlicesThatNoReserveHelpsCostNothing) {
  MadeUpTimes times;
  MadeUpDevice device;
  const auto factor = [&] { return times.scatter_and(0.008, 6); };
  device.run(2000, factor);
  EXPECT_GE(device.run(20000, factor).second, 0.7);
}

TEST(FrameBudget, AChangeOfSpeedIsAnsweredBothWays) {
  MadeUpTimes times;
  MadeUpDevice device;
  double speed = 1;
  const auto factor = [&] { return times.scatter(0.05) * speed; };
  device.run(2000, factor);
  for (const double slower : {1.5, 3.0}) {
    SCOPED_TRACE(slower);
    speed = slower;
    EXPECT_LE(device.run(20, factor).first, 5.5 / 20);
    const auto [longer, use] = device.run(200, factor);
    EXPECT_LE(longer, 2.5 / 200);
    EXPECT_GE(use, 0.4);
    device.run(1500, factor);
    EXPECT_GE(device.run(500, factor).second, 0.75);
    speed = 1;
    device.run(5, factor);
    EXPECT_GE(device.run(50, factor).second, 0.75) << "faster again";
    device.run(1000, factor);
  }
}

// A program that times each dispatch tells no slice's time, so 2.5 times the expected time must still fit.
TEST(FrameBudget, TimesOfSingleDispatchesTeachNoReserve) {
  FrameBudget frames(dispatches(100, 10000));
  for (int i = 0; i < 2000; ++i) {
    if (frames.is_done()) frames.restart();
    const RecordOptions slice = frames.next(2.51e6);
    for (std::uint32_t k = 0; k < slice.dispatch_count; ++k)
      frames.measured({.first_dispatch = slice.first_dispatch + k, .dispatch_count = 1}, 100000);
  }
  frames.restart();
  EXPECT_EQ(frames.next(2.51e6).dispatch_count, 10U);
}

// On a device so slow that one dispatch takes longer than the budget, slices have one. When it is fast again,
// the reserve has grown by the two slices that were in flight at the change, not to its most.
TEST(FrameBudget, SlicesOfOneDispatchAddNothingToTheReserve) {
  MadeUpDevice device;
  device.run(2000, [] { return 1; });
  device.run(2000, [] { return 30; });
  device.run(5, [] { return 1; });
  EXPECT_GE(device.run(50, [] { return 1; }).second, 0.4);
}

}  // namespace
}  // namespace vkattn
