// The host's quantiser, on numbers that can be checked by hand. The tests of the append kernel
// (tests/gpu/cache_test.cpp) compare the kernel with it bit by bit, at the ends of its range too.
#include <vkattn/data_type.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "harness/quantise.hpp"
#include "support/cache_reference.hpp"

namespace vkattn::tests {
namespace {

std::vector<std::byte> block_of(DataType type, std::span<const float> elements, float least_scale = 0) {
  std::vector<std::byte> block(static_cast<std::size_t>(block_bytes(type)));
  harness::quantise_block(type, elements, block, least_scale);
  return block;
}

float scale_of(std::span<const std::byte> block) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, block.data(), sizeof(bits));
  return half_to_float(bits);
}

TEST(Quantise, Q8_0) {
  std::array<float, 32> elements{};
  elements[0] = 127;
  elements[1] = -63.5F;
  elements[16] = 0.5F;
  const auto block = block_of(DataType::kQ8_0, elements);
  ASSERT_EQ(block.size(), 34U);
  EXPECT_EQ(scale_of(block), 1.0F);
  EXPECT_EQ(block[2], std::byte{127});
  EXPECT_EQ(block[3], std::byte{0xc0}) << "-64: away from zero";
  EXPECT_EQ(block[18], std::byte{1});
  EXPECT_EQ(block_elements_of(DataType::kQ8_0, block)[1], -64.0F);
}

TEST(Quantise, Q4_0) {
  std::array<float, 32> elements{};
  elements[0] = -8;
  elements[1] = 3.5F;
  elements[16] = 0.5F;
  elements[17] = 8;
  const auto block = block_of(DataType::kQ4_0, elements);
  ASSERT_EQ(block.size(), 18U);
  EXPECT_EQ(scale_of(block), 1.0F) << "of the first of the largest magnitude, which becomes -8";
  EXPECT_EQ(block[2], std::byte{0x90}) << "-8 as 0, and 0.5 rounded up as 9";
  EXPECT_EQ(block[3], std::byte{0xfc}) << "3.5 as 4, and 8 as 7: there is no more";
  EXPECT_EQ(block_elements_of(DataType::kQ4_0, block)[17], 7.0F);
}

TEST(Quantise, CodesUseTheScaleBeforeItsRoundingToFloat16) {
  // 1000 / 127 = 7.874016 is stored as 7.875.
  std::array<float, 32> elements{};
  elements[0] = 1000;
  elements[1] = 59.0552F;  // 7.50002 of the one scale, 7.49908 of the other
  const auto block = block_of(DataType::kQ8_0, elements);
  EXPECT_EQ(scale_of(block), 7.875F);
  EXPECT_EQ(block[3], std::byte{8});
}

TEST(Quantise, ScalesAreAtLeastWhatTheCallerWants) {
  for (const DataType type : {DataType::kQ8_0, DataType::kQ4_0}) {
    EXPECT_GE(std::abs(scale_of(block_of(type, std::vector<float>(32, 1e-3F), 1.0F))), 1.0F);
  }
}

TEST(Quantise, E4m3) {
  EXPECT_EQ(harness::e4m3_scale(896), 2.0F);
  EXPECT_EQ(harness::e4m3_scale(0), 1.0F);
  EXPECT_EQ(e4m3_to_float(harness::quantise_e4m3(-896, 2)), -448.0F);
  EXPECT_EQ(e4m3_to_float(harness::quantise_e4m3(2000, 2)), 448.0F) << "there is no more";
  EXPECT_EQ(e4m3_to_float(harness::quantise_e4m3(17, 1)), 16.0F) << "halfway, to even";
  EXPECT_TRUE(std::isfinite(1 / harness::e4m3_scale(1e-44F)));
}

}  // namespace
}  // namespace vkattn::tests
