// A token's step through four layers as one sequence, in slices of every length.
#include <vkattn/cache.hpp>
#include <vkattn/frame_budget.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/sequence.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "allocation_count.hpp"
#include "gpu/mute_device.hpp"
#include "gpu/support.hpp"
#include "runtime/runtime_state.hpp"

namespace vkattn::tests {
namespace {

constexpr std::int64_t kHeads = 2, kDim = 32, kWidth = kHeads * kDim, kCapacity = 256;
constexpr std::int32_t kFilled = 130;  // keys that the cache has before the step
constexpr std::size_t kLayers = 4;

MatmulDesc projection() {
  return {.rows = 1, .columns = kWidth, .inner = kWidth};
}

AppendDesc append_desc() {
  AppendDesc desc;
  desc.query_heads = desc.kv_heads = kHeads;
  desc.new_length = 1;
  desc.head_dim = kDim;
  desc.cache_length = kCapacity;
  desc.has_positions = desc.writes_kv_lengths = true;
  desc.rotary = {RotaryStyle::kHalfSplit, kDim};
  return desc;
}

AttentionDesc attention_desc() {
  AttentionDesc desc;
  desc.query_heads = desc.kv_heads = kHeads;
  desc.query_length = 1;
  desc.kv_length = kCapacity;
  desc.kv_lengths = Lengths::kPerEntry;
  desc.head_dim = kDim;
  return desc;
}

/// Each layer projects, appends, attends and projects. It reads what the layer before has written.
class Token {
 public:
  Token(const Runtime& runtime, const Device& device, const PlanOptions& options)
      : runtime_(runtime),
        projection_(must(MatmulPlan::create(device, projection()))),
        append_(must(AppendPlan::create(device, append_desc()))),
        attention_(must(AttentionPlan::create(device, attention_desc(), options))),
        workspace_(must(runtime.create_buffer(attention_.workspace_bytes() + 4))),
        other_workspace_(must(runtime.create_buffer(projection_.workspace_bytes() + 4))) {
    std::mt19937 random(7);
    const auto numbers = [&](std::int64_t count) {
      std::vector<float> all(static_cast<std::size_t>(count));
      for (float& each : all) each = static_cast<float>(random() % 1000) / 2000.0F - 0.25F;
      buffers_.push_back(filled_buffer(runtime, all));
      return buffers_.back().range();
    };
    BufferRange x = numbers(kWidth);
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      const BufferRange query = numbers(kWidth), attended = numbers(kWidth), next = numbers(kWidth);
      lengths_.push_back(filled_buffer(runtime, std::vector<std::int32_t>{kFilled}));
      add(projection_, MatmulTensors{.a = x, .b = numbers(kWidth * kWidth), .output = query});
      AppendTensors rows{.query = query, .key = x, .value = x, .query_output = query};
      rows.cache_key = numbers(kWidth * kCapacity);
      rows.cache_value = numbers(kWidth * kCapacity);
      rows.positions = rows.kv_lengths = lengths_.back().range();
      add(append_, rows);
      AttentionTensors tensors{.query = query, .key = rows.cache_key, .value = rows.cache_value};
      tensors.kv_lengths = rows.kv_lengths;
      tensors.output = attended;
      add(attention_, tensors);
      add(projection_, MatmulTensors{.a = attended, .b = numbers(kWidth * kWidth), .output = next});
      x = next;
    }
    output_ = x;
  }

  [[nodiscard]] Sequence sequence() const {
    std::vector<SequenceItem> items;
    for (std::size_t i = 0; i < plans_.size(); ++i) items.push_back({plans_[i], bindings_[i].get()});
    return must(Sequence::create(items));
  }
  /// Executes the step, each slice in a submission of its own, and returns the bits of the last layer.
  std::vector<float> result(const Sequence& sequence, std::uint32_t step) {
    for (const Buffer& each : lengths_) must(runtime_.write(each, 0, std::as_bytes(std::span(&kFilled, 1))));
    const auto count = static_cast<std::uint32_t>(sequence.dispatches().size());
    for (std::uint32_t begin = 0; begin < count; begin += step) {
      must(runtime_.execute([&](VkCommandBuffer commands) {
        sequence.record(commands, {.first_dispatch = begin, .dispatch_count = step});
      }));
    }
    EXPECT_EQ(elements_of<std::int32_t>(runtime_, lengths_.back(), 1).front(), kFilled + 1);
    const auto output =
        std::ranges::find_if(buffers_, [&](const Buffer& each) { return each.handle() == output_.buffer; });
    return elements_of<float>(runtime_, *output, kWidth);
  }
  [[nodiscard]] const std::vector<const Plan*>& plans() const { return plans_; }

 private:
  template <class Made, class Tensors>
  void add(const Made& plan, const Tensors& tensors) {
    const Buffer& workspace = std::is_same_v<Made, AttentionPlan> ? workspace_ : other_workspace_;
    plans_.push_back(&plan);
    bindings_.push_back(std::make_unique<Bindings>(bound_to(plan, tensors, workspace.range())));
  }

