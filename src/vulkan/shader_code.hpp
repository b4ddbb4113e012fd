// SPIR-V on its way to a pipeline, and the binaries that the build embedded.
#pragma once

#include <vkattn/result.hpp>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "spirv/embedded_shader.hpp"

namespace vkattn::detail {

/// Words, or a gzip file that the build made of them. Refers to either. Binaries of the build stay packed, as
/// a process uses few of many.
class ShaderCode {
 public:
  ShaderCode() = default;
  ShaderCode(std::span<const std::uint32_t> words) : words_(words) {}  // NOLINT: words are code
  [[nodiscard]] static ShaderCode packed(std::span<const std::uint8_t> gzip) {
    ShaderCode code;
    code.gzip_ = gzip;
    return code;
  }

  /// A copy of the words, unpacked. Fails where the file is damaged. Alone in its source file: a test has
  /// another.
  [[nodiscard]] Result<std::vector<std::uint32_t>> words() const;

  /// The bytes, packed or not. Different code has different bytes.
  [[nodiscard]] std::span<const std::uint8_t> bytes() const {
    if (!gzip_.empty()) return gzip_;
    return {reinterpret_cast<const std::uint8_t*>(words_.data()), words_.size_bytes()};
  }

  /// Whether both are the same memory.
  [[nodiscard]] bool operator==(const ShaderCode& other) const {
    return words_.data() == other.words_.data() && gzip_.data() == other.gzip_.data();
  }

 private:
  std::span<const std::uint32_t> words_;
  std::span<const std::uint8_t> gzip_;
};

/// A binary as shaders/binaries.cmake lists it.
struct ShaderBinary {
  std::string_view name;
  const EmbeddedShader* embedded = nullptr;  ///< null where the build left it out
  std::string_view reason;                   ///< why it did: "its compiler lacks ..."
  std::string_view device_features;          ///< what a device must have enabled to run it

  [[nodiscard]] bool is_built() const { return embedded != nullptr; }
  /// The code of a binary that is built.
  [[nodiscard]] ShaderCode code() const { return ShaderCode::packed({embedded->gzip, embedded->bytes}); }
};

/// The binary of that name in a set; null where the set has none.
[[nodiscard]] inline const ShaderBinary* find_shader(std::span<const ShaderBinary> set,
                                                     std::string_view name) {
  for (const ShaderBinary& binary : set) {
    if (binary.name == name) return &binary;
  }
  return nullptr;
}

/// The code of the binary of that name, or why the build has none.
[[nodiscard]] Result<ShaderCode> built_shader(std::span<const ShaderBinary> set, std::string_view name);

}  // namespace vkattn::detail
