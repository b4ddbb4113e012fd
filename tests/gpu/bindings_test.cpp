// Bindings: whole words, rewriting, push descriptors. tests/unit/every_operation_test.cpp has the refusals
// for each tensor of each operation.
#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

class BindingsTest : public KernelTest {
 protected:
  static AttentionPlan plan_of(const Problem& problem) {
    // These tests bind no workspace.
    return must(make_plan(runtime(), problem.desc, {.kernel = kernel(), .kv_splits = 1}));
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, BindingsTest, testing::ValuesIn(kKernelNames), kernel_test_name);

/// Ranges end with whole words on every device, even if it has 16-bit storage.
TEST_P(BindingsTest, RangesEndWithWholeWords) {
  const Problem problem = parsed("3x5 d7 f16 aligned=0");
  const AttentionPlan plan = plan_of(problem);
  EXPECT_EQ(plan.range_bytes(&AttentionTensors::query), 44U) << "42 bytes of elements";
  EXPECT_EQ(plan.range_bytes(&AttentionTensors::query, 2), 42U);
  EXPECT_EQ(plan.range_bytes(&AttentionTensors::lse), 0U);
  EXPECT_EQ(plan.range_bytes(&AttentionTensors::block_mask), 0U);
  const harness::ProblemRun run = ready_run(problem);
  AttentionTensors tensors = run.tensors();
  const VkDeviceSize needed = plan.range_bytes(&AttentionTensors::query, tensors.query.offset);
  tensors.query.size = needed;
  EXPECT_TRUE(plan.make_bindings(tensors).ok());
  tensors.query.size = needed - 1;
  EXPECT_TRUE(is_refused(plan.make_bindings(tensors), ErrorCode::kInvalidArgument,
                         {"32-bit word", std::to_string(needed)}));
}

TEST_P(BindingsTest, BindingsAreUsedAgainAndRewritten) {
  Problem problem = parsed(fitted("h2 33x40 d24 causal lse aligned=0"));
  const AttentionPlan plan = plan_of(problem);
  harness::ProblemRun first = ready_run(problem);
  problem.seed = 2;
  problem.shift = 3;
  harness::ProblemRun second = ready_run(problem);
  auto bindings = must(plan.make_bindings(first.tensors()));
  ASSERT_TRUE(runtime().execute(plan, bindings).ok());
  expect_right(first);
  ASSERT_TRUE(first.poison_outputs().ok());
  ASSERT_TRUE(runtime().execute(plan, bindings).ok());
  expect_right(first);
  ASSERT_TRUE(plan.rewrite(bindings, second.tensors()).ok());
  ASSERT_TRUE(runtime().execute(plan, bindings).ok());
  expect_right(second);
  AttentionTensors bad = second.tensors();
  bad.key = {};
  EXPECT_FALSE(plan.rewrite(bindings, bad).ok());
}

TEST_P(BindingsTest, BindingsOfAnotherPlanAreNotRun) {
  const Problem problem = parsed(fitted("h2 33x40 d24 lse"));
  const AttentionPlan plan = plan_of(problem);
  const AttentionPlan other = plan_of(parsed(fitted("b3 h4 9x12 d24")));
  harness::ProblemRun run = ready_run(problem);
  const auto bindings = must(plan.make_bindings(run.tensors()));
  EXPECT_TRUE(plan.has_made(bindings));
  EXPECT_FALSE(other.has_made(bindings));
  EXPECT_TRUE(is_refused(runtime().execute(other, bindings), ErrorCode::kInvalidArgument, {"another plan"}));
#ifndef VKATTN_CHECKED  // a Debug build of the core asserts there
  must(runtime().execute([&](VkCommandBuffer commands) {
    EXPECT_EQ(other.record(commands, bindings), RecordStatus::kOtherPlan);
  }));
#endif
  const auto untouched = must(run.check());
  EXPECT_EQ(untouched.elements_unwritten, untouched.elements_checked) << "nothing was recorded";
  ASSERT_TRUE(runtime().execute(plan, bindings).ok());
  expect_right(run);
}

TEST_P(BindingsTest, TwoProblemsInOneSubmission) {
  const Problem problem = parsed(fitted("h2 33x40 d24 lse"));
  const AttentionPlan plan = plan_of(problem);
  const Bound first = bound(plan, problem), second = bound(plan, problem);
  const auto record = [&](VkCommandBuffer commands) {
    plan.record(commands, first.bindings);
    plan.record(commands, second.bindings);
  };
  ASSERT_TRUE(runtime().execute(record).ok());
  expect_right(first.run);
  expect_right(second.run);
}

TEST_P(BindingsTest, PushDescriptors) {
  if (!capabilities().push_descriptors) GTEST_SKIP() << "the device has no VK_KHR_push_descriptor";
  for (const char* text :
       {"h2 33x40 d24 causal lse", "b3 hq4 hkv2 33x65 d32 f16 kv_lengths=0,65,20 shift=3"}) {
    for (const bool windows : {false, true}) {
      const Problem problem = parsed(fitted(text));
      const Device device = device_with([&](Capabilities& c) {
        if (windows) c.max_storage_buffer_range = 16 * 1024;
      });
      const auto plan =
          must(AttentionPlan::create(device, problem.desc, {.kernel = kernel(), .push_descriptors = true}));
      const harness::ProblemRun run = ready_run(problem);
      const Buffer workspace = runtime().create_workspace(plan).value();
      must(runtime().execute(
          [&](VkCommandBuffer commands) { must(plan.record(commands, run.tensors(), workspace.range())); }));
      expect_right(run);
      EXPECT_FALSE(plan.make_bindings(run.tensors()).ok()) << "the plan is for recording with tensors";
    }
  }
}

}  // namespace
}  // namespace vkattn::tests
