// Cutting a problem into windows that fit a device's storage buffer range. A window is a block of batch
// entries, query heads, query rows and, where one head's keys are too many, keys; its tensors are bound as
// ranges of their own.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/capabilities.hpp>

#include <array>
#include <cstdint>
#include <vector>

#include "shared/attention_constants.h"

namespace vkattn::detail {

struct Window {
  std::int64_t first_batch = 0, batch = 0;
  std::int64_t first_head = 0, heads = 0;  ///< query heads: whole groups of a KV head, or a part of one group
  std::int64_t first_row = 0, rows = 0;    ///< query rows
  std::int64_t first_key = 0, keys = 0;    ///< keys and values
};

/// Where a window's part of one tensor lies, from the tensor's first byte.
struct TensorWindow {
  std::int64_t first_byte = 0;
  std::int64_t bytes = 0;  ///< to the end of the last element; 0 for a tensor without elements
};

/// By binding number (VKATTN_BINDING_*).
using TensorWindows = std::array<TensorWindow, VKATTN_FEATURE_BINDING_COUNT>;

/// The whole problem as one window.
[[nodiscard]] Window whole_window(const AttentionDesc& desc);

[[nodiscard]] TensorWindows tensor_windows(const AttentionDesc& desc, const Window& window);

/// Rows of Q that a window has, which the workspace holds something of: of packed queries those of its heads.
[[nodiscard]] std::int64_t workspace_rows(const AttentionDesc& desc, const Window& window);

/// How far below a tensor's first element a descriptor may begin, at the most: descriptors are bound rounded
/// down.
[[nodiscard]] std::uint64_t binding_alignment(const Capabilities& capabilities);

struct Windows {
  std::vector<Window> windows;  ///< each with all keys
  std::int64_t max_keys =
      0;  ///< that fit one descriptor: below kv_length, the caller cuts each window further
};

/// Checks whole tensors against maxBufferSize and maxMemoryAllocationSize, then cuts the problem so that
/// every tensor of every window fits maxStorageBufferRange. Where the keys of one head do not and `key_step`,
/// the kernel's, is not 0, says how many (a multiple of it) do. `workspace_row_bytes` are what the workspace
/// holds for each row: it is cut with the rows.
[[nodiscard]] Result<Windows> make_windows(const AttentionDesc& desc, const Capabilities& capabilities,
                                           std::uint32_t key_step, std::int64_t workspace_row_bytes = 0);

}  // namespace vkattn::detail
