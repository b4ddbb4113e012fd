// VkPhysicalDeviceProperties::vendorID of vendors that kernels treat in a special way (PCI-SIG's numbers).
#pragma once

#include <vkattn/capabilities.hpp>

#include <cstdint>

namespace vkattn::detail {

inline constexpr std::uint32_t kVendorAmd = 0x1002;
inline constexpr std::uint32_t kVendorNvidia = 0x10de;
inline constexpr std::uint32_t kVendorIntel = 0x8086;
inline constexpr std::uint32_t kVendorArm = 0x13b5;
inline constexpr std::uint32_t kVendorQualcomm = 0x5143;

/// Whether all shaders write out loops that the compiler of NVIDIA's driver does not unroll
/// (shaders/lib/unrolled.glsl). NVK's compiler has the same vendor; with this it has fewer waves and no
/// scratch memory. On other compilers some kernels gain, and choose for themselves; some lose.
[[nodiscard]] inline bool writes_out_steps(const Capabilities& capabilities) {
  return capabilities.vendor_id == kVendorNvidia && !capabilities.is_cpu();
}

}  // namespace vkattn::detail
