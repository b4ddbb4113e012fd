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
  std::string reason;
};

/// Describes a GGML_OP_FLASH_ATTN_EXT by its types, extents and strides; its data may not exist yet.
[[nodiscard]] Problem problem_of(const ggml_tensor& node);

/// The node's arrays. `slopes` is memory for those of max_bias, and must live as long as the arrays.
[[nodiscard]] HostTensors arrays_of(const ggml_tensor& node, const Problem& problem,
                                    std::vector<float>& slopes);

}  // namespace vkattn::ggml
