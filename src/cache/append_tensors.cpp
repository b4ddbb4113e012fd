// The table of an append's tensors: see append_tensors.hpp.
#include "cache/append_tensors.hpp"

#include <array>
#include <cstddef>

#include "shared/cache_constants.h"

namespace vkattn::detail {

namespace {

using Desc = const AppendDesc&;
using Tensors = AppendTensors;

// A line of 32-bit numbers, side by side along the dims.
TensorDesc line(Desc /*desc*/) {
  return numbers(Strides{0, 0, 0, 1});
}
template <std::int64_t AppendDesc::*count, std::int64_t more = 0>
TensorExtents line_of(Desc desc) {
  return {1, 1, 1, desc.*count + more};
}

TensorExtents query_rows(Desc desc) {
  return new_row_extents(desc, desc.query_heads, desc.head_dim);
}

constexpr auto kAlways = is_always_used<AppendDesc>;
constexpr TensorUse kCache{.written = true, .may_be_quantised = true};

constexpr OffsetParam kSource = push_constant(offsetof(AppendParams, source_offset));
constexpr OffsetParam kTarget = push_constant(offsetof(AppendParams, target_offset));
constexpr OffsetParam kNewLengths = push_constant(offsetof(AppendParams, new_lengths_offset));
constexpr OffsetParam kScales = push_constant(offsetof(AppendParams, scales_offset));

constexpr std::array<AppendTensorRow, TensorTable<Tensors>::kCount> kTable{{
    {"query", VKATTN_APPEND_BINDING_SOURCE, &Tensors::query, kAlways, [](Desc d) { return d.query; },
     query_rows, kSource, kReadOnly},
    {"key", VKATTN_APPEND_BINDING_SOURCE, &Tensors::key, kAlways, [](Desc d) { return d.key; },
     [](Desc d) { return new_row_extents(d, d.kv_heads, d.head_dim); }, kSource, kReadOnly},
    {"value", VKATTN_APPEND_BINDING_SOURCE, &Tensors::value, kAlways, [](Desc d) { return d.value; },
     [](Desc d) { return new_row_extents(d, d.kv_heads, d.value_dim); }, kSource, kReadOnly},
    {"query_output", VKATTN_APPEND_BINDING_TARGET, &Tensors::query_output, kAlways,
     [](Desc d) { return d.query_output; }, query_rows, kTarget, kWritten},
    {"cache_key", VKATTN_APPEND_BINDING_TARGET, &Tensors::cache_key, kAlways,
     [](Desc d) { return d.cache_key; }, [](Desc d) { return cache_extents(d, d.head_dim); }, kTarget,
     kCache},
    {"cache_value", VKATTN_APPEND_BINDING_TARGET, &Tensors::cache_value, kAlways,
     [](Desc d) { return d.cache_value; }, [](Desc d) { return cache_extents(d, d.value_dim); }, kTarget,
     kCache},
    {"positions", VKATTN_APPEND_BINDING_POSITIONS, &Tensors::positions,
     [](Desc d) { return d.has_positions; }, line, line_of<&AppendDesc::batch>,
     push_constant(offsetof(AppendParams, positions_offset)), kReadOnly},
    {"new_lengths", VKATTN_APPEND_BINDING_NEW_LENGTHS, &Tensors::new_lengths,
     [](Desc d) { return d.new_lengths == Lengths::kPerEntry; }, line, line_of<&AppendDesc::batch>,
     kNewLengths, kReadOnly},
    {"cumulative_new_lengths", VKATTN_APPEND_BINDING_NEW_LENGTHS, &Tensors::cumulative_new_lengths,
     [](Desc d) { return d.new_lengths == Lengths::kPacked; }, line, line_of<&AppendDesc::batch, 1>,
     kNewLengths, kReadOnly},
    {"page_table", VKATTN_APPEND_BINDING_PAGE_TABLE, &Tensors::page_table,
     [](Desc d) { return d.cache.mapping == KeyMapping::kPaged; },
     [](Desc d) {
       return numbers(Strides{d.cache.page_table_stride, 0, 0, 1});
     },
     [](Desc d) {
       return TensorExtents{d.batch, 1, 1, d.cache.page_table_stride};
     },
     push_constant(offsetof(AppendParams, page_table_offset)), kReadOnly},
    {"key_scales", VKATTN_APPEND_BINDING_SCALES, &Tensors::key_scales,
     [](Desc d) { return d.cache_key.type == DataType::kFloat8E4m3; }, line, line_of<&AppendDesc::kv_heads>,
     kScales, kReadOnly},
    {"value_scales", VKATTN_APPEND_BINDING_SCALES, &Tensors::value_scales,
     [](Desc d) { return d.cache_value.type == DataType::kFloat8E4m3; }, line, line_of<&AppendDesc::kv_heads>,
     kScales, kReadOnly},
    {"frequencies", VKATTN_APPEND_BINDING_FREQUENCIES, &Tensors::frequencies,
     [](Desc d) { return d.rotary.style != RotaryStyle::kNone && d.rotary.has_frequencies; }, line,
     [](Desc d) {
       return TensorExtents{1, 1, 1, d.rotary.dims / 2};
     },
     push_constant(offsetof(AppendParams, frequencies_offset)), kReadOnly},
    {"kv_lengths", VKATTN_APPEND_BINDING_TARGET, &Tensors::kv_lengths,
     [](Desc d) { return d.writes_kv_lengths; }, line, line_of<&AppendDesc::batch>, kTarget, kWritten},
}};

static_assert(kTable.back().range != nullptr, "each member of AppendTensors has a row");

}  // namespace

std::span<const AppendTensorRow, TensorTable<AppendTensors>::kCount> TensorTable<AppendTensors>::rows() {
  return kTable;
}

}  // namespace vkattn::detail
