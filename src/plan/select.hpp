// Choosing the kernel: an ordered list, each accepts or says why not. Plain data, no Vulkan calls.
#pragma once

#include <vkattn/plan.hpp>

#include <optional>

#include "kernels/kernel.hpp"

namespace vkattn::detail {

struct Selection {
  Kernel kernel;
  KernelConfig config;
  std::vector<KernelSupport> considered;  ///< in order; an empty reason marks a kernel that accepts
};

/// `forced` names the only kernel to consider; empty takes the first that accepts.
[[nodiscard]] Result<Selection> select_kernel(const AttentionDesc& desc, const Capabilities& capabilities,
                                              std::string_view forced);

}  // namespace vkattn::detail
