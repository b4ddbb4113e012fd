// A hash whose bits depend on all bits of a number.
#pragma once

#include <cstdint>

namespace vkattn::detail {

/// A bijection of 64-bit numbers in which every input bit moves about half of the output bits: two rounds of
/// xor-shift and odd multiplication (the finalizer of splitmix64; Steele, Lea, Flood, OOPSLA 2014).
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30U;
  x *= 0xbf58476d1ce4e5b9U;
  x ^= x >> 27U;
  x *= 0x94d049bb133111ebU;
  x ^= x >> 31U;
  return x;
}

/// 2^64 divided by the golden ratio, which splitmix64 adds from number to number.
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;

}  // namespace vkattn::detail
