// A stored result, and how far it is from the reference.
#pragma once

#include <vkattn/data_type.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace vkattn::harness {

/// The element of a type of floats that begins there.
[[nodiscard]] inline double loaded(const std::byte* at, DataType type) {
  std::uint32_t bits32 = 0;
  std::uint16_t bits16 = 0;
  if (element_bytes(type) == 4) {
    std::memcpy(&bits32, at, sizeof(bits32));
  } else {
    std::memcpy(&bits16, at, sizeof(bits16));
  }
  if (type == DataType::kFloat16) return static_cast<double>(half_to_float(bits16));
  if (type == DataType::kBfloat16) return static_cast<double>(bfloat16_to_float(bits16));
  return static_cast<double>(std::bit_cast<float>(bits32));
}

/// The largest number that a storage type holds, with the half step that still rounds to it.
inline double overflow_threshold(DataType type) {
  return type == DataType::kFloat16 ? 65520.0 : type == DataType::kBfloat16 ? 0x1.ffp127 : 0x1.ffffffp127;
}

/// An error as a share of what is allowed. NaN and infinity are right only where they are expected, or where
/// a type holds no such number. Where the tolerance is below 0 nothing is defined, so nothing is wrong.
[[nodiscard]] inline double share_of(double expected, double got, double tolerance, DataType type) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (tolerance < 0) return 0;
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got) ? 0 : kInfinity;
  if (expected == got) return 0;
  if (std::isinf(got) && std::isfinite(expected)) {
    const bool overflowed = std::abs(expected) + tolerance >= overflow_threshold(type);
    return overflowed && std::signbit(expected) == std::signbit(got) ? 0 : kInfinity;
  }
  if (std::isinf(expected) || std::isinf(got)) return kInfinity;
  const double error = std::abs(expected - got);
  return error <= tolerance ? (tolerance > 0 ? error / tolerance : 0)
         : tolerance > 0    ? error / tolerance
                            : kInfinity;
}

}  // namespace vkattn::harness
