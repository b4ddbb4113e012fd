// The forms of the backward pass: how its two passes over rows and keys are made for a problem on a device.
// Plain data in and out.
#pragma once

#include <vkattn/backward.hpp>
#include <vkattn/capabilities.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.hpp"

namespace vkattn::detail {

/// Chunks are multiples of this, which all steps and tiles of keys divide.
inline constexpr std::uint32_t kChunkStep = 64;

struct BackwardKernel {
  std::string_view name;
  PassConfig rows;                            ///< tiles of query rows
  std::uint32_t row_tile = 0;                 ///< packed rows of a workgroup
  PassConfig keys;                            ///< tiles of a chunk's keys
  std::uint32_t key_tile = 0;                 ///< keys of a workgroup
  std::uint32_t gradients_per_workgroup = 2;  ///< of keys and values; 1: each tile of keys comes twice
  bool key_sums_in_workspace = false;         ///< those of 16-bit gradients
  std::uint32_t pair_tile = 0;                ///< keys whose pairs lie together; 0: all of a chunk
  bool keeps_deltas = false;                  ///< later chunks read <dO, o> of a row from the sums
  /// What probabilities and gradients of scores are rounded to before they are multiplied.
  DataType probability_type = DataType::kFloat32;
  bool uses_matrix_units = false;
  std::string summary;  ///< for describe()
};

/// What was chosen and what was considered.
struct BackwardSelection {
  BackwardKernel kernel;
  std::vector<KernelSupport> considered;
};

/// The kernel that is asked for, or the first that accepts and is not refused; else each one's reason.
[[nodiscard]] Result<BackwardSelection> select_backward_kernel(const BackwardDesc& desc,
                                                               const Capabilities& capabilities,
                                                               std::string_view wanted,
                                                               std::span<const KernelRefusal> refusals = {});

/// The pass that sums up the mask's gradient.
[[nodiscard]] PassConfig configure_mask_sums(const BackwardDesc& desc, const Capabilities& capabilities);
/// The pass that sums up the gradients of slopes and sinks.
[[nodiscard]] PassConfig configure_head_sums();

/// `base` where the device has 16-bit storage or no tensor needs it, else its form by words.
[[nodiscard]] std::string backward_shader(const BackwardDesc& desc, const Capabilities& capabilities,
                                          std::string_view base);

}  // namespace vkattn::detail
