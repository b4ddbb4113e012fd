// Cutting a problem into windows that fit a device's storage buffer range. A window is a block of batch
// entries, query heads, query rows and, where one head's keys are too many, keys; its tensors are bound as
// ranges of their own.
#pragma once

#include <vkattn/capabilities.hpp>
#include <vkattn/result.hpp>

#include <cstdint>
#include <functional>
#include <vector>

#include "attention/window.hpp"

namespace vkattn::detail {

using WorkspaceBytes = std::function<std::int64_t(const Window&)>;

struct Windows {
  std::vector<Window> windows;  ///< each with all keys
  std::int64_t max_keys =
      0;  ///< that fit one descriptor: below kv_length, the caller cuts each window further
};

/// Checks whole tensors against maxBufferSize and maxMemoryAllocationSize, then cuts the problem so that
/// every tensor of every window fits maxStorageBufferRange. Where the keys of one head do not and `key_step`,
/// the kernel's, is not 0, says how many (a multiple of it) do. `workspace_bytes`, if it is given, says what
/// the workspace holds for a window: it is cut with the rows, and has to fit too.
[[nodiscard]] Result<Windows> make_windows(const AttentionDesc& desc, const Capabilities& capabilities,
                                           std::uint32_t key_step,
                                           const WorkspaceBytes& workspace_bytes = nullptr);

}  // namespace vkattn::detail
