// A SPIR-V binary embedded at build time, as shaders/binaries.cmake lists it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace vkattn::detail {

struct ShaderBinary {
  std::string_view name;
  std::span<const std::uint32_t> words;  ///< empty where the build left it out
  std::string_view missing;              ///< the GLSL extensions that the build's compiler lacked
  std::string_view device_features;      ///< what a device must have enabled to run it
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
