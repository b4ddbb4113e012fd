// SPIR-V on its way to a pipeline.
#pragma once

#include <vkattn/result.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vkattn::detail {

/// Words, or a gzip file that the build made of them; someone else keeps either. Binaries of the build stay
/// packed: a process makes few pipelines of many.
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

  /// What is kept of it, packed or not: others have other bytes.
  [[nodiscard]] std::span<const std::uint8_t> bytes() const {
    if (!gzip_.empty()) return gzip_;
    return {reinterpret_cast<const std::uint8_t*>(words_.data()), words_.size_bytes()};
  }

  /// That it is the same memory.
  [[nodiscard]] bool operator==(const ShaderCode& other) const {
    return words_.data() == other.words_.data() && gzip_.data() == other.gzip_.data();
  }

 private:
  std::span<const std::uint32_t> words_;
  std::span<const std::uint8_t> gzip_;
};

}  // namespace vkattn::detail
