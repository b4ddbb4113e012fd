// Plans of appends as objects: what is refused, bindings, push descriptors, recording.
#include <vkattn/cache.hpp>

#include "cache/append_tensors.hpp"
#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

AppendDesc small_desc() {
  AppendDesc desc{.batch = 2,
                  .query_heads = 2,
                  .kv_heads = 2,
                  .new_length = 1,
                  .head_dim = 32,
                  .value_dim = 32,
                  .cache_length = 8};
  desc.cache_value.type = DataType::kQ8_0;
  desc.rotary.style = RotaryStyle::kHalfSplit;
  desc.rotary.dims = 32;
  desc.has_positions = true;
  desc.writes_kv_lengths = true;
  return desc.resolved();
}

/// All tensors of small_desc() in one buffer of 64 KiB.
AppendTensors tensors_in(const Buffer& buffer) {
  AppendTensors tensors;
  VkDeviceSize first = 0;
  for (const detail::AppendTensorRow& row : detail::tensor_table<AppendTensors>()) {
    if (!row.is_used(small_desc())) continue;
    tensors.*row.range = buffer.range(first);
    first += 4096;
  }
  return tensors;
}

using CacheBindingsTest = GpuTest;

TEST_F(CacheBindingsTest, WrongTensorsAreRefused) {
  const auto plan = must(AppendPlan::create(runtime().device(), small_desc()));
  EXPECT_EQ(plan.range_bytes(&AppendTensors::key) % 4, 0U);
  EXPECT_GT(plan.range_bytes(&AppendTensors::key), 0U);
  EXPECT_EQ(plan.range_bytes(&AppendTensors::key_scales), 0U);
  const auto buffer = must(runtime().create_buffer(1 << 16));
  const AppendTensors good = tensors_in(buffer);
  auto bindings = must(plan.make_bindings(good));
  const auto refused = [&](BufferRange AppendTensors::*which, const BufferRange& range,
                           const std::vector<std::string>& words) {
    AppendTensors bad = good;
    bad.*which = range;
    EXPECT_TRUE(is_refused(plan.make_bindings(bad), ErrorCode::kInvalidArgument, words));
    EXPECT_FALSE(plan.rewrite(bindings, bad).ok());
  };
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
  const auto plan = must(AppendPlan::create(runtime().device(), desc));
  const auto buffer = must(runtime().create_buffer(64));
  AppendTensors tensors;
  tensors.key = buffer.range();
  tensors.key_scales = buffer.range();
  tensors.cache_key = {buffer.handle(), 33, 6};
  EXPECT_TRUE(
      is_refused(plan.make_bindings(tensors), ErrorCode::kInvalidArgument, {"cache_key", "word", "7"}));
  tensors.cache_key.size = 7;
  EXPECT_TRUE(plan.make_bindings(tensors).ok());
}

TEST_F(CacheBindingsTest, CumulativeLengthsAreOneMoreThanEntries) {
  AppendDesc desc = small_desc();
  desc.set_layout(Layout::kBhsd);  // strides of packed rows
  desc.new_lengths = Lengths::kPacked;
  desc.total_new_length = 2;
  const auto plan = must(AppendPlan::create(runtime().device(), desc));
  EXPECT_TRUE(has(plan.describe(), "2 packed rows"));
  const auto buffer = must(runtime().create_buffer(1 << 16));
  AppendTensors tensors = tensors_in(buffer);
  tensors.cumulative_new_lengths = {buffer.handle(), 0, 8};
  EXPECT_TRUE(is_refused(plan.make_bindings(tensors), ErrorCode::kInvalidArgument,
                         {"cumulative_new_lengths", "12", "8"}));
}

TEST_F(CacheBindingsTest, LimitsAreNamedWithBothNumbers) {
  const auto refused = [&](const std::function<void(Capabilities&)>& change, ErrorCode code,
                           const std::vector<std::string>& words, const PlanOptions& options = {}) {
    EXPECT_TRUE(is_refused(AppendPlan::create(device_with(change), small_desc(), options), code, words));
  };
  refused([](Capabilities& c) { c.max_storage_buffer_range = 4095; }, ErrorCode::kLimitExceeded,
          {"cache_key", "4096", "maxStorageBufferRange", "4095"});
  refused([](Capabilities& c) { c.max_stage_storage_buffers = 2; }, ErrorCode::kLimitExceeded,
          {"3", "maxPerStageDescriptorStorageBuffers", "2"});
  PlanOptions push;
  push.push_descriptors = true;
  refused([](Capabilities& c) { c.push_descriptors = false; }, ErrorCode::kUnsupported,
          {"VK_KHR_push_descriptor"}, push);
  refused(
      [](Capabilities& c) {
        c.push_descriptors = true;
        c.max_push_descriptors = 2;
      },
      ErrorCode::kLimitExceeded, {"3", "maxPushDescriptors", "2"}, push);
  // More invocations than 32 bits count: rows that all lie in the same place of a ring.
  AppendDesc desc = small_desc();
  desc.new_length = 1 << 30;
  desc.query_heads = 0;
  desc.cache = {KeyMapping::kRing, 8};
  desc.key.strides = {0, 0, 0, 1};
  desc.value.strides = {0, 0, 0, 1};
  EXPECT_TRUE(is_refused(AppendPlan::create(runtime().device(), desc), ErrorCode::kLimitExceeded,
                         {"keys", "17179869184", "4294967295"}));
}

TEST_F(CacheBindingsTest, PlansArePushedOrBound) {
  if (!capabilities().push_descriptors) GTEST_SKIP() << "the device has no VK_KHR_push_descriptor";
  const auto buffer = must(runtime().create_buffer(1 << 16));
  const auto pushing = must(AppendPlan::create(runtime().device(), small_desc(), {.push_descriptors = true}));
  const auto binding = must(AppendPlan::create(runtime().device(), small_desc()));
  EXPECT_FALSE(pushing.make_bindings(tensors_in(buffer)).ok());
  EXPECT_FALSE(binding.record(VK_NULL_HANDLE, tensors_in(buffer)).ok());
}

}  // namespace
}  // namespace vkattn::tests
