// Windows: see window.hpp.
#include "plan/window.hpp"

#include <algorithm>
#include <string_view>

#include "common/message.hpp"

namespace vkattn::detail {

namespace {

constexpr std::array<std::string_view, VKATTN_BINDING_COUNT> kTensorNames{
    "query", "key", "value", "output", "lse", "kv_lengths", "workspace"};

struct Block {
  std::int64_t batch, heads, rows, dims;
};

// The part of a tensor from (batch, head, row) on; validate() has seen that nothing overflows.
TensorWindow part(const TensorDesc& tensor, const Block& first, const Block& extent) {
  const std::int64_t bytes =
      tensor_bytes(tensor, extent.batch, extent.heads, extent.rows, extent.dims).value();
  const Strides& s = tensor.strides;
  return {first.batch * s.batch + first.heads * s.head + first.rows * s.row, bytes};
}

Status check_whole_tensors(const AttentionDesc& desc, const Capabilities& capabilities) {
  const TensorWindows whole =
      tensor_windows(desc, {0, desc.batch, 0, desc.query_heads, 0, desc.query_length});
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

// The binding whose part is too large for one descriptor, or -1.
int first_too_large(const AttentionDesc& desc, const Window& window, std::uint64_t range) {
  const TensorWindows parts = tensor_windows(desc, window);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (static_cast<std::uint64_t>(parts[i].bytes) > range) return static_cast<int>(i);
  }
  return -1;
}

// Halves the largest part that can be: batch entries, then groups of heads, then heads of a group, then rows.
bool shrink(const AttentionDesc& desc, Window& window) {
  const std::int64_t group = desc.query_heads / desc.kv_heads;
  if (window.batch > 1) {
    window.batch = (window.batch + 1) / 2;
  } else if (window.heads > group) {
    window.heads = (window.heads / group + 1) / 2 * group;
  } else if (window.heads > 1) {
    std::int64_t heads = window.heads / 2;
    while (group % heads != 0) --heads;  // parts of a group never straddle two
    window.heads = heads;
  } else if (window.rows > 1) {
    window.rows = (window.rows + 1) / 2;
  } else {
    return false;
  }
  return true;
}

}  // namespace

TensorWindows tensor_windows(const AttentionDesc& desc, const Window& w) {
  const std::int64_t group = desc.query_heads / desc.kv_heads;
  const std::int64_t first_kv_head = w.first_head / group;
  const std::int64_t kv_heads = (w.heads + group - 1) / group;
  const Block rows_first{w.first_batch, w.first_head, w.first_row, 0};
  const Block keys_first{w.first_batch, first_kv_head, 0, 0};
  TensorWindows parts;
  parts[VKATTN_BINDING_QUERY] = part(desc.query, rows_first, {w.batch, w.heads, w.rows, desc.head_dim});
  parts[VKATTN_BINDING_KEY] = part(desc.key, keys_first, {w.batch, kv_heads, desc.kv_length, desc.head_dim});
  parts[VKATTN_BINDING_VALUE] =
      part(desc.value, keys_first, {w.batch, kv_heads, desc.kv_length, desc.value_dim});
  parts[VKATTN_BINDING_OUTPUT] = part(desc.output, rows_first, {w.batch, w.heads, w.rows, desc.value_dim});
  if (desc.has_lse) {
    const TensorDesc lse{DataType::kFloat32, desc.lse_strides, 0};
    parts[VKATTN_BINDING_LSE] = part(lse, rows_first, {w.batch, w.heads, w.rows, 1});
  }
  if (desc.has_kv_lengths) parts[VKATTN_BINDING_KV_LENGTHS] = {w.first_batch, w.batch * 4};
  return parts;
}

std::uint64_t binding_alignment(const Capabilities& capabilities) {
  // At least 16, so that what rounding leaves over keeps 16-byte loads aligned.
  return std::max<std::uint64_t>(capabilities.min_storage_offset_alignment, 16);
}

Result<std::vector<Window>> make_windows(const AttentionDesc& desc, const Capabilities& capabilities) {
  if (Status status = check_whole_tensors(desc, capabilities); !status) return status.error();
  const std::uint64_t slack = binding_alignment(capabilities) + 4;  // rounding down, and up to a whole word
  const std::uint64_t limit = capabilities.max_storage_buffer_range;
  const std::uint64_t range = limit > slack ? limit - slack : 0;
  Window window{0, desc.batch, 0, desc.query_heads, 0, desc.query_length};
  for (int binding = first_too_large(desc, window, range); binding >= 0;
       binding = first_too_large(desc, window, range)) {
    const auto bytes = tensor_windows(desc, window)[static_cast<std::size_t>(binding)].bytes;
    if (!shrink(desc, window)) {
      return Error{ErrorCode::kLimitExceeded, VK_SUCCESS,
                   message("one head of the ", kTensorNames[static_cast<std::size_t>(binding)],
                           " tensor spans ", bytes, " bytes; maxStorageBufferRange is ", limit)};
    }
  }
  std::vector<Window> windows;
  for (std::int64_t b = 0; b < desc.batch; b += window.batch) {
    for (std::int64_t h = 0; h < desc.query_heads; h += window.heads) {
      for (std::int64_t r = 0; r < desc.query_length; r += window.rows) {
        windows.push_back({b, std::min(window.batch, desc.batch - b), h,
                           std::min(window.heads, desc.query_heads - h), r,
                           std::min(window.rows, desc.query_length - r)});
      }
    }
  }
  return windows;
}

}  // namespace vkattn::detail
