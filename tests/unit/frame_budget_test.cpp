// Slices that fit a frame, on made-up dispatches.
#include <vkattn/frame_budget.hpp>

#include <gtest/gtest.h>

#include <limits>
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

TEST(FrameBudget, ASlowerDeviceIsBelievedAtOnceAndAFasterOneByAndBy) {
  FrameBudget frames(dispatches(1000, 10));
  const RecordOptions one{.first_dispatch = 0, .dispatch_count = 1};
  frames.measured(one, 100);  // ten times slower than estimated
  EXPECT_EQ(frames.next(1000).dispatch_count, 10U);
  frames.measured(one, 200);
  EXPECT_EQ(frames.next(1000).dispatch_count, 5U);
  frames.measured(one, 20);
  EXPECT_EQ(frames.next(1000).dispatch_count, 5U) << "1000 / 196";
  for (int i = 0; i < 500; ++i) frames.measured(one, 20);
  EXPECT_EQ(frames.next(1000).dispatch_count, 49U) << "a little more than 20";
  EXPECT_NEAR(frames.estimated_ns(one), 20, 0.1);
}

TEST(FrameBudget, AFirstSliceThatWaitedForTheCompilerIsForgotten) {
  FrameBudget frames(dispatches(1000, 10));
  const RecordOptions one{.first_dispatch = 0, .dispatch_count = 1};
  frames.measured(one, 2e6);
  EXPECT_EQ(frames.next(1000).dispatch_count, 1U);
  frames.measured(one, 20);
  EXPECT_EQ(frames.next(1000).dispatch_count, 50U);
  frames.measured(one, 10);
  EXPECT_NEAR(frames.estimated_ns(one), 19.8, 0.01) << "the third is believed by and by";
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
  while (!frames.is_done()) counts.push_back(frames.next(14000).dispatch_count);
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
  EXPECT_EQ(frames.next(200000).dispatch_count, 2U);
  EXPECT_EQ(frames.next(21000).dispatch_count, 4U);
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
  EXPECT_EQ(frames.next(1e9).dispatch_count, 1U);
  EXPECT_TRUE(FrameBudget({}).is_done());
}

}  // namespace
}  // namespace vkattn
