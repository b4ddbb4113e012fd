// What tests read out of a PNG (specification, third edition, sections 5.2 and 11.2.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace vkattn::tests {

inline constexpr std::size_t kPngWidth = 16, kPngHeight = 20;  ///< where these are, in pixels

/// The number of four bytes.
[[nodiscard]] inline std::uint32_t big_endian(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8U | static_cast<unsigned char>(bytes.at(at + i));
  return value;
}

}  // namespace vkattn::tests
