// Refusals of append plans. tests/unit/every_operation_test.cpp has the refusals that all operations share.
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

/// float8 is written in whole words, so the range must contain the last one.
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
  desc.set_layout(Layout::kBhsd);  // strides for packed rows
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
  const Device small = device_with([](Capabilities& c) { c.max_storage_buffer_range = 4095; });
  EXPECT_TRUE(is_refused(AppendPlan::create(small, small_desc()), ErrorCode::kLimitExceeded,
                         {"cache_key", "4096", "maxStorageBufferRange", "4095"}));
  // The invocations do not fit 32 bits: many rows that all lie in the same place of a ring.
  AppendDesc desc = small_desc();
  desc.new_length = 1 << 30;
  desc.query_heads = 0;
  desc.cache = {KeyMapping::kRing, 8};
  desc.key.strides = {0, 0, 0, 1};
  desc.value.strides = {0, 0, 0, 1};
  EXPECT_TRUE(is_refused(AppendPlan::create(runtime().device(), desc), ErrorCode::kLimitExceeded,
                         {"keys", "17179869184", "4294967295"}));
}

}  // namespace
}  // namespace vkattn::tests
