// A step of continuous batching on the device alone: append and attention share their buffers of lengths.
#include <algorithm>
#include <cmath>
#include <span>

#include "gpu/support.hpp"
#include "reference/reference.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::tests {
namespace {

using Numbers = std::vector<std::int32_t>;
constexpr std::size_t kEntries = 3, kTotal = 9, kDim = 8, kRoom = 16;

/// Prefill and decode in one batch: append and attention in one recording, with one buffer of cumulative
/// lengths and one of key lengths. It is submitted twice, and the second step finds the keys of the first.
class CacheStep : public GpuTest {
 protected:
  template <class T>
  [[nodiscard]] static Buffer upload(const std::vector<T>& values) {
    return filled_buffer(runtime(), values);
  }
  [[nodiscard]] static std::vector<float> rows(double seed, std::size_t count) {
    std::vector<float> values(count * kDim);
    for (float& value : values) value = static_cast<float>(std::sin(seed += 1.7));
    return values;
  }

  [[nodiscard]] static AppendDesc append_desc() {
    AppendDesc desc{.batch = kEntries, .kv_heads = 1, .new_length = 5};
    desc.head_dim = desc.value_dim = kDim;
    desc.cache_length = kRoom;
    desc.has_positions = desc.writes_kv_lengths = true;
    desc.new_lengths = Lengths::kPacked;
    desc.total_new_length = kTotal;
    return desc;
  }
  [[nodiscard]] static AttentionDesc attention_desc() {
    AttentionDesc desc{.batch = kEntries, .query_length = 5, .kv_length = kRoom};
    desc.head_dim = desc.value_dim = kDim;
    desc.query_lengths = Lengths::kPacked;
    desc.kv_lengths = Lengths::kPerEntry;
    desc.total_query_length = kTotal;
    desc.causal = true;
    desc.align = Align::kBottomRight;
    return desc;
  }
};

TEST_F(CacheStep, OneBufferOfLengthsServesAppendAndAttention) {
  const Numbers cumulative{0, 5, 6, 9};
  const std::vector<float> query_rows = rows(0.1, kTotal);
  const Buffer query = upload(query_rows), key = upload(rows(0.2, kTotal)), value = upload(rows(0.3, kTotal));
  const Buffer cache_key = upload(rows(0.4, kEntries * kRoom));
  const Buffer cache_value = upload(rows(0.5, kEntries * kRoom));
  const Buffer sums = upload(cumulative), lengths = upload(Numbers{0, 6, 2});
  const Buffer output = upload(std::vector<float>(kTotal * kDim));

  const auto append = must(AppendPlan::create(runtime().device(), append_desc()));
  const auto attention = must(make_plan(runtime(), attention_desc(), {"lane"}));
  AppendTensors new_rows;
  new_rows.key = key.range();
  new_rows.value = value.range();
  new_rows.cache_key = cache_key.range();
  new_rows.cache_value = cache_value.range();
  new_rows.positions = new_rows.kv_lengths = lengths.range();
  new_rows.cumulative_new_lengths = sums.range();
  AttentionTensors tensors;
  tensors.query = query.range();
  tensors.key = cache_key.range();
  tensors.value = cache_value.range();
  tensors.output = output.range();
  tensors.kv_lengths = lengths.range();
  tensors.cumulative_query_lengths = sums.range();
  const Buffer workspace = runtime().create_buffer(attention.workspace_bytes() + 4).value();
  const auto append_bindings = must(append.make_bindings(new_rows));
  const auto bindings = must(attention.make_bindings(tensors, workspace.range()));
  const auto record = [&](VkCommandBuffer commands) {
    append.record(commands, append_bindings);
    VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
    barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT;
    runtime().device().state().vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                                       VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier,
                                                       0, nullptr, 0, nullptr);
    attention.record(commands, bindings);
  };
  ASSERT_TRUE(runtime().execute(record, 2).ok());

  const auto held = elements_of<std::int32_t>(runtime(), lengths, kEntries);
  EXPECT_EQ(held, (Numbers{10, 8, 8}));
  const auto keys = elements_of<float>(runtime(), cache_key, kEntries * kRoom * kDim);
  const auto new_keys = elements_of<float>(runtime(), key, kTotal * kDim);
  for (std::size_t b = 0; b < kEntries; ++b) {
    const auto first = static_cast<std::size_t>(cumulative[b]),
               end = static_cast<std::size_t>(cumulative[b + 1]);
    for (const std::size_t step : {1U, 2U}) {
      const std::size_t at = b * kRoom + static_cast<std::size_t>(held[b]) - step * (end - first);
      EXPECT_TRUE(std::equal(&new_keys[first * kDim], &new_keys[end * kDim], &keys[at * kDim])) << b;
    }
  }
  const auto values = elements_of<float>(runtime(), cache_value, kEntries * kRoom * kDim);
  const auto got = elements_of<float>(runtime(), output, kTotal * kDim);
  reference::Inputs inputs;
  inputs.query = query_rows;
  inputs.key = keys;
  inputs.value = values;
  inputs.kv_lengths = held;
  inputs.cumulative_query_lengths = cumulative;
  const AttentionDesc desc = attention_desc().resolved();
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    for (std::int64_t i = 0; i < reference::query_length(desc, inputs, b); ++i) {
      const reference::Row row = reference::compute_row(desc, inputs, {b, 0, i});
      const auto first = static_cast<std::size_t>(cumulative[static_cast<std::size_t>(b)] + i) * kDim;
      for (std::size_t d = 0; d < kDim; ++d) {
        EXPECT_NEAR(static_cast<double>(got[first + d]), row.output[d], 1e-5) << b << " " << i << " " << d;
      }
    }
  }
}

}  // namespace
}  // namespace vkattn::tests
