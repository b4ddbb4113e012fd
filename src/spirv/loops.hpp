// Changes in SPIR-V whether a driver unrolls the loops of a shader (SPIR-V 1.6, section 3.23, Loop Control).
#pragma once

#include <cstdint>
#include <span>

#include "spirv/spirv.hpp"
#include "spirv/spirv_ops.hpp"

namespace vkattn::detail {

/// Asks that every loop stays one, those without matrices too.
inline void keep_loops(std::span<std::uint32_t> spirv) {
  constexpr std::uint32_t kUnroll = 1;
  constexpr std::uint32_t kDontUnroll = 2;
  for (const auto& instruction : instructions_of(spirv)) {
    const auto words = instruction.words;
    if (instruction.opcode() == spirv_op::kLoopMerge && words.size() >= 4) {
      words[3] = (words[3] & ~kUnroll) | kDontUnroll;
    }
  }
}

/// Whether the shader uses cooperative matrices, by the capabilities, which are a module's first
/// instructions.
[[nodiscard]] inline bool has_matrices(std::span<const std::uint32_t> spirv) {
  constexpr std::uint32_t kCooperativeMatrixKhr = 6022;
  for (const auto& instruction : instructions_of(spirv)) {
    if (instruction.opcode() != spirv_op::kCapability) break;
    if (instruction.words.size() == 2 && instruction.words[1] == kCooperativeMatrixKhr) return true;
  }
  return false;
}

}  // namespace vkattn::detail
