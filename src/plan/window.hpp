// Cutting a problem into windows that fit a device's storage buffer range. A window is a block of batch
// entries, query heads and query rows; its tensors are bound as ranges of their own.
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
};

/// Where a window's part of one tensor lies, from the tensor's first element.
struct TensorWindow {
  std::int64_t first_element = 0;
  std::int64_t bytes = 0;  ///< to the end of the last element; 0 for a tensor without elements
};

/// By binding number (VKATTN_BINDING_*).
using TensorWindows = std::array<TensorWindow, VKATTN_BINDING_COUNT>;

[[nodiscard]] TensorWindows tensor_windows(const AttentionDesc& desc, const Window& window);

/// How far below a tensor's first element a descriptor may begin, at the most: descriptors are bound rounded
/// down.
[[nodiscard]] std::uint64_t binding_alignment(const Capabilities& capabilities);

/// Checks whole tensors against maxBufferSize and maxMemoryAllocationSize, then cuts the problem so that
/// every tensor of every window fits maxStorageBufferRange. The keys of one head are never cut.
[[nodiscard]] Result<std::vector<Window>> make_windows(const AttentionDesc& desc,
                                                       const Capabilities& capabilities);

}  // namespace vkattn::detail
