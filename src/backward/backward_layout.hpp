// The chunks that the keys of a backward pass are taken in, and its workspace. Plain data.
#pragma once

#include <vkattn/backward.hpp>
#include <vkattn/capabilities.hpp>

#include <cstdint>

#include "backward/backward_kernel.hpp"
#include "backward/scale_parts.hpp"
#include "forward/layout.hpp"

namespace vkattn::detail {

struct BackwardLayout {
  std::uint32_t chunk_keys = 0;
  std::uint32_t chunks = 1;
  std::uint64_t rows = 0;  ///< of queries, packed ones too
  ScaleParts scale;
  bool keeps_score_gradients = false;
  bool keeps_deltas = false;        ///< of rows, from chunk to chunk
  bool keeps_gradients = false;     ///< of a chunk's scores, from the keys' pass to the rows' pass; no pairs
  bool avoids_shared_sets = false;  ///< as the kernel, if the workspace has room
  WorkspaceArea pairs;
  WorkspaceArea sums;
  // Places in the sums, in elements.
  std::uint32_t delta_sums = 0, slope_sums = 0, query_sums = 0, key_sums = 0, value_sums = 0, mask_sums = 0;
  WorkspaceArea parameters;  ///< of programs with push descriptors
  std::uint64_t workspace_bytes = 0;
};

/// Errors: a limit of the device, with both numbers.
[[nodiscard]] Result<BackwardLayout> lay_out_backward(const BackwardDesc& desc,
                                                      const Capabilities& capabilities,
                                                      const BackwardKernel& kernel,
                                                      const PlanOptions& options);

/// Whether the running sums of a gradient, which has strides, lie in the workspace.
[[nodiscard]] bool sums_lie_apart(const TensorDesc& gradient, const BackwardLayout& layout);

/// The fewest keys or rows of a step that looks at each score, over all kernels.
constexpr std::int64_t kMaskedStep = 4;
/// Iterations of a step over the dims, in all loops that the compiler may keep.
[[nodiscard]] inline std::int64_t iterations_over_dims(const AttentionDesc& desc) {
  return (2 * desc.head_dim + desc.value_dim) / 4 + 8;
}
/// The most iterations of an invocation of the rows' pass over a chunk.
[[nodiscard]] std::int64_t iterations_over_chunk(const AttentionDesc& desc, std::int64_t chunk_keys);

/// Elements of the mask's gradient in one chunk; all, if each is a sum over all keys.
[[nodiscard]] std::uint64_t mask_sum_units(const BackwardDesc& desc, std::uint32_t chunk_keys);
/// Whether an element of the mask's gradient is a sum over all keys.
[[nodiscard]] bool mask_sums_all_keys(const BackwardDesc& desc);

}  // namespace vkattn::detail
