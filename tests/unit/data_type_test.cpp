// Conversions between storage types: every 16-bit pattern, rounding, and the ends of the ranges.
#include <vkattn/data_type.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace vkattn {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A type of fewer than 32 bits: a sign, an exponent, and a mantissa.
struct Format {
  const char* name;
  std::uint32_t exponent_bits, mantissa_bits;
  std::uint32_t largest;  ///< the bits of its largest number; those above are infinite or no number
  float (*read)(std::uint32_t bits);
  std::uint32_t (*write)(float value);

  [[nodiscard]] std::uint32_t sign() const { return 1U << (exponent_bits + mantissa_bits); }
  /// The number of these bits by its definition, in floating point.
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

/// Between two neighbours: below the middle down, above it up, in the middle to the even one.
TEST(DataType, RoundsToNearestEven) {
  for (const Format& format : kFormats) {
    SCOPED_TRACE(format.name);
    for (std::uint32_t bits = 0; bits < format.largest; ++bits) {
      // Exact: one bit more than the format has.
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

/// What lies beyond the largest number, and far below the least.
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

}  // namespace
}  // namespace vkattn
