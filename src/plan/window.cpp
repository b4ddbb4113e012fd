// Windows: see window.hpp.
#include "plan/window.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "common/message.hpp"
#include "plan/checked.hpp"
#include "plan/features.hpp"
#include "plan/tensor_rules.hpp"

namespace vkattn::detail {

namespace {

constexpr std::array<std::string_view, VKATTN_FEATURE_BINDING_COUNT> kTensorNames{
    "query",        "key",     "value",         "output",     "lse",          "kv_lengths", "workspace",
    "workspace",    "mask",    "query_lengths", "page_table", "alibi_slopes", "sinks",      "key_scales",
    "value_scales", "weights", "workspace",     "user",       "user",         "user",       "user"};

struct Block {
  std::int64_t batch, heads, rows, dims;
};

// What a window holds of Q, O and lse, and where it begins. Of packed queries, all rows.
Block query_block(const AttentionDesc& desc, const Window& w) {
  if (desc.has_packed_queries()) return {1, w.heads, desc.total_query_length, 0};
  return {w.batch, w.heads, w.rows, 0};
}
Block query_first(const AttentionDesc& desc, const Window& w) {
  if (desc.has_packed_queries()) return {0, w.first_head, 0, 0};
  return {w.first_batch, w.first_head, w.first_row, 0};
}

// The same of K and V. Of packed sequences and pages, all of them.
Block key_block(const AttentionDesc& desc, const Window& w) {
  const std::int64_t group = desc.query_heads / desc.kv_heads;
  const TensorExtents all = key_extents(desc, 0);
  const std::int64_t heads = (w.heads + group - 1) / group;
  if (desc.has_cumulative_lengths || desc.cache.mapping == KeyMapping::kPaged)
    return {all.batch, heads, all.rows, 0};
  return {w.batch, heads, desc.cache.mapping == KeyMapping::kRing ? all.rows : w.keys, 0};
}
Block key_first(const AttentionDesc& desc, const Window& w) {
  const std::int64_t head = w.first_head / (desc.query_heads / desc.kv_heads);
  if (desc.has_cumulative_lengths || desc.cache.mapping == KeyMapping::kPaged) return {0, head, 0, 0};
  return {w.first_batch, head, w.first_key, 0};
}

Block with_dims(Block block, std::int64_t dims) {
  block.dims = dims;
  return block;
}

// The part of a tensor from (batch, head, row) on; validate() has seen that nothing overflows.
TensorWindow part(const TensorDesc& tensor, const Block& first, const Block& extent) {
  const std::int64_t bytes =
      tensor_bytes(tensor, extent.batch, extent.heads, extent.rows, extent.dims).value();
  const Strides& s = tensor.strides;
  const std::int64_t element = first.batch * s.batch + first.heads * s.head + first.rows * s.row;
  return {element / block_elements(tensor.type) * block_bytes(tensor.type), bytes};
}

void add_feature_windows(const AttentionDesc& desc, const Window& w, TensorWindows& parts) {
  const std::int64_t first_kv_head = w.first_head / (desc.query_heads / desc.kv_heads);
  const std::int64_t kv_heads = key_block(desc, w).heads;
  const Block rows_first{w.first_batch, w.first_head, w.first_row, 0};
  if (desc.mask.type != MaskType::kNone) {
    const std::int64_t columns = mask_columns(desc.mask, desc.kv_length);
    parts[VKATTN_BINDING_MASK] =
        part(mask_tensor(desc.mask), rows_first, {w.batch, w.heads, w.rows, columns});
  }
  if (desc.weights != WeightsStage::kNone) {
    const TensorDesc weights{DataType::kFloat32, desc.weights_strides, 0};
    parts[VKATTN_BINDING_WEIGHTS] = part(weights, rows_first, {w.batch, w.heads, w.rows, desc.kv_length});
  }
  const TensorWindow lengths{w.first_batch * 4, w.batch * 4};
  const TensorWindow sums{w.first_batch * 4, (w.batch + 1) * 4};
  if (desc.has_query_lengths) parts[VKATTN_BINDING_QUERY_LENGTHS] = lengths;
  if (desc.has_packed_queries()) parts[VKATTN_BINDING_QUERY_LENGTHS] = sums;
  if (desc.has_cumulative_lengths) parts[VKATTN_BINDING_KV_LENGTHS] = sums;
  if (desc.cache.mapping == KeyMapping::kPaged) {
    const std::int64_t stride = desc.cache.page_table_stride * 4;
    parts[VKATTN_BINDING_PAGE_TABLE] = {w.first_batch * stride, w.batch * stride};
  }
  const TensorWindow heads{w.first_head * 4, w.heads * 4};
  if (desc.alibi == Alibi::kGiven) parts[VKATTN_BINDING_ALIBI_SLOPES] = heads;
  if (desc.has_sinks) parts[VKATTN_BINDING_SINKS] = heads;
  const TensorWindow scales{first_kv_head * 4, kv_heads * 4};
  if (desc.key.type == DataType::kFloat8E4m3) parts[VKATTN_BINDING_KEY_SCALES] = scales;
  if (desc.value.type == DataType::kFloat8E4m3) parts[VKATTN_BINDING_VALUE_SCALES] = scales;
}

Status check_whole_tensors(const AttentionDesc& desc, const Capabilities& capabilities) {
  const TensorWindows whole = tensor_windows(desc, whole_window(desc));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const auto bytes = static_cast<std::uint64_t>(whole[i].bytes);
    if (bytes > capabilities.max_buffer_size) {
      return Error{ErrorCode::kLimitExceeded, VK_SUCCESS,
                   message("the ", kTensorNames[i], " tensor takes ", bytes, " bytes; maxBufferSize is ",
                           capabilities.max_buffer_size)};
    }
    if (bytes > capabilities.max_memory_allocation_bytes) {
      return Error{ErrorCode::kLimitExceeded, VK_SUCCESS,
                   message("the ", kTensorNames[i], " tensor takes ", bytes,
                           " bytes; maxMemoryAllocationSize is ", capabilities.max_memory_allocation_bytes)};
    }
  }
  return {};
}

struct TooLarge {
  std::size_t binding;
  std::int64_t bytes;
};

// Shaders count elements in 32 bits, and some formats have several in a byte.
std::uint64_t countable_bytes(const TensorDesc& tensor) {
  return (std::uint64_t{1} << 32U) / block_elements(tensor.type) * block_bytes(tensor.type);
}

// The first tensor whose part is too large for one descriptor.
std::optional<TooLarge> first_too_large(const AttentionDesc& desc, const Window& window, std::uint64_t range,
                                        std::int64_t workspace_row_bytes) {
  TensorWindows parts = tensor_windows(desc, window);
  parts[VKATTN_BINDING_PARTIALS].bytes =
      saturating_multiply(workspace_rows(desc, window), workspace_row_bytes);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::uint64_t most = range;
    if (i == VKATTN_BINDING_KEY) most = std::min(most, countable_bytes(desc.key));
    if (i == VKATTN_BINDING_VALUE) most = std::min(most, countable_bytes(desc.value));
    if (static_cast<std::uint64_t>(parts[i].bytes) > most) return TooLarge{i, parts[i].bytes};
  }
  return std::nullopt;
}

