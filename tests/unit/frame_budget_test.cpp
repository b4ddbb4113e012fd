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
