// Rotary embedding at far positions, with given frequencies, and of queries alone. cache_pairs_test.cpp
// combines it with everything else.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "gpu/cache_run.hpp"
#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

constexpr std::array kStyles{RotaryStyle::kInterleaved, RotaryStyle::kHalfSplit};

/// A head whose first dims are turned, also in the queries. A ring takes any position.
AppendCase rotary_case(RotaryStyle style, std::int64_t head_dim, std::int64_t rotary_dims) {
  AppendCase test = small_append();
  test.desc.query_heads = 2;
  test.desc.head_dim = head_dim;
  test.desc.value_dim = 0;
  test.desc.rotary.style = style;
  test.desc.rotary.dims = rotary_dims;
  use_ring(test, 20);
  return test;
}

using RotaryTest = AppendTest;

/// Position times frequency is accurate to a small part of a turn, however many turns it is.
TEST_F(RotaryTest, FarPositions) {
  AppendReport report;
  double largest = 0;
  for (const RotaryStyle style : kStyles) {
    for (const double base : {10'000.0, 500'000.0, 1.5}) {
      AppendCase test = rotary_case(style, 128, 128);
      test.desc.rotary.base = base;
      for (const std::int32_t position : {0, 4'095, 131'065, 1 << 20, (1 << 24) - 6}) {
        use_positions(test, {position, position / 3, 1});
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
  use_positions(test, {-1'000, -3, 2});  // queries have no cache that limits their positions
  expect_right(test, "negative");
}

TEST_F(RotaryTest, ScaledPositionsAndMagnitude) {
  for (const RotaryStyle style : kStyles) {
    AppendCase test = rotary_case(style, 64, 48);
    test.desc.rotary.position_scale = 0.125;
    test.desc.rotary.magnitude = 1.2079441F;
    use_positions(test, {100'003, 8, 1});
    expect_right(test, "scaled");
  }
}

/// Uses exactly the frequencies in the buffer, from tiny ones to many turns for each position.
TEST_F(RotaryTest, GivenFrequencies) {
  for (const RotaryStyle style : kStyles) {
    AppendCase test = rotary_case(style, 64, 40);
    test.desc.rotary.has_frequencies = true;
    test.desc.rotary.base = -1;  // it has no meaning here
    test.frequencies = {1.0F,    0.77F,    -0.3F,      1e-3F,        3.1415927F, 6.2831855F, 1e-6F,
                        0.0F,    1e-20F,   1e-44F,     1'048'575.9F, 12'345.67F, 1e-30F,     0.125F,
                        0x1p-9F, 0x1p-41F, 0x1.8p-73F, -2e-4F,       8.5F,       0x1p-23F};
    for (const std::int32_t position : {1, 131'065, 1 << 30}) {
      use_positions(test, {position, 77, 0});
      expect_right(test, "position " + std::to_string(position));
    }
    // A frequency that is not a number has no defined result, and must not affect other elements.
    test.frequencies.assign(20, 1.0F);
    test.shift = 3;
    expect_right(test, "shifted");
  }
}

TEST_F(RotaryTest, QueriesAlone) {
  AppendCase test = rotary_case(RotaryStyle::kInterleaved, 64, 64);
  test.desc.kv_heads = 0;
  test.desc.position = 3;
  test.desc.query_output.type = DataType::kBfloat16;
  expect_right(test, "no keys");
}

}  // namespace
}  // namespace vkattn::tests