// Keys of one head that fit a range, in whole steps; 0 where not even one step does.
std::int64_t keys_that_fit(const AttentionDesc& desc, std::uint64_t range, std::int64_t key_step) {
  const auto fit = [&](const TensorDesc& tensor, std::int64_t dims) {
    const std::int64_t size = element_bytes(tensor.type);
    const std::int64_t row = tensor_bytes(tensor, 1, 1, 1, dims).value();
    const auto room = static_cast<std::int64_t>(std::min<std::uint64_t>(range, 1ULL << 62U)) - row;
    if (room < 0) return std::int64_t{0};
    return tensor.strides.row == 0 ? desc.kv_length : room / size / tensor.strides.row + 1;
  };
  const std::int64_t keys = std::min(fit(desc.key, desc.head_dim), fit(desc.value, desc.value_dim));
  return keys / key_step * key_step;
}

// Halves the largest part that can be: batch entries, then groups of heads, then heads of a group, then rows.
bool shrink(const AttentionDesc& desc, std::size_t large, Window& window) {
  const std::int64_t group = desc.query_heads / desc.kv_heads;
  // Packed sequences share their tensors, so fewer of them, or fewer rows, make nothing smaller. Of packed
  // queries that is so of Q, O, lse and the workspace.
  const bool has_rows = large == VKATTN_BINDING_QUERY || large == VKATTN_BINDING_OUTPUT ||
                        large == VKATTN_BINDING_LSE || large == VKATTN_BINDING_PARTIALS;
  const bool shared = desc.has_cumulative_lengths || (desc.has_cumulative_query_lengths && has_rows);
  if (window.batch > 1 && !shared) {
    window.batch = (window.batch + 1) / 2;
  } else if (window.heads > group) {
    window.heads = (window.heads / group + 1) / 2 * group;
  } else if (window.heads > 1) {
    std::int64_t heads = window.heads / 2;
    while (group % heads != 0) --heads;  // parts of a group never straddle two
    window.heads = heads;
  } else if (window.rows > 1 && !desc.has_packed_queries()) {
    window.rows = (window.rows + 1) / 2;
  } else {
    return false;
  }
  return true;
}

}  // namespace

