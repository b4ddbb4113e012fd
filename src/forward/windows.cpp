// Windows: see windows.hpp.
#include "forward/windows.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "attention/tensor_table.hpp"
#include "common/message.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

namespace {

Result<void> check_whole_tensors(const AttentionDesc& desc, const Capabilities& capabilities) {
  const Window whole = whole_window(desc);
  for (const TensorRow& row : tensor_table()) {
    const auto bytes = static_cast<std::uint64_t>(tensor_window(row, desc, whole).bytes);
    const auto too_large = [&](std::string_view limit, std::uint64_t most) {
      return limit_exceeded("the ", row.name, " tensor takes ", bytes, " bytes; ", limit, " is ", most);
    };
    if (bytes > capabilities.max_buffer_size) return too_large("maxBufferSize", capabilities.max_buffer_size);
    if (bytes > capabilities.max_memory_allocation_bytes) {
      return too_large("maxMemoryAllocationSize", capabilities.max_memory_allocation_bytes);
    }
  }
  return {};
}

struct TooLarge {
  std::string_view name;
  TensorCut cut;
  std::int64_t bytes;
};

// Shaders count elements in 32 bits, and some formats have several in a byte.
std::uint64_t countable_bytes(const TensorDesc& tensor) {
  return (std::uint64_t{1} << 32U) / block_elements(tensor.type) * block_bytes(tensor.type);
}

// The first tensor whose part is too large for one descriptor; the workspace is cut like the rows of queries.
std::optional<TooLarge> first_too_large(const AttentionDesc& desc, const Window& window, std::uint64_t range,
                                        const WorkspaceBytes& workspace_bytes) {
  for (const TensorRow& row : tensor_table()) {
    const std::int64_t bytes = tensor_window(row, desc, window).bytes;
    if (bytes == 0) continue;
    if (static_cast<std::uint64_t>(bytes) > std::min(range, countable_bytes(row.storage(desc)))) {
      return TooLarge{row.name, row.cut, bytes};
    }
  }
  const std::int64_t bytes = workspace_bytes ? workspace_bytes(window) : 0;
  if (static_cast<std::uint64_t>(bytes) <= range) return std::nullopt;
  return TooLarge{"workspace", TensorCut::kQueryRows, bytes};
}

// Keys of one head that fit a range, in whole steps; 0 where not even one step does.
std::int64_t keys_that_fit(const AttentionDesc& desc, std::uint64_t range, std::int64_t key_step) {
  const auto fit = [&](const TensorDesc& tensor, std::int64_t dims) {
    const std::int64_t size = element_bytes(tensor.type);
    const std::int64_t row = tensor_bytes(tensor, 1, 1, 1, dims).value();
    const auto room = static_cast<std::int64_t>(std::min<std::uint64_t>(range, 1ULL << 62U)) - row;
    if (room < 0) return std::int64_t{0};
    return tensor.strides->row == 0 ? desc.kv_length : room / size / tensor.strides->row + 1;
  };
  const std::int64_t keys = std::min(fit(desc.key, desc.head_dim), fit(desc.value, desc.value_dim));
  return keys / key_step * key_step;
}

// Halves the largest part that can be: batch entries, then groups of heads, then heads of a group, then rows.
bool shrink(const AttentionDesc& desc, TensorCut cut, Window& window) {
  const std::int64_t group = desc.query_heads / desc.kv_heads;
  // Packed sequences share their tensors, so a smaller batch or fewer rows make no tensor smaller. Packed
  // queries share the tensors that have their rows.
  const bool shared = desc.has_packed_keys() || (desc.has_packed_queries() && cut == TensorCut::kQueryRows);
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

Result<Windows> make_windows(const AttentionDesc& desc, const Capabilities& capabilities,
                             std::uint32_t key_step, const WorkspaceBytes& workspace_bytes) {
  if (Result<void> status = check_whole_tensors(desc, capabilities); !status) return status.error();
  const std::uint64_t slack = binding_alignment(capabilities) + 4;  // rounding down, and up to a whole word
  const std::uint64_t limit = capabilities.max_storage_buffer_range;
  const std::uint64_t range = limit > slack ? limit - slack : 0;
  const std::int64_t group = desc.query_heads / std::max<std::int64_t>(desc.kv_heads, 1);
  Windows result;
  result.max_keys = desc.kv_length;
  const Window whole = whole_window(desc);
  Window window = whole;
  while (const auto large = first_too_large(desc, window, range, workspace_bytes)) {
    const bool holds_keys = large->cut == TensorCut::kKeyRows;
    const bool one_head = window.batch == 1 && window.heads <= group;
    if (holds_keys && one_head && key_step != 0) {
      result.max_keys = keys_that_fit(desc, range, key_step);
      if (result.max_keys > 0 && result.max_keys < window.keys) {
        window.keys = result.max_keys;
        continue;
      }
    }
    if ((holds_keys && one_head) || !shrink(desc, large->cut, window)) {
      return limit_exceeded("one head of the ", large->name, " tensor spans ", large->bytes,
                            " bytes; maxStorageBufferRange is ", limit,
                            holds_keys && key_step == 0 ? ", and this kernel cannot split the keys" : "");
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
