// The unfused baseline: as right as the kernels that are measured against it.
#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

class Unfused : public GpuTest {
 protected:
  static RunOptions unfused() { return RunOptions{"unfused"}; }
};

TEST_F(Unfused, MatchesTheReference) {
  for (const char* problem : part_of(
           {"1x1 d1 lse", "h2 33x65 d17 dv5 lse", "b2 hq6 hkv2 70x129 d64 f16 causal lse",
            "b2 hq4 hkv1 9x300 d40 bf16 causal align=bottom-right", "b3 h2 5x77 d24 kv_lengths=0,1,77 lse",
            "hq8 hkv2 65x33 d33 dv40 layout=bshd pad=3 shift=1 output=f16 lse",
            "40x20 d16 causal align=-20 lse", "h2 130x130 d16 layout=packed f16 causal", "4x0 d8 lse",
            "hq4 hkv2 q1 kv1000 d128 f16"})) {
    EXPECT_TRUE(runs_right(runtime(), problem, unfused()));
  }
}

TEST_F(Unfused, WithoutSixteenBitStorage) {
  RunOptions options = unfused();
  options.device = device_with([](Capabilities& c) { c.storage_buffer_16bit = false; });
  EXPECT_TRUE(runs_right(runtime(), "h3 25x50 d17 f16 lse", options));
}

TEST_F(Unfused, KeepsTheMatrixInTheWorkspace) {
  RunOptions options = unfused();
  options.inspect = [](const AttentionPlan& plan) {
    EXPECT_EQ(plan.workspace_bytes(), 2U * 3U * 40U * 50U * 4U);
    ASSERT_EQ(plan.dispatches().size(), 3U);
    EXPECT_EQ(plan.dispatches()[0].pass, "unfused");
    EXPECT_EQ(plan.dispatches()[1].pass, "softmax");
    EXPECT_EQ(plan.dispatches()[2].pass, "weighted_sum");
  };
  EXPECT_TRUE(runs_right(runtime(), "b2 h3 40x50 d8 lse", options));
}

TEST_F(Unfused, AMatrixThatDoesNotFitIsRefused) {
  RunOptions options = unfused();
  options.device = device_with([](Capabilities& c) { c.max_storage_buffer_range = 64 * 1024; });
  const auto plan = make_plan(runtime(), parsed("h2 100x100 d8").desc, options);
  ASSERT_FALSE(plan.ok());
  EXPECT_TRUE(names(plan.error(), ErrorCode::kLimitExceeded, {"80000", "maxStorageBufferRange", "65536"}));
}

TEST_F(Unfused, MoreKeysThanPartsAreRefused) {
  RunOptions options = unfused();
  options.device = device_with([](Capabilities& c) { c.max_loop_iterations = 0; });
  const auto plan = make_plan(runtime(), parsed("1x1100000 d8").desc, options);
  ASSERT_FALSE(plan.ok());
  EXPECT_TRUE(names(plan.error(), ErrorCode::kLimitExceeded, {"1048560", "1100000"}));
}

TEST_F(Unfused, GridsAreFoldedAndSplit) {
  RunOptions options = unfused();
  options.device = device_with([](Capabilities& c) { c.max_workgroup_count = {3, 2, 1}; });
  EXPECT_TRUE(runs_right(runtime(), "b2 h5 70x90 d16 causal lse", options));
}

}  // namespace
}  // namespace vkattn::tests
