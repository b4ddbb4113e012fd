// Families of GPUs that the device of the tests can be taken for: what the tile table and the kernels choose
// there then runs here.
#pragma once

#include <vkattn/capabilities.hpp>

#include <cstdint>
#include <string_view>

#include "kernels/tile_table.hpp"
#include "kernels/vendors.hpp"

namespace vkattn::tests {

struct GpuFamily {
  const char* name;
  detail::Architecture architecture;
  std::uint32_t vendor_id;
  std::uint32_t least_lanes;  ///< of its subgroups, which tell a vendor's families apart
};

inline constexpr GpuFamily kAmdGcn{"GCN", detail::Architecture::kAmdGcn, detail::kVendorAmd, 64};
inline constexpr GpuFamily kIntelGen12{"Intel before Xe2", detail::Architecture::kIntelGen12,
                                       detail::kVendorIntel, 8};
inline constexpr GpuFamily kIntelXe2{"Intel's Xe2", detail::Architecture::kIntelXe2, detail::kVendorIntel,
                                     16};
inline constexpr GpuFamily kAdreno{"Adreno", detail::Architecture::kAdreno, detail::kVendorQualcomm, 64};
inline constexpr GpuFamily kGpuFamilies[] = {
    kAmdGcn,
    {"RDNA", detail::Architecture::kAmdRdna, detail::kVendorAmd, 32},
    {"NVIDIA", detail::Architecture::kNvidia, detail::kVendorNvidia, 32},
    kIntelGen12,
    kIntelXe2,
    {"Mali", detail::Architecture::kMali, detail::kVendorArm, 16},
    kAdreno,
};

/// Makes capabilities those of the same device as if it were of the family. Features, limits and subgroups
/// stay its own. Where these subgroups are another family's, their size is pretended, and nothing that
/// depends on it can be had: rows are reduced through shared memory, decode and matrix refuse. For kernels on
/// matrix units a CPU stays one: it takes long to unroll the loops that GPUs have there.
inline void pretend(Capabilities& c, const GpuFamily& family, std::string_view kernel) {
  c.vendor_id = family.vendor_id;
  if (c.is_cpu() && kernel.starts_with("matrix")) return;
  if (c.is_cpu()) c.device_type = DeviceType::kDiscreteGpu;
  if (detail::architecture(c) == family.architecture) return;
  c.subgroup_shuffle = c.cooperative_matrix = false;
  c.subgroup_size = c.min_subgroup_size = c.max_subgroup_size = family.least_lanes;
}

}  // namespace vkattn::tests
