// Rotary embedding of queries and keys on their way.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "gpu/cache_run.hpp"
#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

constexpr std::array kStyles{RotaryStyle::kInterleaved, RotaryStyle::kHalfSplit};

/// Batch 2, 4 query heads on 2 KV heads, 6 new rows.
AppendCase rotary_case(RotaryStyle style, std::int64_t head_dim, std::int64_t rotary_dims,
                       DataType cache = DataType::kFloat32) {
  AppendCase test;
  AppendDesc& desc = test.desc;
  desc.batch = 2;
  desc.query_heads = 4;
  desc.kv_heads = 2;
  desc.new_length = 6;
  desc.head_dim = head_dim;
  desc.value_dim = 0;
  desc.cache_length = 20;
  desc.cache_key.type = cache;
  desc.rotary.style = style;
  desc.rotary.dims = rotary_dims;
  promise_alignment(desc, 0);
  test.key_scales = {0.5F, 0.03F};
  return test;
}

void use_positions(AppendCase& test, std::int32_t first, std::int32_t second) {
  test.desc.has_positions = true;
  test.positions = {first, second};
  // Only the last ones matter: a ring takes any position.
  test.desc.cache.mapping = KeyMapping::kRing;
  test.desc.cache.ring_length = 20;
}

using RotaryTest = AppendTest;

TEST_F(RotaryTest, WholeAndPartialHeads) {
  for (const RotaryStyle style : kStyles) {
    for (const auto& [head_dim, dims] :
         {std::pair{64, 64}, {40, 24}, {96, 32}, {10, 6}, {7, 2}, {576, 576}}) {
      AppendCase test = rotary_case(style, head_dim, dims);
      test.desc.position = 11;
      expect_right(test, std::to_string(dims) + " of " + std::to_string(head_dim));
      promise_alignment(test.desc, 16);
      if (head_dim % 4 == 0) expect_right(test, "aligned");
    }
  }
}

/// Position times frequency is right to a small part of a turn however many turns it is.
TEST_F(RotaryTest, FarPositions) {
  AppendReport report;
  double largest = 0;
  for (const RotaryStyle style : kStyles) {
    for (const double base : {10'000.0, 500'000.0, 1.5}) {
      AppendCase test = rotary_case(style, 128, 128);
      test.desc.rotary.base = base;
      for (const std::int32_t position : {0, 4'095, 131'065, 1 << 20, (1 << 24) - 6}) {
        use_positions(test, position, position / 3);
        expect_right(test, "base " + std::to_string(base) + ", position " + std::to_string(position),
                     &report);
        EXPECT_GT(report.rotated_elements, 0);
        largest = std::max(largest, report.largest_error);
      }
    }
  }
  RecordProperty("largest_error_log2", std::to_string(std::log2(largest)));
  EXPECT_LT(largest, 0x1p-20);
  EXPECT_GT(largest, 0x1p-26) << "float32 cannot be that good: the comparison has no force";
}

TEST_F(RotaryTest, NegativePositionsTurnQueriesTheOtherWay) {
  AppendCase test = rotary_case(RotaryStyle::kHalfSplit, 32, 32);
  use_positions(test, -1'000, -3);  // queries have no cache to be outside of
  expect_right(test, "negative");
}

TEST_F(RotaryTest, ScaledPositionsAndMagnitude) {
  for (const RotaryStyle style : kStyles) {
    AppendCase test = rotary_case(style, 64, 48);
    test.desc.rotary.position_scale = 0.125;
    test.desc.rotary.magnitude = 1.2079441F;
    use_positions(test, 100'003, 8);
    expect_right(test, "scaled");
  }
}

/// Each frequency is the very number in the buffer, from tiny to many turns for each position.
TEST_F(RotaryTest, GivenFrequencies) {
  for (const RotaryStyle style : kStyles) {
    AppendCase test = rotary_case(style, 64, 40);
    test.desc.rotary.has_frequencies = true;
    test.desc.rotary.base = -1;  // has no meaning here
    test.frequencies = {1.0F,    0.77F,    -0.3F,      1e-3F,        3.1415927F, 6.2831855F, 1e-6F,
                        0.0F,    1e-20F,   1e-44F,     1'048'575.9F, 12'345.67F, 1e-30F,     0.125F,
                        0x1p-9F, 0x1p-41F, 0x1.8p-73F, -2e-4F,       8.5F,       0x1p-23F};
    for (const std::int32_t position : {1, 131'065, 1 << 30}) {
      use_positions(test, position, 77);
      expect_right(test, "position " + std::to_string(position));
    }
    // What is no frequency turns nothing by any known angle, and harms nobody else.
    test.frequencies.assign(20, 1.0F);
    test.shift = 3;
    expect_right(test, "shifted");
  }
}

TEST_F(RotaryTest, IntoEveryStorageType) {
  constexpr std::array kSources{DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16};
  constexpr std::array kCaches{DataType::kFloat16, DataType::kBfloat16, DataType::kQ8_0, DataType::kQ4_0,
                               DataType::kFloat8E4m3};
  for (std::size_t i = 0; i < 2 * kCaches.size(); ++i) {
    const RotaryStyle style = kStyles[i % 2];
    const DataType source = kSources[i % 3];
    const DataType cache = kCaches[i / 2];
    // Partial heads: pairs end inside of four dims where they are neighbours.
    AppendCase test = rotary_case(style, 64, style == RotaryStyle::kInterleaved ? 46 : 40, cache);
    test.desc.query.type = test.desc.key.type = test.desc.query_output.type = source;
    test.desc.position = 9;
    expect_right(test, std::string(name(source)) + " to " + std::string(name(cache)));
  }
}

TEST_F(RotaryTest, QueriesInPlace) {
  for (const RotaryStyle style : kStyles) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
      for (const std::int64_t head_dim : {64, 15}) {
        AppendCase test = rotary_case(style, head_dim, head_dim / 2 / 2 * 2);
        test.desc.query.type = test.desc.query_output.type = type;
        test.desc.kv_heads = 0;
        test.desc.set_layout(Layout::kBshd);
        test.in_place = true;
        test.shift = head_dim == 15 ? 1 : 0;
        test.desc.new_lengths = Lengths::kPerEntry;
        test.new_lengths = {6, 2};
        use_positions(test, 5'000, 0);
        expect_right(test, name(type).data());
      }
    }
  }
}

TEST_F(RotaryTest, QueriesAlone) {
  AppendCase test = rotary_case(RotaryStyle::kInterleaved, 64, 64);
  test.desc.kv_heads = 0;
  test.desc.position = 3;
  test.desc.query_output.type = DataType::kBfloat16;
  expect_right(test, "no keys");
}

TEST_F(RotaryTest, IntoPagesAndRings) {
  for (const DataType cache : {DataType::kFloat16, DataType::kQ8_0}) {
    AppendCase test = rotary_case(RotaryStyle::kHalfSplit, 64, 64, cache);
    test.desc.cache = {KeyMapping::kPaged, 0, 4, 12, 5};
    test.page_table = {3, 7, 1, 0, 11, 2, 10, 4, 9, 5};
    test.desc.has_positions = true;
    test.positions = {2, 13};
    expect_right(test, "pages");
    use_positions(test, 19, 70'001);
    test.page_table.clear();
    expect_right(test, "ring");
  }
}

}  // namespace
}  // namespace vkattn::tests
