// Numbers of the tensors of self-tests, the same on every machine, and their comparison with expected ones.
#pragma once

#include <vkattn/data_type.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/message.hpp"

namespace vkattn::detail {

/// Adds an element of a type that is not quantised.
void append(std::vector<std::byte>& bytes, float value, DataType type);

/// An element of such a tensor.
[[nodiscard]] float element(std::span<const std::byte> bytes, std::size_t index, DataType type);

/// Uniform in [-2, 2), by a linear congruential generator (Knuth, MMIX): the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  float next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<float>(static_cast<double>(state_ >> 40U) / double{1 << 22} - 2.0);
  }

 private:
  std::uint64_t state_;
};

/// Random elements of a type that is not quantised.
[[nodiscard]] std::vector<std::byte> random_tensor(std::int64_t elements, DataType type, std::uint64_t seed);

/// Random rows of any type, quantised ones in blocks: scales up to 2 / 127, or the scale of the head, times
/// any elements but NaN. Whole words, as shaders read tensors of bytes.
[[nodiscard]] std::vector<std::byte> random_rows(std::int64_t rows, std::int64_t dims, DataType type,
                                                 std::uint64_t seed);

/// Bytes of a NaN that no kernel writes, so that a row that is left out is found.
[[nodiscard]] std::vector<std::byte> unwritten(std::int64_t bytes);

/// The fault of a result, in words; empty if it is within its tolerance.
template <class... Where>
[[nodiscard]] std::string difference(double got, double expected, double tolerance, const Where&... where) {
  if (got == expected || std::abs(got - expected) <= tolerance) return {};  // not so for a NaN
  return message(where..., " is ", got, " where ", expected, " was expected");
}

}  // namespace vkattn::detail
