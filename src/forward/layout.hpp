// Decisions after a kernel is chosen: the parts of the keys, the windows, and the workspace of each. Plain
// data, without handles.
#pragma once

#include <vkattn/capabilities.hpp>
#include <vkattn/plan.hpp>

#include <cstdint>
#include <vector>

#include "attention/params.hpp"
#include "attention/window.hpp"
#include "kernels/kernel.hpp"
#include "kernels/split.hpp"

namespace vkattn::detail {

/// A piece of the workspace.
struct WorkspaceArea {
  std::uint64_t offset = 0, bytes = 0;
};

/// Blocks of the block mask of one window.
struct MaskBlocks {
  std::int64_t keys = 0, rows = 0, heads = 0, batch = 0;
  [[nodiscard]] std::int64_t count() const { return keys * rows * heads * batch; }
};

/// A window with everything that is known before there are buffers.
struct PlannedWindow {
  Window window;
  TensorWindows tensors;
  WorkspaceArea partials;            ///< shared by windows that differ in keys only; then tiles' own parts
  std::uint64_t tile_byte = 0;       ///< where these begin in it (KernelConfig::tile_workspace_bytes)
  WorkspaceArea block_mask;          ///< shared like the partials; none without a block mask
  std::uint64_t kept_mask_byte = 0;  ///< of the block mask in a buffer of the caller's
  WorkspaceArea lse;                 ///< for the weights, where the caller wants none; shared likewise
  WorkspaceArea feature_params;      ///< of programs with push descriptors
  MaskBlocks blocks;
};

struct ForwardLayout {
  KvSplit split;
  bool has_partials = false;       ///< partial results of a split, or running sums
  bool sums_in_workspace = false;  ///< of which the latter
  bool has_block_mask = false;
  bool gathers = false;  ///< see gather.hpp; partials of windows are then their whole buffer
  /// Tiles whose last workgroup combines their parts, each with a count of the finished ones; 0: the combine
  /// pass does.
  std::int64_t counted_tiles = 0;
  TensorWindows whole{};  ///< the whole tensors
  std::vector<PlannedWindow> windows;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t block_mask_bytes = 0;  ///< in a buffer of the caller's

  [[nodiscard]] bool splits_keys() const { return has_partials && !sums_in_workspace; }
  [[nodiscard]] bool combines_in_kernel() const { return counted_tiles != 0; }
};

/// The inputs of lay_out().
struct LayoutRequest {
  const AttentionDesc& desc;
  const Capabilities& capabilities;
  const KernelConfig& config;
  const PlanOptions& options;
};

/// If one block of rows over all its keys is estimated above the limit of a dispatch, the keys are cut into
/// parts below it, if the device has memory for the parts' results. Errors: a limit of the device, with both
/// numbers.
[[nodiscard]] Result<ForwardLayout> lay_out(const LayoutRequest& request);

/// Row tiles of a window, in floating point, as the product may not fit an integer.
[[nodiscard]] double row_tiles(const LayoutRequest& request, const Window& window);

/// The estimated time of a block of rows over all keys that it may see.
[[nodiscard]] double row_tile_ns(const LayoutRequest& request);

/// Parts of the keys that a window has.
[[nodiscard]] std::int64_t window_parts(const KvSplit& split, const Window& window);

}  // namespace vkattn::detail
