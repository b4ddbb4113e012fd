// A SPIR-V binary embedded at build time, as shaders/binaries.cmake lists it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "vulkan/shader_code.hpp"

namespace vkattn::detail {

struct ShaderBinary {
  std::string_view name;
  const std::span<const std::uint8_t>* gzip = nullptr;  ///< null where the build left it out
  std::string_view reason;                              ///< why it did: "its compiler lacks ..."
  std::string_view device_features;                     ///< what a device must have enabled to run it

  [[nodiscard]] bool is_built() const { return gzip != nullptr; }
  /// Of a binary that is built.
  [[nodiscard]] ShaderCode code() const { return ShaderCode::packed(*gzip); }
};

/// The binary of that name in a set; null where the set has none.
[[nodiscard]] inline const ShaderBinary* find_shader(std::span<const ShaderBinary> set,
                                                     std::string_view name) {
  for (const ShaderBinary& binary : set) {
    if (binary.name == name) return &binary;
  }
  return nullptr;
}

}  // namespace vkattn::detail
