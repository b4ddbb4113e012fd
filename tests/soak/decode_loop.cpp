// The decode loop: see decode_loop.hpp.
#include "soak/decode_loop.hpp"

#include <vkattn/cache.hpp>

#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include "soak/checked.hpp"

namespace vkattn::soak {
namespace {

constexpr std::int64_t kBatch = 2, kQueryHeads = 4, kKvHeads = 2, kDim = 64, kPage = 16;
constexpr std::int64_t kPagesOfEntry = 4, kPages = kBatch * kPagesOfEntry + 1;
constexpr int kSteps = 40;

constexpr const char* kLoop = "the decode loop";

template <class Value>
Buffer filled(const Runtime& runtime, const std::vector<Value>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  Buffer buffer = checked(runtime.create_buffer(bytes.size()), kLoop);
  checked(runtime.write(buffer, 0, bytes), kLoop);
  return buffer;
}

std::vector<float> token(int kind, std::int64_t heads, int step) {
  std::vector<float> values(static_cast<std::size_t>(kBatch * heads * kDim));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(1 + 37 * kind + 17 * step) + 0.61F * static_cast<float>(i));
  }
  return values;
}

CacheLayout pages() {
  CacheLayout layout;
  layout.mapping = KeyMapping::kPaged;
  layout.page_size = kPage;
  layout.page_count = kPages;
  layout.page_table_stride = kPagesOfEntry;
  return layout;
}

AppendDesc append_desc() {
  AppendDesc desc;
  desc.batch = kBatch;
  desc.query_heads = kQueryHeads;
  desc.kv_heads = kKvHeads;
  desc.new_length = 1;
  desc.head_dim = kDim;
  desc.cache_key.type = desc.cache_value.type = DataType::kQ8_0;
  desc.cache = pages();
  desc.has_positions = desc.writes_kv_lengths = true;
  desc.rotary = {RotaryStyle::kHalfSplit, kDim};
  return desc;
}

AttentionDesc attention_desc() {
  AttentionDesc desc;
  desc.batch = kBatch;
  desc.query_heads = kQueryHeads;
  desc.kv_heads = kKvHeads;
  desc.query_length = 1;
  desc.kv_length = kPage * kPagesOfEntry;
  desc.kv_lengths = Lengths::kPerEntry;
  desc.head_dim = kDim;
  desc.key.type = desc.value.type = DataType::kQ8_0;
  desc.cache = pages();
  return desc;
}

/// All buffers of one loop.
struct Buffers {
  Buffer query, key, value, output, cache_key, cache_value, lengths, table, workspace;
};

Buffers make_buffers(const Runtime& runtime, const AttentionPlan& attention) {
  const std::size_t cache_bytes = static_cast<std::size_t>(kPages * kKvHeads * kPage * kDim / 32 * 34);
  const std::vector<std::byte> empty(cache_bytes);
  std::vector<std::int32_t> table;  // the pages from the last one down, so that the order matters
  for (std::int64_t i = 0; i < kBatch * kPagesOfEntry; ++i) {
    table.push_back(static_cast<std::int32_t>(kPages - 1 - i));
  }
  return {.query = filled(runtime, token(0, kQueryHeads, 0)),
          .key = filled(runtime, token(1, kKvHeads, 0)),
          .value = filled(runtime, token(2, kKvHeads, 0)),
          .output = filled(runtime, token(3, kQueryHeads, 0)),
          .cache_key = filled(runtime, empty),
          .cache_value = filled(runtime, empty),
          .lengths = filled(runtime, std::vector<std::int32_t>(kBatch)),
          .table = filled(runtime, table),
          .workspace = checked(runtime.create_workspace(attention), kLoop)};
}

AppendTensors append_tensors(const Buffers& all) {
  AppendTensors tensors;
  tensors.query = tensors.query_output = all.query.range();
  tensors.key = all.key.range();
  tensors.value = all.value.range();
  tensors.cache_key = all.cache_key.range();
  tensors.cache_value = all.cache_value.range();
  tensors.page_table = all.table.range();
  tensors.positions = tensors.kv_lengths = all.lengths.range();
  return tensors;
}

AttentionTensors attention_tensors(const Buffers& all) {
  AttentionTensors tensors;
  tensors.query = all.query.range();
  tensors.key = all.cache_key.range();
  tensors.value = all.cache_value.range();
  tensors.output = all.output.range();
  tensors.kv_lengths = all.lengths.range();
  tensors.page_table = all.table.range();
  return tensors;
}

}  // namespace

std::vector<std::byte> decode_loop(const Runtime& runtime) {
  const AppendPlan append = checked(runtime.make_plan(append_desc()), kLoop);
  const AttentionPlan attention = checked(runtime.make_plan(attention_desc()), kLoop);
  const Buffers buffers = make_buffers(runtime, attention);
  const Bindings append_bindings = checked(append.make_bindings(append_tensors(buffers)), kLoop);
  const Bindings bindings =
      checked(attention.make_bindings(attention_tensors(buffers), buffers.workspace.range()), kLoop);
  std::vector<std::byte> outputs;
  for (int step = 0; step < kSteps; ++step) {
    for (const auto& [buffer, values] : {std::pair(&buffers.query, token(0, kQueryHeads, step)),
                                         std::pair(&buffers.key, token(1, kKvHeads, step)),
                                         std::pair(&buffers.value, token(2, kKvHeads, step))}) {
      checked(runtime.write(*buffer, 0, std::as_bytes(std::span(values))), kLoop);
    }
    (void)checked(
        runtime.execute([&](VkCommandBuffer commands) { append.record(commands, append_bindings); }), kLoop);
    (void)checked(runtime.execute(attention, bindings), kLoop);
    constexpr std::size_t kBytes = static_cast<std::size_t>(kBatch * kQueryHeads * kDim) * sizeof(float);
    outputs.resize(outputs.size() + kBytes);
    checked(runtime.read(buffers.output, 0, std::span(outputs).last(kBytes)), kLoop);
  }
  return outputs;
}

}  // namespace vkattn::soak
