// Whether a driver unrolls the loops of a shader, changed in its SPIR-V (1.6, section 3.23, Loop Control).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "vulkan/spirv.hpp"

namespace vkattn::detail {

/// Asks that every loop stays one, those without matrices too.
inline void keep_loops(std::span<std::uint32_t> spirv) {
  constexpr std::uint32_t kOpLoopMerge = 246;
  constexpr std::uint32_t kUnroll = 1;
  constexpr std::uint32_t kDontUnroll = 2;
  for (std::size_t i = kSpirvHeaderWords; i < spirv.size();) {
    const std::size_t length = spirv[i] >> 16U;
    if (length == 0 || length > spirv.size() - i) return;  // not SPIR-V: the driver will say so
    if ((spirv[i] & 0xffffU) == kOpLoopMerge && length >= 4) {
      spirv[i + 3] = (spirv[i + 3] & ~kUnroll) | kDontUnroll;
    }
    i += length;
  }
}

/// Whether the shader has cooperative matrices: capabilities are a module's first instructions.
[[nodiscard]] inline bool has_matrices(std::span<const std::uint32_t> spirv) {
  constexpr std::uint32_t kOpCapability = 2U << 16U | 17U;  // with its length in words
  constexpr std::uint32_t kCooperativeMatrixKhr = 6022;
  for (std::size_t i = kSpirvHeaderWords; i + 1 < spirv.size() && spirv[i] == kOpCapability; i += 2) {
    if (spirv[i + 1] == kCooperativeMatrixKhr) return true;
  }
  return false;
}

}  // namespace vkattn::detail
