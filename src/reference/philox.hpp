// The counter-based generator Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011): which probabilities
// dropout keeps.
#pragma once

#include <array>
#include <cstdint>

namespace vkattn::reference {

/// Four random words for each counter and key.
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                      std::array<std::uint32_t, 2> key);

/// Where a probability stands: what its random word is a function of.
struct DropoutPosition {
  std::uint64_t seed = 0;
  std::uint32_t offset = 0;      ///< of the call
  std::uint32_t batch_head = 0;  ///< batch entry * query heads + query head
  std::uint32_t query = 0;
  std::uint32_t key = 0;
};

/// Whether dropout keeps the probability: its word is at least floor(dropout * 2^32).
[[nodiscard]] bool is_kept(const DropoutPosition& position, float dropout);

/// The factor of a kept probability: 1 / (1 - dropout), 1 without dropout, 0 if all are dropped.
[[nodiscard]] inline double kept_factor(float dropout) {
  return dropout < 1 ? 1 / (1 - static_cast<double>(dropout)) : 0;
}

}  // namespace vkattn::reference
