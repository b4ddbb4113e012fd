// The one place where specialization values of attention's pipelines are made.
#pragma once

#include <vkattn/attention.hpp>

#include <cstdint>

#include "kernels/kernel.hpp"

namespace vkattn::detail {

/// The plan's decisions for a pass, beside the kernel's.
struct PassVariant {
  bool splits_keys = false;        ///< partial results go to the workspace
  bool combines_parts = false;     ///< and the kernel combines them itself
  bool sums_in_workspace = false;  ///< running sums do
  bool strict_nonfinite = false;   ///< PlanOptions::strict_nonfinite
  std::uint32_t block_rows = 0;    ///< of the block mask; 0: there is none
  std::uint32_t block_keys = 0;
  std::uint32_t first_partial = 0;  ///< word of the partial results in their buffer
};

/// All values of a pass's pipeline.
[[nodiscard]] SpecializationValues specialization(const AttentionDesc& desc, const PassConfig& pass,
                                                  const PassVariant& variant);

}  // namespace vkattn::detail
