// Subgroup sizes that a kernel may ask for.
#pragma once

#include <vkattn/capabilities.hpp>
#include <vkattn/result.hpp>

#include <cstdint>

#include "common/integers.hpp"
#include "common/message.hpp"

namespace vkattn::detail {

/// Whether a pipeline may ask for one of the device's subgroup sizes, and for full subgroups.
[[nodiscard]] inline bool may_ask_for_subgroup_size(const Capabilities& capabilities) {
  return capabilities.required_subgroup_size && capabilities.compute_full_subgroups;
}

/// KernelConfig::required_subgroup_size for a kernel that works with that size.
[[nodiscard]] inline std::uint32_t required_subgroup_size(const Capabilities& capabilities,
                                                          std::uint32_t size) {
  return may_ask_for_subgroup_size(capabilities) ? size : 0;
}

/// The invocations of a subgroup, for a kernel whose workgroup is one subgroup of one known size.
[[nodiscard]] inline Result<std::uint32_t> lanes_of_one_size(const Capabilities& capabilities) {
  const std::uint32_t lanes = capabilities.subgroup_size;
  const bool one_size = capabilities.min_subgroup_size == capabilities.max_subgroup_size;
  const bool is_fixed = one_size || may_ask_for_subgroup_size(capabilities);
  if (is_power(lanes, 4, 64) && is_fixed) return lanes;
  return unsupported(
      "needs subgroups of one size of 4 to 64 invocations; the device's have ",
      capabilities.min_subgroup_size, " to ", capabilities.max_subgroup_size,
      is_fixed ? "" : " and it has not enabled subgroupSizeControl and computeFullSubgroups to fix one");
}

}  // namespace vkattn::detail
