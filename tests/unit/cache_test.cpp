// The descriptor of an append: layouts, extents, every rule of validate(); and the reference that the tests
// on a device compare with.
#include <vkattn/cache.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "cache/rotary.hpp"
#include "shared/cache_constants.h"
#include "support/cache_reference.hpp"
#include "support/rule.hpp"

namespace vkattn {
namespace {

constexpr std::int64_t kTwo30 = std::int64_t{1} << 30;

AppendDesc valid_desc() {
  AppendDesc desc;
  desc.batch = 2;
  desc.query_heads = 6;
  desc.kv_heads = 3;
  desc.new_length = 5;
  desc.head_dim = 64;
  desc.value_dim = 32;
  desc.cache_length = 20;
  desc.position = 15;
  desc.rotary.style = RotaryStyle::kHalfSplit;
  desc.rotary.dims = 64;
  desc.set_layout(Layout::kBhsd);
  return desc.resolved();
}

AppendDesc paged_desc() {
  AppendDesc desc = valid_desc();
  desc.cache = {KeyMapping::kPaged, 0, 4, 7, 5};
  desc.set_layout(Layout::kBhsd);
  return desc.resolved();
}

AppendDesc packed_desc() {
  AppendDesc desc = valid_desc();
  desc.new_lengths = Lengths::kPacked;
  desc.total_new_length = 9;
  desc.set_layout(Layout::kBhsd);
  return desc.resolved();
}

TEST(AppendDesc, Layouts) {
  AppendDesc desc = valid_desc();
  EXPECT_EQ(desc.query.strides, (Strides{1920, 320, 64, 1}));
  EXPECT_EQ(desc.query_output.strides, desc.query.strides);
  EXPECT_EQ(desc.key.strides, (Strides{960, 320, 64, 1}));
  EXPECT_EQ(desc.value.strides, (Strides{480, 160, 32, 1}));
  EXPECT_EQ(desc.cache_key.strides, (Strides{3840, 1280, 64, 1}));
  EXPECT_EQ(desc.cache_value.strides, (Strides{1920, 640, 32, 1}));
  desc.set_layout(Layout::kBshd);
  desc = desc.resolved();
  EXPECT_EQ(desc.query_output.strides, (Strides{1920, 64, 384, 1}));
  EXPECT_EQ(desc.cache_key.strides, (Strides{3840, 64, 192, 1}));
  EXPECT_EQ(desc.cache_value.strides, (Strides{1920, 32, 96, 1}));
  desc.set_layout(Layout::kPackedQkv);
  desc = desc.resolved();
  EXPECT_EQ(desc.query.strides, (Strides{3360, 64, 672, 1}));
  EXPECT_EQ(desc.value.strides, (Strides{3360, 32, 672, 1}));
  EXPECT_EQ(desc.query_output.strides, (Strides{1920, 64, 384, 1}));
  EXPECT_EQ(desc.cache_key.strides, (Strides{3840, 1280, 64, 1}));
}

TEST(AppendDesc, LayoutsOfPackedRows) {
  AppendDesc desc = packed_desc();
  EXPECT_EQ(new_row_extents(desc, 6, 64), (TensorExtents{1, 6, 9, 64}));
  EXPECT_EQ(new_row_extents(valid_desc(), 3, 32), (TensorExtents{2, 3, 5, 32}));
  EXPECT_EQ(desc.query.strides, (Strides{3456, 576, 64, 1}));
  EXPECT_EQ(desc.query_output.strides, desc.query.strides);
  EXPECT_EQ(desc.value.strides, (Strides{864, 288, 32, 1}));
  EXPECT_EQ(desc.cache_key.strides, (Strides{3840, 1280, 64, 1}));
}

TEST(AppendDesc, ExtentsOfCaches) {
  AppendDesc desc = valid_desc();
  EXPECT_EQ(cache_extents(desc, 64), (TensorExtents{2, 3, 20, 64}));
  desc.cache = {KeyMapping::kRing, 9};
  EXPECT_EQ(cache_extents(desc, 32), (TensorExtents{2, 3, 9, 32}));
  EXPECT_EQ(cache_extents(paged_desc(), 64), (TensorExtents{7, 3, 4, 64}));
}

TEST(AppendDesc, Quantisation) {
  const TensorDesc source{DataType::kFloat32, Strides{100, 50, 64, 1}, 0};
  const TensorDesc target{DataType::kQ4_0, Strides{640, 128, 64, 1}, 0};
  const AppendDesc desc = quantise_desc({2, 3, 2, 64}, source, target);
  EXPECT_EQ(desc.key, source);
  EXPECT_EQ(desc.cache_key, target);
  EXPECT_EQ(cache_extents(desc, 64), (TensorExtents{2, 3, 2, 64}));
  EXPECT_TRUE(validate(desc).ok()) << validate(desc).error().message;
}

TEST(AppendDesc, EmptyOnes) {
  AppendDesc desc = valid_desc();
  EXPECT_FALSE(desc.is_empty());
  desc.new_length = 0;
  EXPECT_TRUE(desc.is_empty());
  desc.writes_kv_lengths = true;
  EXPECT_FALSE(desc.is_empty());
  AppendDesc packed = packed_desc();
  EXPECT_FALSE(packed.is_empty());
  packed.total_new_length = 0;
  EXPECT_TRUE(packed.is_empty());
  desc.batch = 0;
  EXPECT_TRUE(desc.is_empty());
  EXPECT_TRUE(validate(desc).ok()) << validate(desc).error().message;
}

TEST(AppendDesc, WhatIsValid) {
  const std::vector<std::function<void(AppendDesc&)>> changes{
      [](AppendDesc&) {},
      [](AppendDesc& d) { d.query_heads = 0; },
      [](AppendDesc& d) {
        d.query_heads = 7;  // nothing here needs whole groups
        d.set_layout(Layout::kBhsd);
      },
      [](AppendDesc& d) { d.kv_heads = 0; },
      [](AppendDesc& d) { d.value_dim = 0; },
      [](AppendDesc& d) { d.cache_key.type = DataType::kQ8_0; },
      [](AppendDesc& d) { d.cache_value.type = DataType::kFloat8E4m3; },
      [](AppendDesc& d) { d.query_output.type = DataType::kBfloat16; },
      [](AppendDesc& d) { d.key.strides->row = 0; },
      [](AppendDesc& d) {
        d.rotary = {RotaryStyle::kInterleaved, 2, 1.0001, 1.0};
      },
      [](AppendDesc& d) { d.rotary = {RotaryStyle::kInterleaved, 64, -1, 99, true, -2.0F}; },
      [](AppendDesc& d) {
        d.rotary = {RotaryStyle::kNone, 1'000};
      },
      [](AppendDesc& d) {
        d.position = kTwo30;
        d.cache = {KeyMapping::kRing, 3};
        d.set_layout(Layout::kBhsd);
      },
      [](AppendDesc& d) {
        d.position = -1;
        d.has_positions = true;
      },
      [](AppendDesc& d) { d = paged_desc(); },
      [](AppendDesc& d) { d = packed_desc(); },
      [](AppendDesc& d) {
        d = packed_desc();
        d.key.strides->batch = d.query_output.strides->batch = 0;  // of one batch entry
        d.new_length = 99;                                         // of which there are 5 at most
        d.total_new_length = 5;
      },
      [](AppendDesc& d) { d.total_new_length = -1; }};  // has no meaning here
  for (std::size_t i = 0; i < changes.size(); ++i) {
    AppendDesc desc = valid_desc();
    changes[i](desc);
    const Status status = validate(desc);
    EXPECT_TRUE(status.ok()) << i << ": " << status.error().message;
  }
}

/// A way to break a valid descriptor, and what the error must speak of.
using Rule = vkattn::tests::Rule<AppendDesc>;

class BrokenAppendRule : public testing::TestWithParam<Rule> {};

TEST_P(BrokenAppendRule, IsNamedWithItsNumbers) {
  expect_refused_by_name(GetParam(), valid_desc());
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const Rule kRules[] = {
    {"NegativeBatch", [](AppendDesc& d) { d.batch = -1; }, {"batch", "-1"}},
    {"NegativeKvHeads", [](AppendDesc& d) { d.kv_heads = -3; }, {"kv_heads", "-3"}},
    {"ManyHeads",
     [](AppendDesc& d) {
       d.batch = 1 << 20;
       d.kv_heads = 3 << 10;
     },
     {"batch times kv_heads", "3221225472"}},
    {"UnknownLengths", [](AppendDesc& d) { d.new_lengths = static_cast<Lengths>(3); }, {"new_lengths", "3"}},
    {"UnknownLayout", [](AppendDesc& d) { d.layout = static_cast<Layout>(3); }, {"layout", "3"}},
    {"NoNewLength", [](AppendDesc& d) { d.new_length = kUnset; }, {"new_length is not set"}},
    {"NoCacheLength", [](AppendDesc& d) { d.cache_length = kUnset; }, {"cache_length is not set"}},
    {"NoHeadDim", [](AppendDesc& d) { d.head_dim = kUnset; }, {"head_dim is not set"}},
    {"NoHeads",
     [](AppendDesc& d) {
       d.query_heads = 0;
       d.kv_heads = kUnset;
     },
     {"kv_heads is not set"}},
    {"NoTotal",
     [](AppendDesc& d) {
       d = packed_desc();
       d.total_new_length = kUnset;
     },
     {"total_new_length is not set"}},
    {"NegativeTotal",
     [](AppendDesc& d) {
       d = packed_desc();
       d.total_new_length = -1;
     },
     {"total_new_length", "-1"}},
    {"HugeTotal",
     [](AppendDesc& d) {
       d = packed_desc();
       d.total_new_length = 2 * kTwo30;
     },
     {"total_new_length", "2147483648", "2147483647"}},
    {"PackedBeyondTheCache",
     [](AppendDesc& d) {
       d = packed_desc();
       d.position = 16;
     },
     {"position 21", "20"}},
    {"PackedQueriesOverlap",
     [](AppendDesc& d) {
       d = packed_desc();
       d.query_output.strides->head = 320;  // enough for new_length rows, not for all
     },
     {"query_output", "overlap", "320"}},
    {"HugeNewLength", [](AppendDesc& d) { d.new_length = kTwo30 + 1; }, {"new_length", "1073741825"}},
    {"ZeroHeadDim", [](AppendDesc& d) { d.head_dim = 0; }, {"head_dim", "0", "576"}},
    {"WideValueDim", [](AppendDesc& d) { d.value_dim = 577; }, {"value_dim", "577"}},
    {"NegativePosition", [](AppendDesc& d) { d.position = -1; }, {"position", "-1"}},
    {"NegativeCacheLength", [](AppendDesc& d) { d.cache_length = -1; }, {"cache_length", "-1"}},
    {"BeyondTheCache", [](AppendDesc& d) { d.position = 16; }, {"position 21", "20"}},
    {"MoreThanTheCache",
     [](AppendDesc& d) {
       d.has_positions = true;
       d.cache_length = 4;
     },
     {"5", "4"}},
    {"BeyondThePages",
     [](AppendDesc& d) {
       d = paged_desc();
       d.position = 16;
     },
     {"21", "20"}},
    {"NoPages",
     [](AppendDesc& d) {
       d = paged_desc();
       d.cache.page_count = 0;
     },
     {"cache.page_count", "0"}},
    {"NoRing", [](AppendDesc& d) { d.cache.mapping = KeyMapping::kRing; }, {"cache.ring_length", "0"}},
    {"UnknownMapping",
     [](AppendDesc& d) { d.cache.mapping = static_cast<KeyMapping>(5); },
     {"cache.mapping", "5"}},
    {"UnknownStyle",
     [](AppendDesc& d) { d.rotary.style = static_cast<RotaryStyle>(3); },
     {"rotary.style", "3"}},
    {"OddRotaryDims", [](AppendDesc& d) { d.rotary.dims = 33; }, {"rotary.dims", "33", "64"}},
    {"NoRotaryDims", [](AppendDesc& d) { d.rotary.dims = 0; }, {"rotary.dims", "0"}},
    {"WideRotaryDims", [](AppendDesc& d) { d.rotary.dims = 66; }, {"rotary.dims", "66", "64"}},
    {"HalvesInsideOfBlocks",
     [](AppendDesc& d) {
       d.rotary.dims = 44;
       d.cache_key.type = DataType::kQ8_0;
     },
     {"rotary.dims", "44", "8", "q8_0"}},
    {"BaseOfOne", [](AppendDesc& d) { d.rotary.base = 1; }, {"rotary.base", "1"}},
    {"NanBase", [](AppendDesc& d) { d.rotary.base = kNan; }, {"rotary.base", "nan"}},
    {"ZeroScale", [](AppendDesc& d) { d.rotary.position_scale = 0; }, {"rotary.position_scale", "0"}},
    {"LargeScale", [](AppendDesc& d) { d.rotary.position_scale = 1.5; }, {"rotary.position_scale", "1.5"}},
    {"InfiniteMagnitude",
     [](AppendDesc& d) { d.rotary.magnitude = std::numeric_limits<float>::infinity(); },
     {"rotary.magnitude", "inf"}},
    {"QuantisedSource", [](AppendDesc& d) { d.value.type = DataType::kQ8_0; }, {"value", "q8_0"}},
    {"QuantisedQueries",
     [](AppendDesc& d) { d.query_output.type = DataType::kFloat8E4m3; },
     {"query_output", "e4m3"}},
    {"PartialBlocks",
     [](AppendDesc& d) {
       d.value_dim = 40;
       d.cache_value.type = DataType::kQ4_0;
       d.set_layout(Layout::kBhsd);
     },
     {"cache_value", "q4_0", "32", "40"}},
    {"BlocksAcrossRows",
     [](AppendDesc& d) {
       d.cache_key.type = DataType::kQ8_0;
       d.cache_key.strides->row = 65;
     },
     {"cache_key", "row", "65"}},
    {"CacheOverlaps", [](AppendDesc& d) { d.cache_key.strides->row = 63; }, {"cache_key", "overlap", "63"}},
    {"QueriesOverlap",
     [](AppendDesc& d) { d.query_output.strides->head = 0; },
     {"query_output", "head", "0"}},
    {"NegativeStride", [](AppendDesc& d) { d.key.strides->batch = -1; }, {"key", "batch", "-1"}},
    {"UnknownType", [](AppendDesc& d) { d.cache_key.type = static_cast<DataType>(6); }, {"cache_key", "6"}},
};

INSTANTIATE_TEST_SUITE_P(Rules, BrokenAppendRule, testing::ValuesIn(kRules),
                         vkattn::tests::rule_name<AppendDesc>);

/// 64-bit fractions of a turn: the first frequency is 1 / (2 pi), the ratio of neighbours base^(-2 / dims).
TEST(Rotary, FrequenciesAsFractions) {
  const auto value_of = [](const std::vector<detail::SpecializationValue>& values, std::uint32_t id) {
    std::uint64_t bits = 0;
    for (const detail::SpecializationValue& value : values) {
      if (value.id == id) bits |= std::uint64_t{value.value} << 32U;
      if (value.id == id + 1) bits |= value.value;
    }
    return std::ldexp(static_cast<double>(bits), -64);
  };
  RotaryDesc rotary{RotaryStyle::kInterleaved, 4};
  rotary.position_scale = 0.5;
  const auto values = detail::rotary_specialization(rotary);
  EXPECT_DOUBLE_EQ(value_of(values, VKATTN_APPEND_SPEC_FIRST_FREQUENCY), 0.25 / std::numbers::pi);
  EXPECT_DOUBLE_EQ(value_of(values, VKATTN_APPEND_SPEC_RATIOS), 0.01);
  EXPECT_DOUBLE_EQ(value_of(values, VKATTN_APPEND_SPEC_RATIOS + 2), 0.0001);
  rotary.base = std::nextafter(1.0, 2.0);  // a ratio that rounds to 1
  EXPECT_LT(value_of(detail::rotary_specialization(rotary), VKATTN_APPEND_SPEC_RATIOS), 1.0 + 1e-15);
  rotary.has_frequencies = true;
  EXPECT_EQ(detail::rotary_specialization(rotary).size(), 4U);
  EXPECT_TRUE(detail::rotary_specialization({}).empty());
}

TEST(CacheReference, QuarterTurns) {
  const std::array<float, 4> row{1, 2, 3, 4};
  RotaryDesc rotary{RotaryStyle::kInterleaved, 4};
  rotary.has_frequencies = true;
  const std::array<float, 2> frequencies{static_cast<float>(std::numbers::pi / 2), 0};
  const auto interleaved = tests::rotated(row, rotary, frequencies, 1);
  const std::array<double, 4> expected{-2, 1, 3, 4};
  rotary.style = RotaryStyle::kHalfSplit;
  const auto halves = tests::rotated(row, rotary, frequencies, 1);
  const std::array<double, 4> expected_halves{-3, 2, 1, 4};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(interleaved[i], expected[i], 1e-6);
    EXPECT_NEAR(halves[i], expected_halves[i], 1e-6);
  }
}

}  // namespace
}  // namespace vkattn
