// GGML_OP_FLASH_ATTN_EXT in vkattn's terms.
#pragma once

#include <ggml.h>

#include <vkattn/attention.hpp>
#include <vkattn/host_tensors.hpp>

#include <string>
#include <vector>

namespace vkattn::ggml {

/// A node as a problem. `reason` says why vkattn does not compute it; then the rest means nothing.
struct Problem {
  AttentionDesc desc;
  /// The mask is given per query head and times the head's slope, because vkattn's own has no such factor.
  bool expands_mask = false;
  std::string reason;
};

/// Describes a GGML_OP_FLASH_ATTN_EXT by its types, extents and strides; its data may not exist yet.
[[nodiscard]] Problem problem_of(const ggml_tensor& node);

/// The node's arrays. `mask` is memory for a mask that is expanded, and must live as long as the arrays.
[[nodiscard]] HostTensors arrays_of(const ggml_tensor& node, const Problem& problem,
                                    std::vector<float>& mask);

}  // namespace vkattn::ggml