  const Runtime& runtime_;
  MatmulPlan projection_;
  AppendPlan append_;
  AttentionPlan attention_;
  Buffer workspace_, other_workspace_;
  std::vector<Buffer> buffers_, lengths_;
  BufferRange output_;
  std::vector<const Plan*> plans_;
  std::vector<std::unique_ptr<Bindings>> bindings_;
};

using SequenceOnDeviceTest = GpuTest;

/// The ticks that a recording with timestamps leaves in a pool of its own.
std::vector<std::uint64_t> ticks_of(const Runtime& runtime, std::uint32_t count,
                                    const std::function<void(VkCommandBuffer, VkQueryPool)>& record) {
  const detail::RuntimeState& state = detail::RuntimeState::of(runtime);
  VkQueryPoolCreateInfo info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = count;
  VkQueryPool pool = VK_NULL_HANDLE;
  EXPECT_EQ(state.vk.vkCreateQueryPool(state.handle, &info, nullptr, &pool), VK_SUCCESS);
  must(runtime.execute([&](VkCommandBuffer commands) {
    state.vk.vkCmdResetQueryPool(commands, pool, 0, count);
    record(commands, pool);
  }));
  std::vector<std::uint64_t> ticks(count);
  EXPECT_EQ(state.vk.vkGetQueryPoolResults(state.handle, pool, 0, count, count * sizeof(std::uint64_t),
                                           ticks.data(), sizeof(std::uint64_t), VK_QUERY_RESULT_64_BIT),
            VK_SUCCESS)
      << "every query was written";
  state.vk.vkDestroyQueryPool(state.handle, pool, nullptr);
  return ticks;
}

/// Slices that a budget of 2 ms gives where every dispatch takes as long as estimated, once each was
/// measured.
std::size_t slices_at_2_ms(const std::vector<DispatchInfo>& dispatches) {
  FrameBudget frames(dispatches);
  while (!frames.is_done()) {
    const RecordOptions slice = frames.next(0);
    const FrameBudget estimates{std::span(dispatches).subspan(slice.first_dispatch, slice.dispatch_count)};
    frames.measured(slice, estimates.estimated_ns({}));
  }
  frames.restart();
  std::size_t count = 0;
  for (; !frames.is_done(); ++count) (void)frames.next(2e6);
  return count;
}

TEST_F(SequenceOnDeviceTest, EveryDispatchHasItsTimestamps) {
  if (runtime().timestamp_period_ns() == 0) GTEST_SKIP() << "the queue has no timestamps";
  Token token(runtime(), runtime().device(), {.kernel = "lane"});
  const Sequence sequence = token.sequence();
  const std::vector<float> before = token.result(sequence, ~0U);
  const auto dispatches = static_cast<std::uint32_t>(sequence.dispatches().size());
  ASSERT_GE(dispatches, 4 * kLayers);
  const std::vector<std::uint64_t> ticks =
      ticks_of(runtime(), dispatches + 3, [&](VkCommandBuffer commands, VkQueryPool pool) {
        // In two slices: each has a timestamp before its first dispatch.
        RecordOptions slice{.dispatch_count = 3};
        slice.timestamps = pool;
        sequence.record(commands, slice);
        slice.first_dispatch = 3;
        slice.dispatch_count = ~0U;
        slice.first_timestamp = 4;
        sequence.record(commands, slice);
        detail::RuntimeState::of(runtime()).vk.vkCmdWriteTimestamp(
            commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, dispatches + 2);
      });
  EXPECT_TRUE(std::ranges::is_sorted(ticks)) << "they are in the order of the dispatches";
  EXPECT_GT(ticks.back(), ticks.front());
  EXPECT_EQ(token.result(sequence, ~0U), before) << "timestamps change no result";
}

TEST_F(SequenceOnDeviceTest, SlicesGiveTheBitsOfTheWhole) {
  Token token(runtime(), runtime().device(), {.kernel = "lane", .max_dispatch_ns = 1, .kv_splits = 3});
  const Sequence sequence = token.sequence();
  const auto count = static_cast<std::uint32_t>(sequence.dispatches().size());
  ASSERT_GT(count, 2 * token.plans().size());
  const std::vector<float> whole = token.result(sequence, count);
  for (const float each : whole) ASSERT_TRUE(each != 0 && std::isfinite(each));
  for (const std::uint32_t step : {1U, 2U, 3U, 7U, count - 1}) {
    EXPECT_EQ(token.result(sequence, step), whole) << "slices of " << step << " of " << count;
  }
}

TEST_F(SequenceOnDeviceTest, OneBudgetTakesFewerSlicesThanOneForEachPlan) {
  const Token token(runtime(), runtime().device(), {});
  std::size_t apart = 0;
  for (const Plan* const plan : token.plans()) apart += slices_at_2_ms(plan->dispatches());
  const std::size_t together = slices_at_2_ms(token.sequence().dispatches());
  std::printf("%zu slices of a token with a budget for each plan, %zu with one for all\n", apart, together);
  EXPECT_GE(apart, 4 * kLayers);
  EXPECT_LE(together, 4U);
}

TEST_F(SequenceOnDeviceTest, RecordingAllocatesNothing) {
  if (!bench::allocations_of_this_thread()) GTEST_SKIP() << "a sanitizer's operator new counts nothing";
  const Device device = device_with([](Capabilities&) {});
  mute(device);
  const Token token(runtime(), device, {});
  const Sequence sequence = token.sequence();
  MuteCounts::dispatches = 0;
  const std::uint64_t before = *bench::allocations_of_this_thread();
  sequence.record(VK_NULL_HANDLE);
  EXPECT_EQ(*bench::allocations_of_this_thread() - before, 0U);
  EXPECT_EQ(MuteCounts::dispatches, sequence.dispatches().size());
}

}  // namespace
}  // namespace vkattn::tests
