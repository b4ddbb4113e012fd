// Every barrier that the library records is needed, and synchronization validation sees that: if any one of
// them is left out, validation reports a hazard.
#include <vkattn/cache.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/merge.hpp>
#include <vkattn/multi_head_attention.hpp>
#include <vkattn/sequence.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "gpu/layer_run.hpp"
#include "gpu/support.hpp"
#include "harness/backward_run.hpp"
#include "harness/matmul_run.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::tests {
namespace {

using harness::BackwardRun;
using harness::with_all_gradients;

/// Stands between the library and vkCmdPipelineBarrier. It counts barriers and leaves one of them out.
struct BarrierFilter {
  static inline PFN_vkCmdPipelineBarrier real = nullptr;
  static inline int count = 0;      ///< barriers recorded since reset()
  static inline int left_out = -1;  ///< the number of the barrier that is not recorded; -1: all are recorded

  static void reset(int without) {
    count = 0;
    left_out = without;
  }

  static VKAPI_ATTR void VKAPI_CALL record(VkCommandBuffer commands, VkPipelineStageFlags from,
                                           VkPipelineStageFlags to, VkDependencyFlags flags,
                                           std::uint32_t memory_count, const VkMemoryBarrier* memory,
                                           std::uint32_t buffer_count, const VkBufferMemoryBarrier* buffers,
                                           std::uint32_t image_count, const VkImageMemoryBarrier* images) {
    if (count++ == left_out) return;
    real(commands, from, to, flags, memory_count, memory, buffer_count, buffers, image_count, images);
  }
};

/// Has a device of a validated runtime. Its barriers go through the filter.
class BarrierTest : public testing::Test {
 protected:
  void SetUp() override {
    // Layers of 2025 report a message of one kind only ten times.
    ASSERT_EQ(setenv("VK_KHRONOS_VALIDATION_ENABLE_MESSAGE_LIMIT", "false", 1), 0);
    RuntimeOptions options{.validation = true, .pipeline_cache = false};
    auto made = Runtime::create(options);
    if (!made.ok()) GTEST_SKIP() << made.error().message;
    runtime_ = std::make_unique<Runtime>(std::move(made).value());
    device_ = runtime_->device().state().seen_through(runtime_->device().capabilities());
    auto& functions = own_state(*device_).vk;
    BarrierFilter::real = functions.vkCmdPipelineBarrier;
    functions.vkCmdPipelineBarrier = &BarrierFilter::record;
  }

  [[nodiscard]] std::size_t messages() const { return runtime_->validation_messages().size(); }

  /// Checks the barriers of recording a plan once.
  template <class Plan, class Tensors>
  void expect_of_plan(const std::string& what, const Plan& plan, const Tensors& tensors, int least,
                      std::size_t unseen = 0) {
    const Buffer workspace = must(runtime_->create_buffer(1U << 20U));
    const auto bindings = bound_to(plan, tensors, workspace.range());
    expect_each_barrier_is_missed(
        what, [&](VkCommandBuffer commands) { plan.record(commands, bindings); }, least, unseen);
  }
  /// Validation reports nothing for all commands. It reports a hazard if any barrier is missing, except the
  /// last `unseen` ones.
  void expect_each_barrier_is_missed(const std::string& what,
                                     const std::function<void(VkCommandBuffer)>& record, int least,
                                     std::size_t unseen = 0) {
    const std::vector<bool> missed = missed_barriers(what, record);
    ASSERT_GE(missed.size(), static_cast<std::size_t>(least)) << what;
    for (std::size_t i = 0; i < missed.size() - unseen; ++i) {
      EXPECT_TRUE(missed[i]) << what << ": barrier " << i + 1 << " of " << missed.size()
                             << " was left out and nothing was reported";
    }
    total_ += static_cast<int>(missed.size());
  }

