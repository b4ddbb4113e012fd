// A set of a program with its actual buffers.
#pragma once

#include <array>

#include "program/program.hpp"

namespace vkattn::detail {

inline constexpr std::size_t kMostPushConstantBytes =
    256;  // every device has 128; addresses come behind these
inline constexpr std::size_t kMostParameterBytes = 512;

struct Program::BoundSet {
  std::array<VkDescriptorBufferInfo, kMostBindings> buffers{};
  std::array<std::uint32_t, kMostBindings>
      offsets{};  ///< from the bound start, in ProgramBinding::unit_bytes
  std::array<VkDeviceAddress, kMostBindings>
      addresses{};  ///< of the bound starts, for the layout's push_addresses; 0: no buffer
};

}  // namespace vkattn::detail
