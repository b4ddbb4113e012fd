// How far a stored result is from the reference.
#pragma once

#include <vkattn/data_type.hpp>

#include <cmath>
#include <limits>

namespace vkattn::harness {

/// The largest number that a storage type holds, with the half step that still rounds to it.
inline double overflow_threshold(DataType type) {
  return type == DataType::kFloat16 ? 65520.0 : type == DataType::kBfloat16 ? 0x1.ffp127 : 0x1.ffffffp127;
}

/// An error as a share of what is allowed. NaN and infinity are right only where they are expected, or where
/// a type holds no such number.
[[nodiscard]] inline double share_of(double expected, double got, double tolerance, DataType type) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
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