Window whole_window(const AttentionDesc& desc) {
  // None of the packed ones is longer than all of them, whatever the longest that may occur.
  const std::int64_t rows =
      desc.has_packed_queries() ? std::min(desc.query_length, desc.total_query_length) : desc.query_length;
  return {0, desc.batch, 0, desc.query_heads, 0, rows, 0, desc.kv_length};
}

TensorWindows tensor_windows(const AttentionDesc& desc, const Window& w) {
  const Block rows = query_block(desc, w), first_row = query_first(desc, w);
  const Block keys = key_block(desc, w), first_key = key_first(desc, w);
  TensorWindows parts;
  parts[VKATTN_BINDING_QUERY] = part(desc.query, first_row, with_dims(rows, desc.head_dim));
  parts[VKATTN_BINDING_KEY] = part(desc.key, first_key, with_dims(keys, desc.head_dim));
  parts[VKATTN_BINDING_VALUE] = part(desc.value, first_key, with_dims(keys, desc.value_dim));
  parts[VKATTN_BINDING_OUTPUT] = part(desc.output, first_row, with_dims(rows, desc.value_dim));
  if (desc.has_lse) {
    TensorDesc lse{DataType::kFloat32, desc.lse_strides, 0};
    lse.strides.dim = 1;  // ignored, so it may be anything
    parts[VKATTN_BINDING_LSE] = part(lse, first_row, with_dims(rows, 1));
  }
  if (desc.has_kv_lengths) parts[VKATTN_BINDING_KV_LENGTHS] = {w.first_batch * 4, w.batch * 4};
  if (has_features(desc)) add_feature_windows(desc, w, parts);
  return parts;
}

std::int64_t workspace_rows(const AttentionDesc& desc, const Window& window) {
  const Block rows = query_block(desc, window);
  return rows.batch * rows.heads * rows.rows;  // below 2^62 by validate()
}

std::uint64_t binding_alignment(const Capabilities& capabilities) {
  // At least 16, so that what rounding leaves over keeps 16-byte loads aligned.
  return std::max<std::uint64_t>(capabilities.min_storage_offset_alignment, 16);
}

Result<Windows> make_windows(const AttentionDesc& desc, const Capabilities& capabilities,
                             std::uint32_t key_step, std::int64_t workspace_row_bytes) {
  if (Status status = check_whole_tensors(desc, capabilities); !status) return status.error();
  const std::uint64_t slack = binding_alignment(capabilities) + 4;  // rounding down, and up to a whole word
  const std::uint64_t limit = capabilities.max_storage_buffer_range;
  const std::uint64_t range = limit > slack ? limit - slack : 0;
  const std::int64_t group = desc.query_heads / std::max<std::int64_t>(desc.kv_heads, 1);
  Windows result;
  result.max_keys = desc.kv_length;
  const Window whole = whole_window(desc);
  Window window = whole;
  while (const auto large = first_too_large(desc, window, range, workspace_row_bytes)) {
    const bool holds_keys = large->binding == VKATTN_BINDING_KEY || large->binding == VKATTN_BINDING_VALUE;
    const bool one_head = window.batch == 1 && window.heads <= group;
    if (holds_keys && one_head && key_step != 0) {
      result.max_keys = keys_that_fit(desc, range, key_step);
      if (result.max_keys > 0 && result.max_keys < window.keys) {
        window.keys = result.max_keys;
        continue;
      }
    }
    if ((holds_keys && one_head) || !shrink(desc, large->binding, window)) {
      return Error{ErrorCode::kLimitExceeded, VK_SUCCESS,
                   message("one head of the ", kTensorNames[large->binding], " tensor spans ", large->bytes,
                           " bytes; maxStorageBufferRange is ", limit,
                           holds_keys && key_step == 0 ? ", and this kernel cannot split the keys" : "")};
    }
  }
  for (std::int64_t b = 0; b < desc.batch; b += window.batch) {
    for (std::int64_t h = 0; h < desc.query_heads; h += window.heads) {
      for (std::int64_t r = 0; r < whole.rows; r += window.rows) {
        result.windows.push_back({b, std::min(window.batch, desc.batch - b), h,
                                  std::min(window.heads, desc.query_heads - h), r,
                                  std::min(window.rows, whole.rows - r), 0, desc.kv_length});
      }
    }
  }
  return result;
}

}  // namespace vkattn::detail
