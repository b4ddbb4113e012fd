// Integer arithmetic on sizes and strides that never wraps: checked where an error is wanted, saturating
// where a later check reports it. Written without compiler built-ins, for any C++20 compiler.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace vkattn::detail {

inline constexpr std::int64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();

/// a * b of two numbers that are not negative; nothing if the product does not fit 63 bits.
[[nodiscard]] constexpr std::optional<std::int64_t> checked_multiply(std::int64_t a, std::int64_t b) {
  if (a != 0 && b > kMaxInt64 / a) return std::nullopt;
  return a * b;
}

/// a + b of two numbers that are not negative; nothing if the sum does not fit 63 bits.
[[nodiscard]] constexpr std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  if (b > kMaxInt64 - a) return std::nullopt;
  return a + b;
}

/// a * b, or the largest number if that does not fit; 0 if a factor is negative (an invalid size, which
/// validate() reports by itself).
[[nodiscard]] constexpr std::int64_t saturating_multiply(std::int64_t a, std::int64_t b) {
  if (a < 0 || b < 0) return 0;
  return checked_multiply(a, b).value_or(kMaxInt64);
}

/// a + b in the same manner.
[[nodiscard]] constexpr std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  if (a < 0 || b < 0) return 0;
  return checked_add(a, b).value_or(kMaxInt64);
}

}  // namespace vkattn::detail
