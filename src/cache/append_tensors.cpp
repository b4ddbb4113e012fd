// The table of an append's tensors: see append_tensors.hpp.
#include "cache/append_tensors.hpp"

#include <algorithm>
#include <array>

namespace vkattn::detail {

namespace {

using Desc = const AppendDesc&;
using Tensors = AppendTensors;

// A number of 32 bits for each position, the positions being dims.
TensorDesc numbers(Desc /*desc*/) {
  return {DataType::kFloat32, Strides{0, 0, 0, 1}, 0};
}
TensorExtents count(bool is_used, std::int64_t elements) {
  return {1, 1, 1, is_used ? elements : 0};
}
TensorExtents scales(Desc desc, const TensorDesc& cache) {
  return count(cache.type == DataType::kFloat8E4m3, desc.kv_heads);
}

constexpr TensorUse kInput{};
constexpr TensorUse kOutput{.written = true};
constexpr TensorUse kCache{.written = true, .may_be_quantised = true};

constexpr std::array<AppendTensorRow, kAppendTensorCount> kTable{{
    AppendTensorRow{"query", &Tensors::query, [](Desc d) { return d.query; },
                    [](Desc d) { return new_row_extents(d, d.query_heads, d.head_dim); }, kInput},
    AppendTensorRow{"key", &Tensors::key, [](Desc d) { return d.key; },
                    [](Desc d) { return new_row_extents(d, d.kv_heads, d.head_dim); }, kInput},
    AppendTensorRow{"value", &Tensors::value, [](Desc d) { return d.value; },
                    [](Desc d) { return new_row_extents(d, d.kv_heads, d.value_dim); }, kInput},
    AppendTensorRow{"query_output", &Tensors::query_output, [](Desc d) { return d.query_output; },
                    [](Desc d) { return new_row_extents(d, d.query_heads, d.head_dim); }, kOutput},
    AppendTensorRow{"cache_key", &Tensors::cache_key, [](Desc d) { return d.cache_key; },
                    [](Desc d) { return cache_extents(d, d.head_dim); }, kCache},
    AppendTensorRow{"cache_value", &Tensors::cache_value, [](Desc d) { return d.cache_value; },
                    [](Desc d) { return cache_extents(d, d.value_dim); }, kCache},
    AppendTensorRow{"positions", &Tensors::positions, numbers,
                    [](Desc d) { return count(d.has_positions, d.batch); }, kInput},
    AppendTensorRow{"new_lengths", &Tensors::new_lengths, numbers,
                    [](Desc d) { return count(d.new_lengths == Lengths::kPerEntry, d.batch); }, kInput},
    AppendTensorRow{"cumulative_new_lengths", &Tensors::cumulative_new_lengths, numbers,
                    [](Desc d) { return count(d.new_lengths == Lengths::kPacked, d.batch + 1); }, kInput},
    AppendTensorRow{"page_table", &Tensors::page_table,
                    [](Desc d) {
                      return TensorDesc{DataType::kFloat32, Strides{d.cache.page_table_stride, 0, 0, 1}, 0};
                    },
                    [](Desc d) {
                      const bool paged = d.cache.mapping == KeyMapping::kPaged;
                      return TensorExtents{paged ? d.batch : 0, 1, 1, d.cache.page_table_stride};
                    },
                    kInput},
    AppendTensorRow{"key_scales", &Tensors::key_scales, numbers,
                    [](Desc d) { return scales(d, d.cache_key); }, kInput},
    AppendTensorRow{"value_scales", &Tensors::value_scales, numbers,
                    [](Desc d) { return scales(d, d.cache_value); }, kInput},
    AppendTensorRow{"frequencies", &Tensors::frequencies, numbers,
                    [](Desc d) {
                      const bool given = d.rotary.style != RotaryStyle::kNone && d.rotary.has_frequencies;
                      return count(given, d.rotary.dims / 2);
                    },
                    kInput},
    AppendTensorRow{"kv_lengths", &Tensors::kv_lengths, numbers,
                    [](Desc d) { return count(d.writes_kv_lengths, d.batch); }, kOutput},
}};

}  // namespace

std::span<const AppendTensorRow, kAppendTensorCount> append_tensor_table() {
  return kTable;
}

std::size_t append_tensor_index(BufferRange AppendTensors::*range) {
  return row_index(std::span<const AppendTensorRow>(kTable), range);
}

}  // namespace vkattn::detail
