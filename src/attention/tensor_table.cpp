// The table of tensors: see tensor_table.hpp.
#include "attention/tensor_table.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "attention/features.hpp"
#include "attention/params.hpp"
#include "attention/tensor_rules.hpp"
#include "common/integers.hpp"

namespace vkattn::detail {

namespace {

using Desc = const AttentionDesc&;
using Tensors = AttentionTensors;

bool is_paged(Desc desc) {
  return desc.cache.mapping == KeyMapping::kPaged;
}

TensorDesc number_per_entry(Desc /*desc*/) {
  return numbers(Strides{1, 0, 0, 1});
}
TensorDesc number_per_head(Desc /*desc*/) {
  return numbers(Strides{0, 1, 0, 1});
}
TensorDesc lse_storage(Desc desc) {
  Strides strides = *desc.lse_strides;
  strides.dim = 1;  // ignored, so it may be anything
  return numbers(strides);
}

// Elements of a row.
std::int64_t one(Desc /*desc*/) {
  return 1;
}
std::int64_t head_dim(Desc desc) {
  return desc.head_dim;
}
std::int64_t value_dim(Desc desc) {
  return desc.value_dim;
}
std::int64_t kv_length(Desc desc) {
  return desc.kv_length;
}
std::int64_t stored_mask_columns(Desc desc) {
  return mask_columns(desc.mask, desc.kv_length);
}
std::int64_t pages_of_entry(Desc desc) {
  return desc.cache.page_table_stride;
}

// The extents of a whole tensor that windows cut in this way.
TensorExtents extents_of(TensorCut cut, Desc desc, std::int64_t dims) {
  switch (cut) {
    case TensorCut::kQueryRows:
      return query_extents(desc, dims);
    case TensorCut::kKeyRows:
      return key_extents(desc, dims);
    case TensorCut::kScores:
      return {desc.batch, desc.query_heads, desc.query_length, dims};
    case TensorCut::kMask:
      return {desc.batch, mask_extents(desc).heads, desc.query_length, dims};
    case TensorCut::kEntries:
      return {desc.batch, 1, 1, dims};
    case TensorCut::kEntrySums:
      return {desc.batch + 1, 1, 1, dims};
    case TensorCut::kQueryHeads:
      return {1, desc.query_heads, 1, dims};
    case TensorCut::kKvHeads:
      break;
  }
  return {1, desc.kv_heads, 1, dims};
}

template <TensorCut cut, std::int64_t (*dims)(Desc)>
constexpr TensorRow make_row(std::string_view name, std::uint32_t binding, BufferRange Tensors::*range,
                             HostMember host, bool (*is_used)(Desc), TensorDesc (*storage)(Desc),
                             OffsetParam offset, TensorUse use = kReadOnly) {
  const auto extents = [](Desc desc) { return extents_of(cut, desc, dims(desc)); };
  return {{name, binding, range, is_used, storage, extents, offset, use}, host, cut};
}

using enum TensorCut;
constexpr auto always = is_always_used<AttentionDesc>;

constexpr std::array<TensorRow, kTensorCount> kTensors{
    make_row<kQueryRows, head_dim>(
        "query", VKATTN_BINDING_QUERY, &Tensors::query, &HostTensors::query, always,
        [](Desc d) { return d.query; }, push_constant(offsetof(AttentionParams, query_offset))),
    make_row<kKeyRows, head_dim>(
        "key", VKATTN_BINDING_KEY, &Tensors::key, &HostTensors::key, always, [](Desc d) { return d.key; },
        push_constant(offsetof(AttentionParams, key_offset)), {.may_be_quantised = true}),
    make_row<kKeyRows, value_dim>("value", VKATTN_BINDING_VALUE, &Tensors::value, &HostTensors::value, always,
                                  [](Desc d) { return d.value; },
                                  push_constant(offsetof(AttentionParams, value_offset)),
                                  {.may_be_quantised = true}),
    make_row<kQueryRows, value_dim>(
        "output", VKATTN_BINDING_OUTPUT, &Tensors::output, &HostTensors::output, always,
        [](Desc d) { return d.output; }, push_constant(offsetof(AttentionParams, output_offset)), kWritten),
    make_row<kQueryRows, one>(
        "lse", VKATTN_BINDING_LSE, &Tensors::lse, &HostTensors::lse, [](Desc d) { return d.has_lse; },
        lse_storage, push_constant(offsetof(AttentionParams, lse_offset)), kWritten),
    make_row<kEntries, one>(
        "kv_lengths", VKATTN_BINDING_KV_LENGTHS, &Tensors::kv_lengths, &HostTensors::kv_lengths,
        [](Desc d) { return d.kv_lengths == Lengths::kPerEntry; }, number_per_entry,
        push_constant(offsetof(AttentionParams, kv_lengths_offset))),
    make_row<kEntrySums, one>(
        "cumulative_kv_lengths", VKATTN_BINDING_KV_LENGTHS, &Tensors::cumulative_kv_lengths,
        &HostTensors::cumulative_kv_lengths, [](Desc d) { return d.has_packed_keys(); }, number_per_entry,
        push_constant(offsetof(AttentionParams, kv_lengths_offset))),
    make_row<kMask, stored_mask_columns>(
        "mask", VKATTN_BINDING_MASK, &Tensors::mask, &HostTensors::mask,
        [](Desc d) { return d.mask.type != MaskType::kNone; }, [](Desc d) { return mask_tensor(d.mask); },
        parameter(offsetof(FeatureParams, mask_offset)), {.may_be_quantised = true}),
    make_row<kEntries, one>(
        "query_lengths", VKATTN_BINDING_QUERY_LENGTHS, &Tensors::query_lengths, &HostTensors::query_lengths,
        [](Desc d) { return d.query_lengths == Lengths::kPerEntry; }, number_per_entry,
        parameter(offsetof(FeatureParams, query_lengths_offset))),
    make_row<kEntrySums, one>(
        "cumulative_query_lengths", VKATTN_BINDING_QUERY_LENGTHS, &Tensors::cumulative_query_lengths,
        &HostTensors::cumulative_query_lengths, [](Desc d) { return d.has_packed_queries(); },
        number_per_entry, parameter(offsetof(FeatureParams, query_lengths_offset))),
    make_row<kEntries, pages_of_entry>(
        "page_table", VKATTN_BINDING_PAGE_TABLE, &Tensors::page_table, &HostTensors::page_table, is_paged,
        [](Desc d) {
          return numbers(Strides{d.cache.page_table_stride, 0, 0, 1});
        },
        parameter(offsetof(FeatureParams, page_table_offset))),
    make_row<kQueryHeads, one>(
        "alibi_slopes", VKATTN_BINDING_ALIBI_SLOPES, &Tensors::alibi_slopes, &HostTensors::alibi_slopes,
        [](Desc d) { return has_given_slopes(d.alibi); }, number_per_head,
        parameter(offsetof(FeatureParams, slopes_offset))),
    make_row<kQueryHeads, one>(
        "sinks", VKATTN_BINDING_SINKS, &Tensors::sinks, &HostTensors::sinks,
        [](Desc d) { return d.has_sinks; }, number_per_head,
        parameter(offsetof(FeatureParams, sinks_offset))),
    make_row<kKvHeads, one>(
        "key_scales", VKATTN_BINDING_KEY_SCALES, &Tensors::key_scales, &HostTensors::key_scales,
        [](Desc d) { return d.key.type == DataType::kFloat8E4m3; }, number_per_head,
        parameter(offsetof(FeatureParams, key_scales_offset))),
    make_row<kKvHeads, one>(
        "value_scales", VKATTN_BINDING_VALUE_SCALES, &Tensors::value_scales, &HostTensors::value_scales,
        [](Desc d) { return d.value.type == DataType::kFloat8E4m3; }, number_per_head,
        parameter(offsetof(FeatureParams, value_scales_offset))),
    make_row<kScores, kv_length>(
        "weights", VKATTN_BINDING_WEIGHTS, &Tensors::weights, &HostTensors::weights,
        [](Desc d) { return d.weights != WeightsStage::kNone; },
        [](Desc d) { return numbers(*d.weights_strides); },
        parameter(offsetof(FeatureParams, weights_offset)), kWritten),
};

static_assert(kTensors.back().range != nullptr, "each member of AttentionTensors has a row");

// A block of a tensor: where it begins, and its extents.
struct Block {
  std::int64_t first_batch = 0, first_head = 0, first_row = 0;
  std::int64_t batch = 1, heads = 1, rows = 1;
};

// K and V of the window. Packed sequences and pages have no place of their own for a batch entry, so all of
// them are bound; a ring has all its rows.
Block key_block(Desc desc, const Window& w) {
  const std::int64_t group = desc.query_heads / desc.kv_heads;
  const TensorExtents all = key_extents(desc, 0);
  Block block{w.first_batch, w.first_head / group, w.first_key, w.batch, divide_up(w.heads, group), w.keys};
  if (desc.cache.mapping == KeyMapping::kRing) block.rows = all.rows;
  if (desc.has_packed_keys() || is_paged(desc)) {
    block.first_batch = block.first_row = 0;
    block.batch = all.batch;
    block.rows = all.rows;
  }
  return block;
}

Block block_of(TensorCut cut, Desc desc, const Window& w) {
  switch (cut) {
    case TensorCut::kQueryRows:
      if (desc.has_packed_queries()) return {0, w.first_head, 0, 1, w.heads, desc.total_query_length};
      return {w.first_batch, w.first_head, w.first_row, w.batch, w.heads, w.rows};
    case TensorCut::kKeyRows:
      return key_block(desc, w);
    case TensorCut::kMask:
      if (mask_heads_repeat(desc)) return {w.first_batch, 0, w.first_row, w.batch, desc.mask.heads, w.rows};
      [[fallthrough]];
    case TensorCut::kScores:
      return {w.first_batch, w.first_head, w.first_row, w.batch, w.heads, w.rows};
    case TensorCut::kEntries:
      return {w.first_batch, 0, 0, w.batch, 1, 1};
    case TensorCut::kEntrySums:
      return {w.first_batch, 0, 0, w.batch + 1, 1, 1};
    case TensorCut::kQueryHeads:
      return {0, w.first_head, 0, 1, w.heads, 1};
    case TensorCut::kKvHeads:
      break;
  }
  const Block keys = key_block(desc, w);
  return {0, keys.first_head, 0, 1, keys.heads, 1};
}

}  // namespace

std::span<const TensorRow, kTensorCount> TensorTable<AttentionTensors>::rows() {
  return kTensors;
}

std::span<const std::byte> host_bytes(const HostTensors& tensors, const TensorRow& row) {
  const auto bytes = [&](auto member) { return std::span<const std::byte>((tensors.*member).bytes()); };
  return std::visit(bytes, row.host);
}

std::uint32_t storage_buffers(Desc desc) {
  std::uint32_t count = has_features(desc) ? 1U : 0U;  // FeatureParams
  for (const TensorRow& row : kTensors) count += row.is_used(desc) ? 1U : 0U;
  if (needs_row_lse(desc) && !desc.has_lse) ++count;
  return count + score_buffers(desc);
}

std::uint32_t fewest_storage_buffers(Desc desc) {
  constexpr std::uint32_t kOfKernels = 4;  // queries, keys, values and all else
  // The pass of the weights reads lse where the caller wants it.
  return kOfKernels + (needs_row_lse(desc) && desc.has_lse ? 1U : 0U) + score_buffers(desc);
}

TensorWindow tensor_window(const TensorRow& row, Desc desc, const Window& window) {
  if (!row.is_used(desc)) return {};
  const Block block = block_of(row.cut, desc, window);
  const TensorDesc storage = row.storage(desc);
  const Strides& s = *storage.strides;
  const auto bytes = static_cast<std::int64_t>(
      valid_bytes(storage, {block.batch, block.heads, block.rows, row.extents(desc).dims}));
  const std::int64_t element =
      block.first_batch * s.batch + block.first_head * s.head + block.first_row * s.row;
  return {element / block_elements(storage.type) * block_bytes(storage.type), bytes};
}

std::uint32_t offset_unit_bytes(const TensorDesc& storage) {
  return is_quantised(storage.type) ? 1 : element_bytes(storage.type);
}

Window whole_window(Desc desc) {
  // No packed sequence is longer than all of them, whatever query_length allows.
  const std::int64_t rows =
      desc.has_packed_queries() ? std::min(desc.query_length, desc.total_query_length) : desc.query_length;
  return {0, desc.batch, 0, desc.query_heads, 0, rows, 0, desc.kv_length};
}

TensorWindows tensor_windows(Desc desc, const Window& window) {
  TensorWindows parts;
  for (const TensorRow& row : kTensors) {
    if (row.is_used(desc)) parts[row.binding] = tensor_window(row, desc, window);
  }
  return parts;
}

std::int64_t workspace_rows(Desc desc, const Window& window) {
  const Block block = block_of(TensorCut::kQueryRows, desc, window);
  return block.batch * block.heads * block.rows;  // below 2^62 by validate()
}

}  // namespace vkattn::detail