  /// For each barrier, whether validation reports a hazard without it. With all barriers it must report
  /// nothing. docs/reliability.md has the printed lines.
  std::vector<bool> missed_barriers(const std::string& what,
                                    const std::function<void(VkCommandBuffer)>& record) {
    std::vector<bool> missed;
    const auto messages_without = [&](int barrier) {
      BarrierFilter::reset(barrier);
      const std::size_t before = messages();
      const auto done = runtime_->execute(record);
      EXPECT_TRUE(done.ok()) << what << ": " << done.error().message;
      return messages() - before;
    };
    EXPECT_EQ(messages_without(-1), 0U) << what << ": " << runtime_->validation_messages().back();
    const int barriers = BarrierFilter::count;
    for (int i = 0; i < barriers; ++i) {
      missed.push_back(messages_without(i) > 0);
      if (!missed.back()) continue;
      const std::string& last = runtime_->validation_messages().back();
      EXPECT_TRUE(has(last, "_AFTER_")) << what << ": " << last;
    }
    std::printf("| %s | %d | %td |\n", what.c_str(), barriers,
                std::count(missed.begin(), missed.end(), true));
    return missed;
  }

  /// Records the problem once, or twice on the same workspace with a barrier between.
  void expect_of_problem(const char* text, const char* kernel, std::uint32_t kv_splits, int times, int least,
                         std::size_t unseen = 0, const std::optional<Device>& device = std::nullopt) {
    const Problem problem = parsed(text);
    const auto plan =
        must(make_plan(*runtime_, problem.desc,
                       {.kernel = kernel, .device = device ? device : device_, .kv_splits = kv_splits}));
    const harness::ProblemRun run = ready_run(problem, *runtime_);
    const auto workspace = must(runtime_->create_workspace(plan));
    const auto bindings = must(plan.make_bindings(run.tensors(), workspace.range()));
    const std::string in_parts =
        kv_splits > 1 ? " in " + std::to_string(kv_splits) + " parts" : std::string();
    expect_each_barrier_is_missed(
        std::string("attention `") + text + "`" + in_parts + (times == 2 ? ", twice" : ""),
        [&](VkCommandBuffer commands) {
          plan.record(commands, bindings);
          if (times == 2) plan.record(commands, bindings, {.wait_for_earlier = true});
        },
        least, unseen);
  }

