// Plans of appends as objects: what is refused, bindings, push descriptors, recording, a decode loop.
#include <algorithm>
#include <numeric>
#include <span>

#include "allocation_count.hpp"
#include "gpu/cache_run.hpp"
#include "gpu/support.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::tests {
namespace {

AppendDesc small_desc() {
  AppendDesc desc;
  desc.batch = 2;
  desc.query_heads = 2;
  desc.kv_heads = 2;
  desc.new_length = 1;
  desc.head_dim = 32;
  desc.value_dim = 32;
  desc.cache_length = 8;
  desc.cache_value.type = DataType::kQ8_0;
  desc.rotary.style = RotaryStyle::kHalfSplit;
  desc.rotary.dims = 32;
  desc.has_positions = true;
  desc.writes_kv_lengths = true;
  return desc.resolved();
}

/// Buffers for small_desc(), each of exactly the bytes that it needs.
struct SmallBuffers {
  explicit SmallBuffers(const Runtime& runtime) {
    const AppendDesc desc = small_desc();
    const auto bytes = [](const TensorDesc& t, const TensorExtents& e) {
      return static_cast<VkDeviceSize>(tensor_bytes(t, e.batch, e.heads, e.rows, e.dims).value());
    };
    const auto make = [&](BufferRange AppendTensors::*range, VkDeviceSize size) {
      buffers.push_back(runtime.create_buffer(size).value());
      const std::vector<std::byte> zeros(size);
      EXPECT_TRUE(runtime.write(buffers.back(), 0, zeros).ok());
      tensors.*range = buffers.back().range();
    };
    const TensorExtents rows{2, 2, 1, 32};
    make(&AppendTensors::query, bytes(desc.query, rows));
    make(&AppendTensors::key, bytes(desc.key, rows));
    make(&AppendTensors::value, bytes(desc.value, rows));
    make(&AppendTensors::query_output, bytes(desc.query_output, rows));
    make(&AppendTensors::cache_key, bytes(desc.cache_key, cache_extents(desc, 32)));
    make(&AppendTensors::cache_value, bytes(desc.cache_value, cache_extents(desc, 32)));
    make(&AppendTensors::positions, 8);
    tensors.kv_lengths = tensors.positions;
  }
  std::vector<Buffer> buffers;
  AppendTensors tensors;
};

using CacheBindingsTest = GpuTest;

TEST_F(CacheBindingsTest, WrongTensorsAreRefused) {
  const auto plan = AppendPlan::create(runtime().device(), small_desc());
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const SmallBuffers buffers(runtime());
  auto bindings = plan->make_bindings(buffers.tensors);
  ASSERT_TRUE(bindings.ok()) << bindings.error().message;
  const auto refused = [&](BufferRange AppendTensors::*which, const BufferRange& range,
                           const std::vector<std::string>& words) {
    AppendTensors bad = buffers.tensors;
    bad.*which = range;
    const auto made = plan->make_bindings(bad);
    ASSERT_FALSE(made.ok());
    EXPECT_TRUE(names(made.error(), ErrorCode::kInvalidArgument, words));
    EXPECT_FALSE(plan->rewrite(*bindings, bad).ok());
  };
  const AppendTensors& good = buffers.tensors;
  refused(&AppendTensors::query, {}, {"query", "null"});
  refused(&AppendTensors::cache_key, {}, {"cache_key", "null"});
  refused(&AppendTensors::positions, {}, {"positions", "null"});
  refused(&AppendTensors::kv_lengths, {good.kv_lengths.buffer, 0, 4}, {"kv_lengths", "8", "4"});
  refused(&AppendTensors::cache_value, {good.cache_value.buffer, 0, 1000}, {"cache_value", "1088", "1000"});
  refused(&AppendTensors::cache_key, {good.cache_key.buffer, 0, VK_WHOLE_SIZE},
          {"cache_key", "VK_WHOLE_SIZE"});
  refused(&AppendTensors::key, {good.key.buffer, 2, good.key.size - 2},
          {"key", "multiple of 16", "alignment_bytes"});
}

/// float8 is written by whole words, so the range must have the last one.
TEST_F(CacheBindingsTest, RangesThatEndInsideAWordAreRefused) {
  const AppendDesc desc = quantise_desc({1, 1, 1, 5}, {DataType::kFloat32, Strides{0, 0, 0, 1}, 0},
                                        {DataType::kFloat8E4m3, Strides{0, 0, 0, 1}, 0});
  const auto plan = AppendPlan::create(runtime().device(), desc);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto buffer = runtime().create_buffer(64);
  ASSERT_TRUE(buffer.ok());
  AppendTensors tensors;
  tensors.key = buffer->range();
  tensors.key_scales = buffer->range();
  tensors.cache_key = {buffer->handle(), 33, 6};
  const auto refused = plan->make_bindings(tensors);
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(names(refused.error(), ErrorCode::kInvalidArgument, {"cache_key", "word", "7"}));
  tensors.cache_key.size = 7;
  EXPECT_TRUE(plan->make_bindings(tensors).ok());
}

TEST_F(CacheBindingsTest, LimitsAreNamedWithBothNumbers) {
  const auto refused = [&](const std::function<void(Capabilities&)>& change, ErrorCode code,
                           const std::vector<std::string>& words, const AppendOptions& options = {}) {
    const auto plan = AppendPlan::create(device_with(change), small_desc(), options);
    ASSERT_FALSE(plan.ok());
    EXPECT_TRUE(names(plan.error(), code, words));
  };
  refused([](Capabilities& c) { c.max_storage_buffer_range = 4095; }, ErrorCode::kLimitExceeded,
          {"cache_key", "4096", "maxStorageBufferRange", "4095"});
  refused([](Capabilities& c) { c.max_stage_storage_buffers = 4; }, ErrorCode::kLimitExceeded,
          {"7", "maxPerStageDescriptorStorageBuffers", "4"});
  AppendOptions push;
  push.push_descriptors = true;
  refused([](Capabilities& c) { c.push_descriptors = false; }, ErrorCode::kUnsupported,
          {"VK_KHR_push_descriptor"}, push);
  refused(
      [](Capabilities& c) {
        c.push_descriptors = true;
        c.max_push_descriptors = 6;
      },
      ErrorCode::kLimitExceeded, {"7", "maxPushDescriptors", "6"}, push);
  // More invocations than 32 bits count: rows that all lie in the same place of a ring.
  AppendDesc desc = small_desc();
  desc.new_length = 1 << 30;
  desc.query_heads = 0;
  desc.cache = {KeyMapping::kRing, 8};
  desc.key.strides = {0, 0, 0, 1};
  desc.value.strides = {0, 0, 0, 1};
  const auto plan = AppendPlan::create(runtime().device(), desc);
  ASSERT_FALSE(plan.ok());
  EXPECT_TRUE(names(plan.error(), ErrorCode::kLimitExceeded, {"keys", "17179869184", "4294967295"}));
}

TEST_F(CacheBindingsTest, PushDescriptors) {
  if (!capabilities().push_descriptors) GTEST_SKIP() << "the device has no VK_KHR_push_descriptor";
  AppendCase test;
  test.desc = small_desc();
  test.positions = {3, 0};
  test.shift = 1;
  promise_alignment(test.desc, 0);
  AppendRunOptions options;
  options.push_descriptors = true;
  EXPECT_TRUE(appends_right(runtime(), test, options));
  AppendOptions plan_options;
  plan_options.push_descriptors = true;
  const SmallBuffers buffers(runtime());
  const auto pushing = AppendPlan::create(runtime().device(), small_desc(), plan_options);
  const auto binding = AppendPlan::create(runtime().device(), small_desc());
  ASSERT_TRUE(pushing.ok() && binding.ok());
  EXPECT_FALSE(pushing->make_bindings(buffers.tensors).ok());
  EXPECT_FALSE(binding->record(VK_NULL_HANDLE, buffers.tensors).ok());
}

/// Keys, values and queries one after the other share a pipeline where they are alike.
TEST_F(CacheBindingsTest, RecordingAllocatesNothing) {
  if (!bench::allocations_of_this_thread()) GTEST_SKIP() << "a sanitizer's operator new counts nothing";
  const Device device = device_with([](Capabilities&) {});
  // seen_through() made this state for this Device alone, and not as a constant.
  detail::DeviceFunctions& vk = const_cast<detail::DeviceState&>(device.state()).vk;
  static std::size_t dispatches = 0;
  vk.vkCmdBindPipeline = [](auto...) {};
  vk.vkCmdBindDescriptorSets = [](auto...) {};
  vk.vkCmdPushConstants = [](auto...) {};
  vk.vkCmdPipelineBarrier = [](auto...) {};
  vk.vkCmdDispatch = [](auto...) { ++dispatches; };
  if (vk.vkCmdPushDescriptorSetKHR != nullptr) vk.vkCmdPushDescriptorSetKHR = [](auto...) {};
  const SmallBuffers buffers(runtime());
  for (const bool push : {false, true}) {
    if (push && !capabilities().push_descriptors) continue;
    AppendOptions options;
    options.push_descriptors = push;
    const auto plan = AppendPlan::create(device, small_desc(), options);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_EQ(plan->dispatch_count(), 4U);
    std::optional<Bindings> bindings;
    if (!push) bindings.emplace(plan->make_bindings(buffers.tensors).value());
    dispatches = 0;
    const std::uint64_t before = *bench::allocations_of_this_thread();
    const bool recorded = !push || plan->record(VK_NULL_HANDLE, buffers.tensors).ok();
    if (!push) plan->record(VK_NULL_HANDLE, *bindings);
    EXPECT_EQ(*bench::allocations_of_this_thread() - before, 0U);
    EXPECT_TRUE(recorded);
    EXPECT_EQ(dispatches, 4U);
  }
}

/// One recording, submitted again and again: the lengths that it writes are the next step's positions. What
/// the steps leave in the cache is what one append of all rows leaves.
TEST_F(CacheBindingsTest, ADecodeLoopWithoutTheHost) {
  AppendDesc step = small_desc();
  constexpr std::int64_t kSteps = 5;
  const auto plan = AppendPlan::create(runtime().device(), step);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  SmallBuffers stepwise(runtime());
  std::vector<float> rows(2 * 2 * 32);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = 1.0F + static_cast<float>(i % 37) / 64.0F;
  const auto bytes = std::as_bytes(std::span(rows));
  for (std::size_t i : {0U, 1U, 2U}) ASSERT_TRUE(runtime().write(stepwise.buffers[i], 0, bytes).ok());
  const std::vector<std::int32_t> first_positions{0, 2};
  ASSERT_TRUE(runtime().write(stepwise.buffers[6], 0, std::as_bytes(std::span(first_positions))).ok());
  const auto bindings = plan->make_bindings(stepwise.tensors);
  ASSERT_TRUE(bindings.ok()) << bindings.error().message;
  const auto record = [&](VkCommandBuffer c) { plan->record(c, *bindings); };
  ASSERT_TRUE(runtime().execute(record, static_cast<std::uint32_t>(kSteps)).ok());
  std::vector<std::int32_t> lengths(2);
  ASSERT_TRUE(runtime().read(stepwise.buffers[6], 0, std::as_writable_bytes(std::span(lengths))).ok());
  EXPECT_EQ(lengths, (std::vector<std::int32_t>{5, 7}));

  // The same rows at once: each is the one row of the step, by a row stride of 0.
  AppendDesc whole = step;
  whole.new_length = kSteps;
  whole.query_heads = 0;
  whole.key.strides->row = whole.value.strides->row = 0;
  whole.key.strides->head = whole.value.strides->head = 32;
  whole.key.strides->batch = whole.value.strides->batch = 64;
  const auto whole_plan = AppendPlan::create(runtime().device(), whole);
  ASSERT_TRUE(whole_plan.ok()) << whole_plan.error().message;
  SmallBuffers at_once(runtime());
  for (std::size_t i : {1U, 2U}) ASSERT_TRUE(runtime().write(at_once.buffers[i], 0, bytes).ok());
  ASSERT_TRUE(runtime().write(at_once.buffers[6], 0, std::as_bytes(std::span(first_positions))).ok());
  const auto whole_bindings = whole_plan->make_bindings(at_once.tensors);
  ASSERT_TRUE(whole_bindings.ok()) << whole_bindings.error().message;
  ASSERT_TRUE(runtime().execute([&](VkCommandBuffer c) { whole_plan->record(c, *whole_bindings); }).ok());
  for (std::size_t i : {4U, 5U, 6U}) {
    std::vector<std::byte> a(stepwise.buffers[i].size()), b(at_once.buffers[i].size());
    ASSERT_TRUE(runtime().read(stepwise.buffers[i], 0, a).ok());
    ASSERT_TRUE(runtime().read(at_once.buffers[i], 0, b).ok());
    EXPECT_EQ(a, b) << "buffer " << i;
    EXPECT_NE(std::count(a.begin(), a.end(), std::byte{0}), static_cast<std::ptrdiff_t>(a.size()));
  }
}

}  // namespace
}  // namespace vkattn::tests
