// Conversions between storage types: every 16-bit pattern, rounding, and the ends of the ranges.
#include <vkattn/data_type.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace {

using vkattn::bfloat16_to_float;
using vkattn::DataType;
using vkattn::float_to_bfloat16;
using vkattn::float_to_half;
using vkattn::half_to_float;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// binary16 by its definition, in floating point.
double half_by_definition(std::uint32_t bits) {
  const int exponent = static_cast<int>((bits >> 10U) & 0x1fU);
  const auto mantissa = static_cast<double>(bits & 0x3ffU);
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1.0 + mantissa / 1024.0, exponent - 15);
  return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
}

TEST(DataType, NamesAndSizes) {
  EXPECT_EQ(vkattn::name(DataType::kFloat32), "f32");
  EXPECT_EQ(vkattn::name(DataType::kFloat16), "f16");
  EXPECT_EQ(vkattn::name(DataType::kBfloat16), "bf16");
  EXPECT_EQ(vkattn::element_bytes(DataType::kFloat32), 4U);
  EXPECT_EQ(vkattn::element_bytes(DataType::kFloat16), 2U);
  EXPECT_EQ(vkattn::element_bytes(DataType::kBfloat16), 2U);
  EXPECT_EQ(vkattn::name(DataType::kQ8_0), "q8_0");
  EXPECT_EQ(vkattn::name(DataType::kQ4_0), "q4_0");
  EXPECT_EQ(vkattn::name(DataType::kFloat8E4m3), "e4m3");
  EXPECT_EQ(vkattn::block_bytes(DataType::kQ8_0), 34U);
  EXPECT_EQ(vkattn::block_bytes(DataType::kQ4_0), 18U);
  EXPECT_EQ(vkattn::element_bytes(DataType::kQ4_0), 2U);
  EXPECT_EQ(vkattn::element_bytes(DataType::kFloat8E4m3), 1U);
}

/// e4m3 by its definition, in floating point.
double e4m3_by_definition(std::uint32_t bits) {
  const int exponent = static_cast<int>((bits >> 3U) & 0xfU);
  const auto mantissa = static_cast<double>(bits & 7U);
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(1.0 + mantissa / 8.0, exponent - 7);
  return (bits & 0x80U) != 0 ? -magnitude : magnitude;
}

TEST(DataType, EveryE4m3IsReadAndWrittenBack) {
  for (std::uint32_t bits = 0; bits <= 0xffU; ++bits) {
    const float value = vkattn::e4m3_to_float(static_cast<std::uint8_t>(bits));
    if ((bits & 0x7fU) == 0x7fU) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_EQ(vkattn::float_to_e4m3(value) & 0x7fU, 0x7fU) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), e4m3_by_definition(bits)) << bits;
    ASSERT_EQ(vkattn::float_to_e4m3(value), bits);
  }
  EXPECT_EQ(vkattn::e4m3_to_float(0x7e), 448.0F);
  EXPECT_EQ(vkattn::e4m3_to_float(0x01), 0x1p-9F);
}

TEST(DataType, E4m3RoundsToNearestEvenAndStopsAt448) {
  for (std::uint32_t bits = 0; bits < 0x7eU; ++bits) {
    const float low = vkattn::e4m3_to_float(static_cast<std::uint8_t>(bits));
    const float high = vkattn::e4m3_to_float(static_cast<std::uint8_t>(bits + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(vkattn::float_to_e4m3(middle), bits % 2 == 0 ? bits : bits + 1) << bits;
    EXPECT_EQ(vkattn::float_to_e4m3(std::nextafter(middle, low)), bits);
    EXPECT_EQ(vkattn::float_to_e4m3(-std::nextafter(middle, high)), 0x80U | (bits + 1));
  }
  for (const float large : {449.0F, 1e6F, kInfinity}) {
    EXPECT_EQ(vkattn::float_to_e4m3(large), 0x7eU);
    EXPECT_EQ(vkattn::float_to_e4m3(-large), 0xfeU);
  }
  EXPECT_EQ(vkattn::float_to_e4m3(0x1p-20F), 0U);
}

TEST(DataType, EveryHalfIsReadAndWrittenBack) {
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const float value = half_to_float(static_cast<std::uint16_t>(bits));
    const std::uint32_t magnitude = bits & 0x7fffU;
    if (magnitude > 0x7c00U) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(half_to_float(float_to_half(value)))) << bits;
      continue;
    }
    if (magnitude == 0x7c00U) {
      ASSERT_EQ(value, (bits & 0x8000U) != 0 ? -kInfinity : kInfinity);
    } else {
      ASSERT_EQ(static_cast<double>(value), half_by_definition(bits)) << bits;
    }
    ASSERT_EQ(std::signbit(value), (bits & 0x8000U) != 0) << bits;
    ASSERT_EQ(float_to_half(value), bits);
  }
}

TEST(DataType, EveryBfloat16IsReadAndWrittenBack) {
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const float value = bfloat16_to_float(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), bits << 16U);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(value)))) << bits;
    } else {
      ASSERT_EQ(float_to_bfloat16(value), bits);
    }
  }
}

/// Between two neighbours: below the middle down, above it up, in the middle to the even one.
TEST(DataType, HalfRoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7bffU; ++bits) {
    const double low = half_by_definition(bits);
    const double high = half_by_definition(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);  // exact: one bit more than a half has
    const std::uint32_t even = (bits & 1U) == 0 ? bits : bits + 1;
    ASSERT_EQ(float_to_half(middle), even) << bits;
    ASSERT_EQ(float_to_half(-middle), even | 0x8000U) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0F)), bits) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, kInfinity)), bits + 1) << bits;
  }
}

TEST(DataType, Bfloat16RoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7f7fU; ++bits) {
    const auto middle = std::bit_cast<float>((bits << 16U) | 0x8000U);
    const std::uint32_t even = (bits & 1U) == 0 ? bits : bits + 1;
    ASSERT_EQ(float_to_bfloat16(middle), even) << bits;
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>((bits << 16U) | 0x7fffU)), bits);
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>((bits << 16U) | 0x8001U)), bits + 1);
  }
}

TEST(DataType, OverflowGivesInfinity) {
  EXPECT_EQ(float_to_half(65504.0F), 0x7bffU);
  EXPECT_EQ(float_to_half(65519.996F), 0x7bffU);
  EXPECT_EQ(float_to_half(65520.0F), 0x7c00U);
  EXPECT_EQ(float_to_half(-1e30F), 0xfc00U);
  EXPECT_EQ(float_to_half(kInfinity), 0x7c00U);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7f80U);
  EXPECT_EQ(float_to_bfloat16(-kInfinity), 0xff80U);
}

TEST(DataType, SmallNumbersBecomeSubnormalsOrZero) {
  EXPECT_EQ(float_to_half(0x1p-24F), 0x0001U);
  EXPECT_EQ(float_to_half(0x1p-25F), 0x0000U);  // a tie, to even
  EXPECT_EQ(float_to_half(0x1.8p-24F), 0x0002U);
  EXPECT_EQ(float_to_half(-0x1p-30F), 0x8000U);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0x0000U);
}

TEST(DataType, NanStaysNanWhateverItsPayload) {
  for (const std::uint32_t bits : {0x7f800001U, 0x7fc00000U, 0xffffffffU, 0x7fc0deadU, 0xff80ffffU}) {
    const auto nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(half_to_float(float_to_half(nan)))) << bits;
    EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(nan)))) << bits;
  }
}

}  // namespace
