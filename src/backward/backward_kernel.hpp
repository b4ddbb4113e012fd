// The forms of the backward pass: how its two passes over rows and keys are made for a problem on a device.
// Plain data in and out.
#pragma once

#include <vkattn/backward.hpp>
#include <vkattn/capabilities.hpp>
#include <vkattn/tuning.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.hpp"
#include "kernels/select.hpp"

namespace vkattn::detail {

/// Chunks are multiples of this, which all steps and tiles of keys divide.
inline constexpr std::uint32_t kChunkStep = 64;

struct BackwardKernel {
  std::string_view name;
  PassConfig numbers;          ///< numbers of rows, before the other passes; no shader: no such pass
  PassConfig rows;             ///< tiles of query rows
  std::uint32_t row_tile = 0;  ///< rows of a workgroup
  bool packs_heads = true;     ///< of the query heads that share a KV head; else of one head
  PassConfig keys;             ///< tiles of a chunk's keys
  std::uint32_t key_tile = 0;  ///< keys of a workgroup
  std::uint32_t gradients_per_workgroup = 2;  ///< of keys and values; 1: each tile of keys comes twice
  bool key_sums_in_workspace = false;         ///< those that lie apart
  bool keeps_pairs = true;          ///< in chunks of the keys; else it keeps the rows' numbers alone
  bool pairs_apart = false;         ///< a workgroup of the keys' pass reads weights or gradients, not both
  bool may_keep_gradients = false;  ///< from the keys' pass to the rows' pass, in place of pairs
  std::uint32_t pair_tile = 0;      ///< keys whose pairs lie together; 0: all of a chunk
  bool keeps_deltas = false;        ///< later chunks read D of a row from the sums
  /// Running sums lie apart from gradients whose rows share sets of a cache.
  bool avoids_shared_sets = false;
  /// The type to which probabilities and gradients of scores are rounded before they are multiplied.
  DataType probability_type = DataType::kFloat32;
  bool uses_matrix_units = false;
  TileSizes tile;       ///< block sizes that PlanOptions::tile may give; 0 for other blocks
  std::string summary;  ///< for describe()
};

/// Whether there is a pass over the rows' numbers, and one over rows. A pass over rows that leaves no pairs
/// only makes dQ.
[[nodiscard]] inline bool runs_numbers(const BackwardKernel& kernel) {
  return !kernel.numbers.shader.empty();
}
[[nodiscard]] inline bool runs_rows(const BackwardDesc& desc, const BackwardKernel& kernel) {
  return desc.has_grad_query || kernel.keeps_pairs;
}

/// One common 16-bit type of Q, K, V and dO, or the reason against.
[[nodiscard]] Result<void> check_one_matrix_type(const BackwardDesc& desc);

/// Adds the constants that say whether rows of Q, K, V and dO can be read 8 elements at a time.
void add_loads8(const BackwardDesc& desc, SpecializationValues& constants);

/// The forms on matrix units: each gives its configuration for a problem on a device, without names, or the
/// reason against. matrix2 takes block sizes if they are asked for.
/// @{
[[nodiscard]] Result<BackwardKernel> configure_matrix_backward(const BackwardDesc& desc,
                                                               const Capabilities& capabilities);
[[nodiscard]] Result<BackwardKernel> configure_matrix2_backward(const BackwardDesc& desc,
                                                                const Capabilities& capabilities,
                                                                const TileSizes* tile = nullptr);
/// @}

/// The block sizes that tuning tries for the staged form of matrix2.
[[nodiscard]] std::span<const TileSizes> staged_backward_tiles();

using BackwardSelection = SelectionOf<BackwardKernel>;
[[nodiscard]] Result<BackwardSelection> select_backward_kernel(const BackwardDesc& desc,
                                                               const Capabilities& capabilities,
                                                               const PlanOptions& options);

/// The least number that the largest weight of a key counts as in the tolerance of dV (docs/semantics.md). If
/// a kernel scales no weights, float16 loses as much of them for all keys.
[[nodiscard]] constexpr double least_largest_weight(std::string_view kernel) {
  return kernel == "matrix2" ? 0x1p-8 : 0.0;
}

/// The pass that sums up the mask's gradient.
[[nodiscard]] PassConfig configure_mask_sums(const BackwardDesc& desc, const Capabilities& capabilities);
/// The pass that sums up the gradients of slopes and sinks.
[[nodiscard]] PassConfig configure_head_sums();

/// `base` if the device has 16-bit storage or no tensor needs it, else its form by words.
[[nodiscard]] std::string backward_shader(const BackwardDesc& desc, const Capabilities& capabilities,
                                          std::string_view base);

}  // namespace vkattn::detail
