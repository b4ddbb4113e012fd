// Made-up GPUs of the families that kernels treat in a special way.
#pragma once

#include "unit/made_up_device.hpp"

namespace vkattn::tests {

/// As a driver of Mesa describes it.
struct Family {
  std::string_view name;
  detail::Architecture architecture;
  std::uint32_t vendor_id, least, most, shared_bytes;
  std::uint32_t matrix_m, matrix_n;  ///< 0: it lists no matrices
};
inline constexpr Family kFamilies[] = {
    {"Tiger-Lake", detail::Architecture::kIntelGen12, detail::kVendorIntel, 8, 32, 65536, 0, 0},
    // Its driver emulates the matrices that it lists.
    {"Meteor-Lake", detail::Architecture::kIntelGen12, detail::kVendorIntel, 8, 32, 65536, 8, 8},
    {"Arc-A", detail::Architecture::kIntelGen12, detail::kVendorIntel, 8, 32, 65536, 8, 8},
    {"Lunar-Lake", detail::Architecture::kIntelXe2, detail::kVendorIntel, 16, 32, 65536, 8, 16},
    {"Mali", detail::Architecture::kMali, detail::kVendorArm, 16, 16, 32768, 0, 0},
    {"Adreno", detail::Architecture::kAdreno, detail::kVendorQualcomm, 64, 128, 32768, 0, 0},
    {"Ampere", detail::Architecture::kNvidia, detail::kVendorNvidia, 32, 32, 49152, 16, 16},
    {"RDNA3", detail::Architecture::kAmdRdna, detail::kVendorAmd, 32, 64, 65536, 16, 16},
};

[[nodiscard]] inline Capabilities device_of(const Family& family) {
  Capabilities c =
      gpu_of(family.vendor_id, family.least, family.most, shape(family.matrix_m, family.matrix_n, 16));
  c.max_shared_memory_bytes = family.shared_bytes;
  c.max_workgroup_subgroups = 64;
  if (family.matrix_m == 0) {
    c.cooperative_matrix = false;
    c.matrix_shapes.clear();
  }
  return c;
}

}  // namespace vkattn::tests
