// The descriptor of an append: layouts, extents, every rule of validate(). Also the reference that the tests
// on a device compare with.
#include <vkattn/cache.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <numbers>

#include "cache/rotary.hpp"
#include "shared/cache_constants.h"
#include "support/cache_reference.hpp"
#include "support/rule.hpp"
#include "support/special_numbers.hpp"

namespace vkattn::tests {
namespace {

/// A valid descriptor with a change that is made before the layout is computed.
AppendDesc desc_with(const std::function<void(AppendDesc&)>& change) {
  AppendDesc desc{.batch = 2,
                  .query_heads = 6,
                  .kv_heads = 3,
                  .new_length = 5,
                  .head_dim = 64,
                  .value_dim = 32,
                  .cache_length = 20,
                  .position = 15,
                  .rotary = {RotaryStyle::kHalfSplit, 64}};
  change(desc);
  return desc.resolved();
}
void unchanged(AppendDesc& /*desc*/) {}
void paged(AppendDesc& desc) {
  desc.cache = {KeyMapping::kPaged, 0, 4, 7, 5};
}
void packed(AppendDesc& desc) {
  desc.new_lengths = Lengths::kPacked;
  desc.total_new_length = 9;
}
void with_ring(AppendDesc& desc) {
  desc.cache = {KeyMapping::kRing, 9};
}
std::function<void(AppendDesc&)> with_key_strides(const Strides& strides) {
  return [=](AppendDesc& desc) { desc.key.strides = strides; };
}

/// The strides of the new rows and of the written tensors.
TEST(AppendDesc, Layouts) {
  const auto rows = [](const AppendDesc& d) { return strides_text({d.query, d.key, d.value}); };
  const auto written = [](const AppendDesc& d) {
    return strides_text({d.query_output, d.cache_key, d.cache_value});
  };
  AppendDesc desc = desc_with(unchanged);
  EXPECT_EQ(rows(desc), "1920 320 64 1, 960 320 64 1, 480 160 32 1");
  EXPECT_EQ(written(desc), "1920 320 64 1, 3840 1280 64 1, 1920 640 32 1");
  desc = desc_with([](auto& d) { d.layout = Layout::kBshd; });
  EXPECT_EQ(written(desc), "1920 64 384 1, 3840 64 192 1, 1920 32 96 1");
  desc = desc_with([](auto& d) { d.layout = Layout::kPackedQkv; });
  EXPECT_EQ(rows(desc), "3360 64 672 1, 3360 64 672 1, 3360 32 672 1");
  EXPECT_EQ(written(desc), "1920 64 384 1, 3840 1280 64 1, 1920 640 32 1");
  desc = desc_with(packed);
  EXPECT_EQ(rows(desc), "3456 576 64 1, 1728 576 64 1, 864 288 32 1");
  EXPECT_EQ(written(desc), "3456 576 64 1, 3840 1280 64 1, 1920 640 32 1");
  EXPECT_EQ(new_row_extents(desc, 6, 64), (TensorExtents{1, 6, 9, 64}));
  EXPECT_EQ(new_row_extents(desc_with(unchanged), 3, 32), (TensorExtents{2, 3, 5, 32}));
  EXPECT_EQ(cache_extents(desc_with(unchanged), 64), (TensorExtents{2, 3, 20, 64}));
  EXPECT_EQ(cache_extents(desc_with(with_ring), 32), (TensorExtents{2, 3, 9, 32}));
  EXPECT_EQ(cache_extents(desc_with(paged), 64), (TensorExtents{7, 3, 4, 64}));
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
  AppendDesc desc = desc_with(unchanged);
  EXPECT_FALSE(desc.is_empty());
  desc.new_length = 0;
  EXPECT_TRUE(desc.is_empty());
  desc.writes_kv_lengths = true;
  EXPECT_FALSE(desc.is_empty());
  desc.batch = 0;
  EXPECT_TRUE(desc.is_empty());
  EXPECT_TRUE(validate(desc).ok()) << validate(desc).error().message;
  desc = desc_with(packed);
  EXPECT_FALSE(desc.is_empty());
  desc.total_new_length = 0;
  EXPECT_TRUE(desc.is_empty());
}

TEST(AppendDesc, WhatIsValid) {
  const std::function<void(AppendDesc&)> changes[] = {
      unchanged,
      paged,
      packed,
      [](auto& d) { d.query_heads = 0; },
      [](auto& d) { d.query_heads = 7; },  // an append needs no whole groups
      [](auto& d) { d.kv_heads = 0; },
      [](auto& d) { d.value_dim = 0; },
      [](auto& d) { d.cache_key.type = DataType::kQ8_0; },
      [](auto& d) { d.cache_value.type = DataType::kFloat8E4m3; },
      [](auto& d) { d.query_output.type = DataType::kBfloat16; },
      with_key_strides({960, 320, 0, 1}),
      [](auto& d) {
        d.rotary = {RotaryStyle::kInterleaved, 2, 1.0001, 1.0};
      },
      [](auto& d) { d.rotary = {RotaryStyle::kInterleaved, 64, -1, 99, true, -2.0F}; },
      [](auto& d) {
        d.rotary = {RotaryStyle::kNone, 1'000};
      },
      [](auto& d) { with_ring(d), d.position = kTwo30; },
      [](auto& d) { d.position = -1, d.has_positions = true; },
      [](auto& d) { d.total_new_length = -1; },                               // unused without packed rows
      [](auto& d) { d.cache.page_table_stride = -1; },                        // unused without pages
      [](auto& d) { packed(d), d.new_length = 99, d.total_new_length = 5; },  // at most 5 rows exist
      [](auto& d) {
        packed(d), with_key_strides({0, 576, 64, 1})(d);
      },  // for a single batch entry
  };
  for (const auto& change : changes) {
    const Result<void> status = validate(desc_with(change));
    EXPECT_TRUE(status.ok()) << &change - changes << ": " << status.error().message;
  }
}

TEST(AppendDesc, RefusesByName) {
  expect_refused_by_name<AppendDesc>(
      desc_with(unchanged),
      {{"batch -1", [](auto& d) { d.batch = -1; }},
       {"kv_heads -3", [](auto& d) { d.kv_heads = -3; }},
       {"batch kv_heads 3221225472", [](auto& d) { d.batch = 1 << 20, d.kv_heads = 3 << 10; }},
       {"new_lengths 3", [](auto& d) { d.new_lengths = static_cast<Lengths>(3); }},
       {"layout 3", [](auto& d) { d.layout = static_cast<Layout>(3); }},
       {"cache.mapping 5", [](auto& d) { d.cache.mapping = static_cast<KeyMapping>(5); }},
       {"cache_key 6", [](auto& d) { d.cache_key.type = static_cast<DataType>(6); }},
       {"new_length not set", [](auto& d) { d.new_length = kUnset; }},
       {"cache_length not set", [](auto& d) { d.cache_length = kUnset; }},
       {"head_dim not set", [](auto& d) { d.head_dim = kUnset; }},
       {"kv_heads not set", [](auto& d) { d.query_heads = 0, d.kv_heads = kUnset; }},
       {"new_length 1073741825", [](auto& d) { d.new_length = kTwo30 + 1; }},
       {"head_dim 0 576", [](auto& d) { d.head_dim = 0; }},
       {"value_dim 577", [](auto& d) { d.value_dim = 577; }},
       {"position -1", [](auto& d) { d.position = -1; }},
       {"cache_length -1", [](auto& d) { d.cache_length = -1; }},
       {"position 21 20", [](auto& d) { d.position = 16; }},
       {"5 4", [](auto& d) { d.has_positions = true, d.cache_length = 4; }},
       {"cache.ring_length 0", [](auto& d) { d.cache.mapping = KeyMapping::kRing; }},
       {"value q8_0", [](auto& d) { d.value.type = DataType::kQ8_0; }},
       {"query_output e4m3", [](auto& d) { d.query_output.type = DataType::kFloat8E4m3; }},
       {"cache_value q4_0 32 40", [](auto& d) { d.value_dim = 40, d.cache_value.type = DataType::kQ4_0; }},
       {"cache_key row 65", [](auto& d) { d.cache_key.type = DataType::kQ8_0, ++d.cache_key.strides->row; }},
       {"cache_key overlap 63", [](auto& d) { d.cache_key.strides->row = 63; }},
       {"query_output head 0", [](auto& d) { d.query_output.strides->head = 0; }},
       {"key batch -1", [](auto& d) { d.key.strides->batch = -1; }}});
  expect_refused_by_name<AppendDesc>(desc_with(paged),
                                     {{"21 20", [](auto& d) { d.position = 16; }},
                                      {"cache.page_count 0", [](auto& d) { d.cache.page_count = 0; }}});
  expect_refused_by_name<AppendDesc>(
      desc_with(packed),
      {{"total_new_length not set", [](auto& d) { d.total_new_length = kUnset; }},
       {"total_new_length -1", [](auto& d) { d.total_new_length = -1; }},
       {"total_new_length 2147483648 2147483647", [](auto& d) { d.total_new_length = 2 * kTwo30; }},
       {"position 21 20", [](auto& d) { d.position = 16; }},
       // Enough for new_length rows, but not for all rows.
       {"query_output overlap 320", [](auto& d) { d.query_output.strides->head = 320; }}});
}

TEST(AppendDesc, RefusesRotationsByName) {
  expect_refused_by_name<AppendDesc>(
      desc_with(unchanged),
      {{"rotary.style 3", [](auto& d) { d.rotary.style = static_cast<RotaryStyle>(3); }},
       {"rotary.dims 33 64", [](auto& d) { d.rotary.dims = 33; }},
       {"rotary.dims 0", [](auto& d) { d.rotary.dims = 0; }},
       {"rotary.dims 66 64", [](auto& d) { d.rotary.dims = 66; }},
       {"rotary.dims 44 8 q8_0", [](auto& d) { d.rotary.dims = 44, d.cache_key.type = DataType::kQ8_0; }},
       {"rotary.base 1", [](auto& d) { d.rotary.base = 1; }},
       {"rotary.base nan", [](auto& d) { d.rotary.base = kNan; }},
       {"rotary.position_scale 0", [](auto& d) { d.rotary.position_scale = 0; }},
       {"rotary.position_scale 1.5", [](auto& d) { d.rotary.position_scale = 1.5; }},
       {"rotary.magnitude nan", [](auto& d) { d.rotary.magnitude = kNan; }}});
}

/// Frequencies as 64-bit fractions of a turn: the first is 1 / (2 pi), the ratio of neighbours is base^(-2 /
/// dims).
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
  rotary.base = std::nextafter(1.0, 2.0);  // the ratio of neighbours rounds to 1
  EXPECT_LT(value_of(detail::rotary_specialization(rotary), VKATTN_APPEND_SPEC_RATIOS), 1.0 + 1e-15);
  rotary.has_frequencies = true;
  EXPECT_EQ(detail::rotary_specialization(rotary).size(), 5U);
  EXPECT_TRUE(detail::rotary_specialization({}).empty());
}

TEST(CacheReference, QuarterTurns) {
  const std::array<float, 4> row{1, 2, 3, 4};
  const std::array<float, 2> frequencies{static_cast<float>(std::numbers::pi / 2), 0};
  for (const auto& [style, expected] : {std::pair{RotaryStyle::kInterleaved, std::array{-2, 1, 3, 4}},
                                        {RotaryStyle::kHalfSplit, {-3, 2, 1, 4}}}) {
    RotaryDesc rotary{style, 4};
    rotary.has_frequencies = true;
    const auto turned = rotated(row, rotary, frequencies, 1);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(turned[i], expected[i], 1e-6);
  }
}

}  // namespace
}  // namespace vkattn::tests
