// Small integer arithmetic that planning and the kernels' host halves share.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace vkattn::detail {

/// a / b rounded up, of numbers that are not negative.
template <std::integral A, std::integral B>
[[nodiscard]] constexpr std::common_type_t<A, B> divide_up(A a, B b) {
  using T = std::common_type_t<A, B>;
  return a / b + static_cast<T>(a % b != 0);  // a + b may not fit
}

/// The next multiple of a unit, from a number that is not negative on.
template <std::integral A, std::integral B>
[[nodiscard]] constexpr std::common_type_t<A, B> round_up(A value, B unit) {
  return divide_up(value, unit) * unit;
}

/// A size or stride as the shaders' parameters have it.
[[nodiscard]] constexpr std::uint32_t narrow(std::int64_t value) {
  return static_cast<std::uint32_t>(value);
}

/// The stride along an extent, or 0 where no step is taken: an unused stride may be too large for the
/// parameter.
[[nodiscard]] constexpr std::uint32_t stride32(std::int64_t stride, std::int64_t extent) {
  return extent > 1 ? narrow(stride) : 0;
}

/// Whether a block size is a power of two from `least` to `most`.
[[nodiscard]] constexpr bool is_power(std::uint32_t size, std::uint32_t least, std::uint32_t most) {
  return std::has_single_bit(size) && size >= least && size <= most;
}

}  // namespace vkattn::detail
