// Subgroup sizes that a kernel may ask for.
#pragma once

#include <vkattn/capabilities.hpp>

#include <cstdint>

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

}  // namespace vkattn::detail
