// The random numbers of dropout: the generator's published answers, and which weights are kept.
#include "reference/philox.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace {

using vkattn::reference::DropoutPosition;
using vkattn::reference::is_kept;
using vkattn::reference::philox4x32;
using Block = std::array<std::uint32_t, 4>;

/// The known answers that the generator's authors publish with their implementation (Random123).
TEST(Philox, KnownAnswers) {
  constexpr std::uint32_t kOnes = 0xffffffffU;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  // Counter and key are digits of pi.
  EXPECT_EQ(philox4x32({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}),
            (Block{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

/// The counter is (j / 4, i, b * Hq + h, offset), and the key is the seed, low half first. j % 4 selects the
/// word.
TEST(Dropout, EachWordOfACounterIsOneKey) {
  for (std::uint32_t key = 20; key < 24; ++key) {
    const DropoutPosition position{0x299f31d0a4093822U, 7, 13, 1000, key};
    const std::uint32_t word = philox4x32({5, 1000, 13, 7}, {0xa4093822U, 0x299f31d0U})[key - 20];
    // A word equal to the threshold floor(dropout * 2^32) is kept.
    const auto share = static_cast<float>(static_cast<double>(word) * 0x1p-32);
    EXPECT_TRUE(is_kept(position, std::nextafter(share, 0.0F))) << key;
    EXPECT_FALSE(is_kept(position, std::nextafter(share, 1.0F))) << key;
  }
}

}  // namespace
