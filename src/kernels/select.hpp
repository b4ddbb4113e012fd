// Choosing the kernel: an ordered list, each accepts or says why not. Plain data, no Vulkan calls.
#pragma once

#include <vkattn/kernels.hpp>

#include "kernels/kernel.hpp"

namespace vkattn::detail {

struct Selection {
  Kernel kernel;
  KernelConfig config;
  std::vector<KernelSupport> considered;  ///< in order; an empty reason marks a kernel that accepts
};

struct SelectionRequest {
  std::string_view kernel;          ///< the only one to consider; empty takes the first that accepts
  const TileSizes* tile = nullptr;  ///< the only block sizes to consider; null: those of the tile table
  std::span<const KernelRefusal> refusals;  ///< the caller's
  bool strict_nonfinite = false;            ///< see PlanOptions
  DataType arithmetic_type = DataType::kFloat32;
  std::uint32_t kv_splits = 0;  ///< that are asked for; 0: any number
};

/// Refuses a refusal of a kernel that there is not, by its name and that of the list it is in. Kernels of
/// gradients and products are among attention's, and a program has one list for all that it knows of a
/// driver: any of these is right for any kind of plan.
[[nodiscard]] Result<void> check_refusals(std::span<const KernelRefusal> refusals,
                                          std::string_view list = "refusals");

/// The refusal of a kernel as an Error; nothing where it may be used.
[[nodiscard]] Result<void> check_not_refused(std::string_view kernel,
                                             std::span<const KernelRefusal> refusals);

[[nodiscard]] Result<Selection> select_kernel(const AttentionDesc& desc, const Capabilities& capabilities,
                                              const SelectionRequest& request);

/// Lines for describe(): of each kernel but the chosen one why it was refused, or that it is not needed.
[[nodiscard]] std::string describe_others(std::span<const KernelSupport> considered, std::string_view chosen);

}  // namespace vkattn::detail
