// The decode loop: see decode_loop.hpp.
#include "soak/decode_loop.hpp"

#include <vkattn/cache.hpp>

#include <cmath>
#include <cstdint>
#include <span>

namespace vkattn::soak {
namespace {

constexpr std::int64_t kBatch = 2, kQueryHeads = 4, kKvHeads = 2, kDim = 64, kPage = 16;
constexpr std::int64_t kPagesOfEntry = 4, kPages = kBatch * kPagesOfEntry + 1;
constexpr int kSteps = 40;

Result<Buffer> filled(const Runtime& runtime, std::span<const std::byte> bytes) {
  auto buffer = runtime.create_buffer(bytes.size());
  if (!buffer.ok()) return buffer.error();
  if (const auto written = runtime.write(*buffer, 0, bytes); !written.ok()) return written.error();
  return buffer;
}

template <class Value>
Result<Buffer> filled(const Runtime& runtime, const std::vector<Value>& values) {
  return filled(runtime, std::as_bytes(std::span(values)));
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

/// Everything of one loop.
struct Buffers {
  Buffer query, key, value, output, cache_key, cache_value, lengths, table, workspace;
};

Result<Buffers> make_buffers(const Runtime& runtime, const AttentionPlan& attention) {
  const std::size_t cache_bytes = static_cast<std::size_t>(kPages * kKvHeads * kPage * kDim / 32 * 34);
  std::vector<std::int32_t> table;  // from the last page down, so that it is one
  for (std::int64_t i = 0; i < kBatch * kPagesOfEntry; ++i) {
    table.push_back(static_cast<std::int32_t>(kPages - 1 - i));
  }
  Buffers all;
  const auto make = [&](Buffer& target, auto made) -> Result<void> {
    if (!made.ok()) return made.error();
    target = *std::move(made);
    return {};
  };
  const std::vector<std::byte> empty(cache_bytes);
  for (const auto& done :
       {make(all.query, filled(runtime, token(0, kQueryHeads, 0))),
        make(all.key, filled(runtime, token(1, kKvHeads, 0))),
        make(all.value, filled(runtime, token(2, kKvHeads, 0))),
        make(all.output, filled(runtime, token(3, kQueryHeads, 0))),
        make(all.cache_key, filled(runtime, std::span(empty))),
        make(all.cache_value, filled(runtime, std::span(empty))),
        make(all.lengths, filled(runtime, std::vector<std::int32_t>(kBatch))),
        make(all.table, filled(runtime, table)), make(all.workspace, runtime.create_workspace(attention))}) {
    if (!done.ok()) return done.error();
  }
  return all;
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

Result<std::vector<std::byte>> decode_loop(const Runtime& runtime) {
  const auto append = runtime.make_append_plan(append_desc());
  if (!append.ok()) return append.error();
  const auto attention = runtime.make_plan(attention_desc());
  if (!attention.ok()) return attention.error();
  const auto buffers = make_buffers(runtime, *attention);
  if (!buffers.ok()) return buffers.error();
  const auto append_bindings = append->make_bindings(append_tensors(*buffers));
  if (!append_bindings.ok()) return append_bindings.error();
  const auto bindings = attention->make_bindings(attention_tensors(*buffers), buffers->workspace.range());
  if (!bindings.ok()) return bindings.error();
  std::vector<std::byte> outputs;
  for (int step = 0; step < kSteps; ++step) {
    for (const auto& [buffer, values] : {std::pair(&buffers->query, token(0, kQueryHeads, step)),
                                         std::pair(&buffers->key, token(1, kKvHeads, step)),
                                         std::pair(&buffers->value, token(2, kKvHeads, step))}) {
      if (const auto written = runtime.write(*buffer, 0, std::as_bytes(std::span(values))); !written.ok()) {
        return written.error();
      }
    }
    const auto appended =
        runtime.execute([&](VkCommandBuffer commands) { append->record(commands, *append_bindings); });
    if (!appended.ok()) return appended.error();
    if (const auto attended = runtime.execute(*attention, *bindings); !attended.ok()) return attended.error();
    outputs.resize(outputs.size() + static_cast<std::size_t>(kBatch * kQueryHeads * kDim) * sizeof(float));
    const auto last = std::span(outputs).last(static_cast<std::size_t>(kBatch * kQueryHeads * kDim) * 4);
    if (const auto read = runtime.read(buffers->output, 0, last); !read.ok()) return read.error();
  }
  return outputs;
}

}  // namespace vkattn::soak