  std::unique_ptr<Runtime> runtime_;
  std::optional<Device> device_;
  int total_ = 0;
};

TEST_F(BarrierTest, EachBarrierOfAttentionIsNeeded) {
  expect_of_problem("h2 1x512 d32", "lane", 4, 2, 3);             // the parts, then their merge
  expect_of_problem("h2 40x96 d32 mask=bytes", "lane", 1, 2, 3);  // the block mask, then the kernel
  expect_of_problem("h2 40x96 d32 weights=probabilities", "lane", 1, 2, 3);  // the kernel, then the weights
  // Block mask, parts, merge. The second and the third pass each have a barrier before them, and these two
  // are enough.
  expect_of_problem("h2 8x1536 d32 mask=bytes", "lane", 3, 1, 2);
  EXPECT_GE(total_, 11);
}

/// Copies of small tensors, the kernel in two windows that share their buffer, and the results.
TEST_F(BarrierTest, OfFewStorageBuffers) {
  Capabilities few = device_->capabilities();
  few.max_stage_storage_buffers = 4;
  few.max_storage_buffer_range = 24 * 1024;
  auto device = device_->state().seen_through(few);
  own_state(device).vk = own_state(*device_).vk;  // through the filter
  expect_of_problem("4x250 d32 kv_lengths=200 alibi=given lse", "lane", 2, 2, 4, 0, device);
}

// The last workgroup of a tile combines its parts, and counts them. Only the barrier between two executions
// is left. Validation does not see it, because both only write what they share.
TEST_F(BarrierTest, OfPartsThatTheKernelCombines) {
  const Capabilities& c = device_->capabilities();
  const std::string reason = reason_against(*runtime_, "decode", "h2 1x1024 d32");
  if (!reason.empty() || !c.vulkan_memory_model_device_scope || !c.mapped_device_memory) {
    GTEST_SKIP() << "the device combines parts in a pass. " << reason;
  }
  for (const char* const problem : {"h2 1x1024 d32", "h2 1x1024 d32 softcap=5"}) {
    const int before = total_;
    expect_of_problem(problem, "decode", 4, 1, 0);
    EXPECT_EQ(total_, before) << "there is no barrier in an execution";
    expect_of_problem(problem, "decode", 4, 2, 1, 1);
  }
}

// A plan for push descriptors writes its parameters into the workspace while it is recorded. Executions that
// share the workspace are separated as docs/embedding.md says: by wait_for_earlier, or by a barrier of the
// caller.
TEST_F(BarrierTest, OfParametersWithPushDescriptors) {
  if (!device_->capabilities().push_descriptors) GTEST_SKIP() << "the device has no VK_KHR_push_descriptor";
  const Problem problem = parsed("h2 1x512 d32 softcap=30");
  const auto plan = must(AttentionPlan::create(*device_, problem.desc,
                                               {.kernel = "lane", .kv_splits = 4, .push_descriptors = true}));
  const harness::ProblemRun run = ready_run(problem, *runtime_);
  const auto workspace = must(runtime_->create_workspace(plan));
  const auto record = [&](VkCommandBuffer commands, const RecordOptions& how) {
    const auto recorded = plan.record(commands, run.tensors(), workspace.range(), how);
    EXPECT_TRUE(recorded.ok()) << recorded.error().message;
  };
  // Each execution needs a barrier after its parameters, and one between the parts and their merge. Another
  // separates the two executions.
  expect_each_barrier_is_missed(
      "attention in 4 parts with features, by push descriptors, twice",
      [&](VkCommandBuffer commands) {
        record(commands, {});
        record(commands, {.wait_for_earlier = true});
      },
      5);
  expect_each_barrier_is_missed(
      "the same, with the caller's barrier in place of `wait_for_earlier`",
      [&](VkCommandBuffer commands) {
        record(commands, {});
        VkMemoryBarrier between{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
        const PlanRequirements needs = plan.requirements();
        between.srcAccessMask = needs.last_access;
        between.dstAccessMask = needs.first_access;
        BarrierFilter::record(commands, needs.last_stages, needs.first_stages, 0, 1, &between, 0, nullptr, 0,
                              nullptr);
        record(commands, {});
      },
      5);
}

TEST_F(BarrierTest, TheBarrierOfAnAppendIsNeeded) {
  AppendDesc desc;
  desc.batch = 2;
  desc.kv_heads = desc.new_length = 1;
  desc.head_dim = 16;
  desc.cache_length = 32;
  desc.has_positions = desc.writes_kv_lengths = true;
  const auto plan = must(AppendPlan::create(*device_, desc));
  const auto zeros = [&](std::int64_t count) {
    return filled_buffer(*runtime_, std::vector<float>(static_cast<std::size_t>(count)));
  };
  const std::int64_t row = desc.head_dim;
  const Buffer key = zeros(2 * row), value = zeros(2 * row), positions = zeros(2),
               cache_key = zeros(2 * 32 * row), cache_value = zeros(2 * 32 * row);
  AppendTensors tensors;
  tensors.key = key.range();
  tensors.value = value.range();
  tensors.cache_key = cache_key.range();
  tensors.cache_value = cache_value.range();
  // The lengths use the buffer of the positions that the other dispatches read.
  tensors.positions = tensors.kv_lengths = positions.range();
  expect_of_plan("an append of keys, values and lengths", plan, tensors, 1);
}

// Two chunks with a pass over rows and a pass over keys each, then the sums over heads.
TEST_F(BarrierTest, OfBackwardPasses) {
  const Problem problem = parsed("8x128 d8 f16 sinks");
  BackwardDesc desc = with_all_gradients(problem.desc);
  desc.has_grad_lse = true;
  const auto run = must(BackwardRun::create(*runtime_, problem, desc));
  PlanOptions options;
  options.chunk_keys = 64;
  const auto plan = must(BackwardPlan::create(*device_, desc, options));
  expect_of_plan("gradients of attention in 2 chunks", plan, run.tensors(), 4);
  if (!device_->capabilities().push_descriptors) return;
  options.push_descriptors = true;
  const auto pushing = must(BackwardPlan::create(*device_, desc, options));
  const auto larger = must(runtime_->create_workspace(pushing));
  expect_each_barrier_is_missed(
      "the same by push descriptors",
      [&](VkCommandBuffer commands) {
        EXPECT_TRUE(pushing.record(commands, run.tensors(), larger.range()).ok());
      },
      5);
}

// The rows' numbers; then, in two chunks, a pass over keys and the product of the gradients that it has kept;
// then, without a barrier, the sums over heads, one of which is the gradient of the sinks. Validation does
// not see the first barrier: the keys' pass reads the rows' numbers in the binding that it writes.
TEST_F(BarrierTest, OfBackwardPassesThatKeepGradients) {
  const Problem problem = parsed("8x128 d8 f16 sinks");
  const BackwardDesc desc = with_all_gradients(problem.desc);
  const PlanOptions options{.kernel = "matrix2", .chunk_keys = 64};
  const auto plan = BackwardPlan::create(*device_, desc, options);
  if (!plan.ok()) GTEST_SKIP() << plan.error().message;
  const auto run = must(BackwardRun::create(*runtime_, problem, desc));
  const Buffer workspace = must(runtime_->create_buffer(1U << 20U));
  const auto bindings = bound_to(*plan, run.tensors(), workspace.range());
  const std::vector<bool> missed =
      missed_barriers("gradients of attention in 2 chunks that keep gradients of scores",
                      [&](VkCommandBuffer commands) { plan->record(commands, bindings); });
  ASSERT_EQ(missed.size(), 4U);
  for (std::size_t i = 1; i < missed.size(); ++i) EXPECT_TRUE(missed[i]) << i;
}

// The products of parts, then their sum.
TEST_F(BarrierTest, OfProductsInParts) {
  MatmulDesc desc{.rows = 4, .columns = 24, .inner = 1024, .has_bias = true};
  const auto run = must(harness::MatmulRun::create(*runtime_, {desc}));
  const auto plan = must(MatmulPlan::create(*device_, desc, {.inner_splits = 4}));
  const auto workspace = must(runtime_->create_workspace(plan));
  const auto bindings = must(plan.make_bindings(run.tensors(), workspace.range()));
  expect_each_barrier_is_missed(
      "a product in 4 parts, twice",
      [&](VkCommandBuffer commands) {
        plan.record(commands, bindings);
        plan.record(commands, bindings, {.wait_for_earlier = true});
      },
      3);
}

// The second plan reads what the first has written, and the third overwrites what the second reads.
TEST_F(BarrierTest, BetweenThePlansOfASequence) {
  const MatmulDesc desc{.rows = 4, .columns = 8, .inner = 8};
  const auto plan = must(MatmulPlan::create(*device_, desc));
  const std::vector<float> ones(64, 1.0F);
  const Buffer a = filled_buffer(*runtime_, ones), b = filled_buffer(*runtime_, ones),
               between = filled_buffer(*runtime_, ones), last = filled_buffer(*runtime_, ones);
  const Buffer workspace = must(runtime_->create_buffer(1U << 16U));
  const auto bound = [&](const Buffer& from, const Buffer& to) {
    return bound_to(plan, MatmulTensors{.a = from.range(), .b = b.range(), .output = to.range()},
                    workspace.range());
  };
  const Bindings first = bound(a, between), second = bound(between, last);
  const SequenceItem items[] = {{&plan, &first, true}, {&plan, &second}, {&plan, &first}};
  const Sequence sequence = must(Sequence::create(items));
  const auto count = static_cast<std::uint32_t>(sequence.dispatches().size());
  expect_each_barrier_is_missed(
      "a sequence of three products", [&](VkCommandBuffer commands) { sequence.record(commands); }, 2);
  expect_each_barrier_is_missed(
      "the same in slices",
      [&](VkCommandBuffer commands) {
        for (std::uint32_t i = 0; i < count; ++i)
          sequence.record(commands, {.first_dispatch = i, .dispatch_count = 1});
      },
      2);
}

// Each weight has a multiplication of its own. The forward pass multiplies, turns Q and K, computes attention
// and multiplies again. The backward pass does all of that in reverse, with sums over the projections of one
// input: each of the last two products adds to what the product before has written. Validation does not see
// those two barriers. It takes a binding that is read and written for written only, and says nothing about
// two writes.
TEST_F(BarrierTest, OfLayers) {
  MultiHeadAttentionDesc desc;
  desc.d_model = 16;
  desc.attention.query_length = 8;
  desc.attention.query_heads = 2;
  desc.packed_weights = false;
  desc.saves_for_gradients = true;
  desc.rotary.style = RotaryStyle::kHalfSplit;
  desc.rotary.dims = 8;
  const auto plan = must(MultiHeadAttentionPlan::create(*device_, desc));
  const auto backward = must(MultiHeadAttentionBackwardPlan::create(*device_, {.forward = desc}));
  auto run = LayerRun::create(*runtime_, desc, random_layer_data(desc, 1), {});
  run.execute(plan);
  run.execute(backward);
  expect_of_plan("a layer", plan, run.tensors(), 3);
  expect_of_plan("the gradients of a layer", backward, run.backward_tensors(), 6, 2);
}

// Projections, the append, attention over the cache with the new rows, and the output with the mean of the
// weights.
TEST_F(BarrierTest, OfADecodingLayerWithAveragedWeights) {
  MultiHeadAttentionDesc desc;
  desc.d_model = 16;
  desc.has_cache = desc.has_averaged_weights = true;
  desc.rotary.style = RotaryStyle::kHalfSplit;
  desc.rotary.dims = 8;
  AttentionDesc& heads = desc.attention;
  heads.batch = 2;
  heads.query_length = 1;
  heads.query_heads = 2;
  heads.kv_length = 12;
  heads.causal = true;
  heads.align = Align::kBottomRight;
  heads.weights = WeightsStage::kProbabilities;
  const auto plan = must(MultiHeadAttentionPlan::create(*device_, desc));
  auto run = LayerRun::create(*runtime_, desc, random_layer_data(desc, 1), {});
  const std::vector<float> zeros(2 * 12 * 16);
  const Buffer key = filled_buffer(*runtime_, zeros), value = filled_buffer(*runtime_, zeros);
  const Buffer lengths = filled_buffer(*runtime_, std::vector<std::int32_t>{3, 5});
  MultiHeadAttentionTensors tensors = run.tensors();
  tensors.cache_key = key.range();
  tensors.cache_value = value.range();
  tensors.positions = tensors.attention.kv_lengths = lengths.range();
  expect_of_plan("a layer over a cache that averages weights", plan, tensors, 4);
}

TEST_F(BarrierTest, OfMerges) {
  const auto plan = must(MergePlan::create(*device_, {8, 32, 2}));
  const std::vector<float> zeros(2 * 8 * 32);
  const Buffer parts = filled_buffer(*runtime_, zeros), lse = filled_buffer(*runtime_, zeros);
  // In place: the merged lse overwrites an lse that all outputs read.
  expect_of_plan("a merge of 2 parts in place", plan,
                 MergeTensors{parts.range(), lse.range(), parts.range(), lse.range()}, 1);
  // Elsewhere nothing is overwritten that is still read. But the plan does not know the places when it
  // records, and records the same barrier.
  const Buffer output = filled_buffer(*runtime_, zeros), merged = filled_buffer(*runtime_, zeros);
  const auto elsewhere =
      must(plan.make_bindings({parts.range(), lse.range(), output.range(), merged.range()}));
  const std::vector<bool> missed = missed_barriers(
      "the same, not in place", [&](VkCommandBuffer commands) { plan.record(commands, elsewhere); });
  EXPECT_EQ(missed, std::vector<bool>{false});
}

}  // namespace
}  // namespace vkattn::tests
