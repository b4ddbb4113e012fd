// Storage types: every 16-bit pattern, rounding and the ends of the ranges. Also the host's quantiser, with
// numbers that can be checked by hand. The tests of the append kernel (tests/gpu/cache_test.cpp) compare the
// kernel with the quantiser bit by bit, also at the ends of its range.
#include <vkattn/data_type.hpp>

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "harness/quantise.hpp"
#include "support/cache_reference.hpp"
#include "support/special_numbers.hpp"

namespace vkattn::tests {
namespace {

/// A type of fewer than 32 bits: a sign, an exponent and a mantissa.
struct Format {
  const char* name;
  std::uint32_t exponent_bits, mantissa_bits;
  std::uint32_t largest;  ///< bits of its largest number; larger patterns are infinite or NaN
  float (*read)(std::uint32_t bits);
  std::uint32_t (*write)(float value);

  [[nodiscard]] std::uint32_t sign() const { return 1U << (exponent_bits + mantissa_bits); }
  /// The number with these bits, computed from the definition of the format.
  [[nodiscard]] double defined(std::uint32_t bits) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const auto exponent = static_cast<int>((bits & (sign() - 1)) >> mantissa_bits);
    const double fraction =
        std::ldexp(static_cast<double>(bits & ((1U << mantissa_bits) - 1)), -static_cast<int>(mantissa_bits));
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
    return (bits & sign()) != 0 ? -magnitude : magnitude;
  }
};

constexpr Format kFormats[] = {
    {"f16", 5, 10, 0x7bffU,
     [](std::uint32_t bits) { return half_to_float(static_cast<std::uint16_t>(bits)); },
     [](float value) { return std::uint32_t{float_to_half(value)}; }},
    {"bf16", 8, 7, 0x7f7fU,
     [](std::uint32_t bits) { return bfloat16_to_float(static_cast<std::uint16_t>(bits)); },
     [](float value) { return std::uint32_t{float_to_bfloat16(value)}; }},
    {"e4m3", 4, 3, 0x7eU, [](std::uint32_t bits) { return e4m3_to_float(static_cast<std::uint8_t>(bits)); },
     [](float value) { return std::uint32_t{float_to_e4m3(value)}; }}};

TEST(DataType, EveryPatternIsReadAndWrittenBack) {
  for (const Format& format : kFormats) {
    SCOPED_TRACE(format.name);
    for (std::uint32_t bits = 0; bits < 2 * format.sign(); ++bits) {
      const float value = format.read(bits);
      const std::uint32_t magnitude = bits & (format.sign() - 1);
      ASSERT_EQ(std::signbit(value), magnitude != bits) << bits;
      if (magnitude <= format.largest) {
        ASSERT_EQ(static_cast<double>(value), format.defined(bits)) << bits;
      } else if (magnitude == format.largest + 1 && format.largest != 0x7eU) {
        ASSERT_TRUE(std::isinf(value)) << bits;
      } else {
        ASSERT_TRUE(std::isnan(value)) << bits;
        ASSERT_TRUE(std::isnan(format.read(format.write(value)))) << bits;
        continue;
      }
      ASSERT_EQ(format.write(value), bits);
    }
  }
}

/// Between two neighbours: below the middle it rounds down, above it up, and in the middle to the even one.
TEST(DataType, RoundsToNearestEven) {
  for (const Format& format : kFormats) {
    SCOPED_TRACE(format.name);
    for (std::uint32_t bits = 0; bits < format.largest; ++bits) {
      // The middle is exact, because it needs one bit more than the format has.
      const auto middle = static_cast<float>((format.defined(bits) + format.defined(bits + 1)) / 2);
      const std::uint32_t even = (bits & 1U) == 0 ? bits : bits + 1;
      ASSERT_EQ(format.write(middle), even) << bits;
      ASSERT_EQ(format.write(-middle), even | format.sign()) << bits;
      ASSERT_EQ(format.write(std::nextafter(middle, 0.0F)), bits) << bits;
      ASSERT_EQ(format.write(std::nextafter(middle, kInfinity)), bits + 1) << bits;
      ASSERT_EQ(format.write(-std::nextafter(middle, kInfinity)), format.sign() | (bits + 1)) << bits;
    }
  }
}

/// Numbers beyond the largest, and far below the smallest.
TEST(DataType, TheEndsOfTheRanges) {
  for (const float large : {449.0F, 1e6F, kInfinity}) {
    EXPECT_EQ(float_to_e4m3(large), 0x7eU) << "e4m3 stops at 448";
    EXPECT_EQ(float_to_e4m3(-large), 0xfeU);
  }
  EXPECT_EQ(float_to_e4m3(0x1p-20F), 0U);
  EXPECT_EQ(float_to_half(65519.996F), 0x7bffU);
  EXPECT_EQ(float_to_half(65520.0F), 0x7c00U);
  EXPECT_EQ(float_to_half(-1e30F), 0xfc00U);
  EXPECT_EQ(float_to_half(-0x1p-30F), 0x8000U);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0x0000U);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7f80U);
  for (const std::uint32_t bits : {0x7f800001U, 0x7fc00000U, 0xffffffffU, 0x7fc0deadU, 0xff80ffffU}) {
    const auto nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(half_to_float(float_to_half(nan)))) << bits;
    EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(nan)))) << bits;
  }
}

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
  elements[1] = 59.0552F;  // 7.50002 steps of one scale, 7.49908 of the other
  const auto block = block_of(DataType::kQ8_0, elements);
  EXPECT_EQ(scale_of(block), 7.875F);
  EXPECT_EQ(block[3], std::byte{8});
}

TEST(Quantise, EndsOfTheRange) {
  for (const DataType type : {DataType::kQ8_0, DataType::kQ4_0}) {
    for (const float element : {0.0F, -0.0F, 1e-38F, -1e-44F}) {  // numbers without a finite reciprocal
      const auto block = block_of(type, std::vector<float>(32, element));
      for (const float decoded : block_elements_of(type, block)) EXPECT_EQ(decoded, 0.0F) << element;
      EXPECT_EQ(block.back(), type == DataType::kQ8_0 ? std::byte{0} : std::byte{0x88});
    }
    for (const float element : {kInfinity, -kInfinity, kNan}) {
      std::vector<float> values(32, 1.0F);
      values[5] = element;
      EXPECT_TRUE(std::isnan(scale_of(block_of(type, values)))) << element;
    }
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
