// A part of a problem: a block of batch entries, query heads, query rows and keys.
#pragma once

#include <vkattn/attention.hpp>

#include <array>
#include <cstdint>

#include "shared/attention_constants.h"

namespace vkattn::detail {

struct Window {
  std::int64_t first_batch = 0, batch = 0;
  std::int64_t first_head = 0, heads = 0;  ///< query heads: whole groups of a KV head, or a part of one group
  std::int64_t first_row = 0, rows = 0;    ///< query rows
  std::int64_t first_key = 0, keys = 0;    ///< keys and values
};

/// The whole problem as one window.
[[nodiscard]] Window whole_window(const AttentionDesc& desc);

/// Where a window's part of one tensor lies, from the tensor's first byte.
struct TensorWindow {
  std::int64_t first_byte = 0;
  std::int64_t bytes = 0;  ///< to the end of the last element; 0 for a tensor without elements
};

/// By binding number (VKATTN_BINDING_*).
using TensorWindows = std::array<TensorWindow, VKATTN_FEATURE_BINDING_COUNT>;

/// The parts of all tensors that the problem uses.
[[nodiscard]] TensorWindows tensor_windows(const AttentionDesc& desc, const Window& window);

/// Rows of Q that a window has, which the workspace holds something of: of packed queries those of its heads.
[[nodiscard]] std::int64_t workspace_rows(const AttentionDesc& desc, const Window& window);

}  // namespace vkattn::detail
