// Philox: see philox.hpp.
#include "reference/philox.hpp"

namespace vkattn::reference {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultipliers[2] = {0xD2511F53U, 0xCD9E8D57U};
  constexpr std::uint32_t kKeySteps[2] = {0x9E3779B9U, 0xBB67AE85U};  // golden ratio, square root of 3
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t even = kMultipliers[0] * counter[0];
    const std::uint64_t odd = kMultipliers[1] * counter[2];
    const auto high = [](std::uint64_t product) { return static_cast<std::uint32_t>(product >> 32U); };
    const auto low = [](std::uint64_t product) { return static_cast<std::uint32_t>(product); };
    counter = {high(odd) ^ counter[1] ^ key[0], low(odd), high(even) ^ counter[3] ^ key[1], low(even)};
    key = {key[0] + kKeySteps[0], key[1] + kKeySteps[1]};
  }
  return counter;
}

bool is_kept(const DropoutPosition& position, float dropout) {
  const auto words = philox4x32(
      {position.key / 4, position.query, position.batch_head, position.offset},
      {static_cast<std::uint32_t>(position.seed), static_cast<std::uint32_t>(position.seed >> 32U)});
  // A product of a float32 and a power of two is exact; the conversion rounds down.
  const auto threshold = static_cast<std::uint64_t>(static_cast<double>(dropout) * 0x1p32);
  return words[position.key % 4] >= threshold;
}

}  // namespace vkattn::reference
