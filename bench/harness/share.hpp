// Reads a stored result, and measures how far it is from the reference.
#pragma once

#include <vkattn/data_type.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace vkattn::harness {

/// The element of a floating-point type whose first byte is at `at`.
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

/// The smallest magnitude that no longer rounds to a finite number of the type.
inline double overflow_threshold(DataType type) {
  return type == DataType::kFloat16 ? 65520.0 : type == DataType::kBfloat16 ? 0x1.ffp127 : 0x1.ffffffp127;
}

/// An error as a share of the tolerance. NaN and infinity are right only if they are expected, or if the type
/// cannot hold the expected number. A tolerance below 0 means that the result is undefined, so nothing is
/// wrong.
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
