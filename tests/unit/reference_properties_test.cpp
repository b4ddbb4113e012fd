// Properties of the oracle that tie one feature to another, layouts and storage types, and its tolerances.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "reference/reference.hpp"
#include "support/host_problem.hpp"
#include "support/problem_text.hpp"

namespace vkattn::tests {
namespace {

using reference::Inputs;
using reference::Row;

/// Rows that have to be the same in two problems.
void expect_equal(const Row& a, const Row& b) {
  ASSERT_EQ(a.visible_keys, b.visible_keys);
  ASSERT_EQ(a.output, b.output);
  ASSERT_EQ(a.lse, b.lse);
  ASSERT_EQ(a.value_magnitude, b.value_magnitude);
}

struct Pair {
  const char* name;
  const char* one;
  const char* other;
};

void PrintTo(const Pair& pair, std::ostream* out) {
  *out << pair.one << " and " << pair.other;
}

/// The same problem in two memory layouts, whose spare memory is NaN.
class TwoLayouts : public testing::TestWithParam<Pair> {};

TEST_P(TwoLayouts, GiveTheSameRows) {
  const HostProblem one(GetParam().one);
  const HostProblem other(GetParam().other);
  int rows = 0;
  for_each_row(other, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const Row row = other.row(b, h, i);
    expect_equal(one.row(b, h, i), row);
    for (const double element : row.output) ASSERT_TRUE(std::isfinite(element));
    ++rows;
  });
  EXPECT_GT(rows, 0);
}

std::string pair_name(const testing::TestParamInfo<Pair>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    Caches, TwoLayouts,
    testing::Values(
        Pair{"Paged", "b2 hq4 hkv2 3x37 d8 causal align=bottom-right",
             "b2 hq4 hkv2 3x37 d8 causal align=bottom-right page=8"},
        Pair{"PagedByOne", "b3 h2 2x11 d4 kv_lengths=11,0,5", "b3 h2 2x11 d4 kv_lengths=11,0,5 page=1"},
        Pair{"PagedBeyondItsLength", "b2 3x5 d4", "b2 3x5 d4 page=64"},
        Pair{"PagedLayout", "b2 h2 3x20 d8 dv4 f16", "b2 h2 3x20 d8 dv4 f16 page=4 layout=bshd pad=3"},
        Pair{"PagedBlocks", "b2 h2 3x20 d32 cache=q8_0 mask=bits:bqk",
             "b2 h2 3x20 d32 cache=q8_0 mask=bits:bqk page=16"},
        Pair{"PagedE4m3", "b2 h2 3x20 d8 cache=e4m3", "b2 h2 3x20 d8 cache=e4m3 page=5"},
        Pair{"WideRing", "b2 3x20 d4 kv_lengths=20,7", "b2 3x20 d4 kv_lengths=20,7 ring=32"},
        // The window ends before the oldest key that the ring has.
        Pair{"Ring", "b3 h2 4x50 d8 kv_lengths=50,9,33 causal window=5,-1 align=bottom-right",
             "b3 h2 4x50 d8 kv_lengths=50,9,33 causal window=5,-1 align=bottom-right ring=9"}),
    pair_name);

INSTANTIATE_TEST_SUITE_P(
    Sequences, TwoLayouts,
    testing::Values(
        Pair{"Packed", "b3 hq4 hkv2 9x12 d8 query_lengths=9,0,4 kv_lengths=3,7,12",
             "b3 hq4 hkv2 9x12 d8 sequences query_lengths=9,0,4 kv_lengths=3,7,12"},
        Pair{"PackedCausal", "b2 h2 9x9 d8 query_lengths=5,9 kv_lengths=9,8 causal alibi align=bottom-right",
             "b2 h2 9x9 d8 sequences query_lengths=5,9 kv_lengths=9,8 causal alibi align=bottom-right"},
        Pair{"PackedMask", "b2 h2 9x40 d8 query_lengths=5,9 kv_lengths=40,8 mask=f32:bhqk dropout=0.3",
             "b2 h2 9x40 d8 sequences query_lengths=5,9 kv_lengths=40,8 mask=f32:bhqk dropout=0.3 "
             "layout=bshd"},
        Pair{"QueriesAlone", "b3 hq4 hkv2 9x12 d8 query_lengths=9,0,4 kv_lengths=3,7,12 causal",
             "b3 hq4 hkv2 9x12 d8 sequences=queries query_lengths=9,0,4 kv_lengths=3,7,12 causal"},
        Pair{"QueriesAndPages", "b2 h2 9x40 d8 query_lengths=5,9 kv_lengths=40,8 alibi align=bottom-right",
             "b2 h2 9x40 d8 sequences=queries query_lengths=5,9 kv_lengths=40,8 alibi align=bottom-right "
             "page=8 layout=bshd"},
        Pair{"QueriesAndRing",
             "b2 h2 4x50 d8 query_lengths=3,4 kv_lengths=50,9 window=5,0 align=bottom-right",
             "b2 h2 4x50 d8 sequences=queries query_lengths=3,4 kv_lengths=50,9 window=5,0 "
             "align=bottom-right ring=9"},
        // A sequence that is longer than the longest is cut off; the next begins where it began.
        Pair{"CutOff", "b2 4x6 d4 query_lengths=4,3 kv_lengths=6,5",
             "b2 4x6 d4 sequences query_lengths=6,3 kv_lengths=9,5"}),
    pair_name);

/// A window is the same as the boolean mask that says it.
TEST(Window, EqualsAMask) {
  for (const char* align : {"align=top-left", "align=bottom-right", "align=-2", "align=7"}) {
    for (const auto& [left, right] : {std::pair{-1, 2}, {3, -1}, {0, 0}, {4, 1}, {100, 100}}) {
      const std::string base = "b2 h2 9x13 d4 kv_lengths=13,6";
      const HostProblem windowed(base + " window=" + std::to_string(left) + "," + std::to_string(right) +
                                 " " + align);
      const AttentionDesc& desc = windowed.problem.desc;
      HostProblem masked(base + " mask=bytes:bqk");
      for_each_row(masked, [&, left = left, right = right](std::int64_t b, std::int64_t h, std::int64_t i) {
        const std::int64_t length = windowed.problem.kv_lengths[static_cast<std::size_t>(b)];
        const std::int64_t offset = desc.align == Align::kOffset        ? desc.offset
                                    : desc.align == Align::kBottomRight ? length - 9
                                                                        : 0;
        for (std::int64_t j = 0; j < 13; ++j) {
          const bool seen = (left < 0 || j >= i + offset - left) && (right < 0 || j <= i + offset + right);
          masked.mask[static_cast<std::size_t>((b * 9 + i) * 13 + j)] = static_cast<std::byte>(seen ? 1 : 0);
        }
        expect_equal(windowed.row(b, h, i), masked.row(b, h, i));
      });
    }
  }
}

/// Each mask that repeats along dimensions equals the one that is written out.
TEST(Mask, RepeatsAlongDimensionsOfStrideZero) {
  for (const char* dims : {"b", "h", "q", "k", "bk", "hq", "bhqk"}) {
    const HostProblem repeated(std::string("b2 hq4 hkv2 3x5 d4 mask=f32:") + dims);
    HostProblem whole("b2 hq4 hkv2 3x5 d4 mask=f32:bhqk");
    const Strides& s = *repeated.problem.desc.mask.strides;
    const std::vector<float> from = numbers<float>(repeated.mask);
    std::size_t at = 0;
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t h = 0; h < 4; ++h) {
        for (std::int64_t i = 0; i < 3; ++i) {
          for (std::int64_t j = 0; j < 5; ++j, ++at) {
            put(whole.mask, at,
                from[static_cast<std::size_t>(b * s.batch + h * s.head + i * s.row + j * s.dim)]);
          }
        }
      }
    }
    for_each_row(whole, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      expect_equal(repeated.row(b, h, i), whole.row(b, h, i));
    });
  }
}

TEST(Mask, BitsAreBytesInFewerBytes) {
  for (const auto& [dims, words] :
       {std::pair{"hqk", 3U * 5 * 3}, std::pair{"bq", 2U * 5}, std::pair{"", 1U}}) {
    const std::string rest = std::string(":") + dims + " hidden=0.5";
    const HostProblem bits("b2 h3 5x70 d4 mask=bits" + rest);
    const HostProblem bytes("b2 h3 5x70 d4 mask=bytes" + rest);
    EXPECT_EQ(bits.mask.size(), words * 4);
    for_each_row(bits, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      expect_equal(bits.row(b, h, i), bytes.row(b, h, i));
    });
  }
}

TEST(QueryLengths, RowsBeyondAreNotWritten) {
  const HostProblem host("b4 5x9 d4 query_lengths=0,5,-3,2 causal align=bottom-right");
  const auto written = [&](std::int64_t b, std::int64_t i) {
    return reference::is_written(host.problem.desc, host.inputs(), {b, 0, i});
  };
  const std::int64_t lengths[] = {0, 5, 0, 2};
  for (std::int64_t b = 0; b < 4; ++b) {
    for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(written(b, i), i < lengths[b]) << b << " " << i;
  }
  EXPECT_EQ(host.row(3, 0, 1).visible_keys, 9) << "its last query is at the last key";
  EXPECT_EQ(host.row(3, 0, 0).visible_keys, 8);
  EXPECT_EQ(host.row(1, 0, 0).visible_keys, 5);
}

/// Whatever numbers lie in the device's buffers, nothing outside of the tensors is read: the address
/// sanitizer watches, and every row has a number.
TEST(Garbage, LengthsAreClamped) {
  const std::vector<std::int32_t> wild{-2147483648, 2147483647, -1, 12345678};
  HostProblem lengths("b4 5x9 d4 query_lengths=5,5,5,5 kv_lengths=9,9,9,9");
  lengths.small.query_lengths = {2147483647, 6, 2147483647, 5};
  lengths.small.kv_lengths = wild;
  const std::int64_t expected[] = {0, 9, 0, 9};
  for_each_row(lengths, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    ASSERT_EQ(lengths.row(b, h, i).visible_keys, expected[b]);
  });
}

TEST(Garbage, PageNumbersAreClamped) {
  HostProblem paged("b2 3x40 d4 page=16");
  for (std::size_t i = 0; i < paged.small.page_table.size(); ++i) {
    paged.small.page_table[i] = i % 2 == 0 ? -2147483647 : 2147483647;
  }
  // Page 0 and the last one stand in.
  HostProblem clamped("b2 3x40 d4 page=16");
  clamped.small.page_table = {0, 8, 0, 8, 0, 8};
  for_each_row(paged, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    ASSERT_EQ(paged.row(b, h, i).visible_keys, clamped.row(b, h, i).visible_keys);
    ASSERT_EQ(paged.row(b, h, i).visible_keys, 40);
  });
}

TEST(Garbage, CumulativeLengthsAreClamped) {
  HostProblem packed("b4 6x6 d4 sequences query_lengths=3,3,3,3 kv_lengths=3,3,3,3");
  packed.small.cumulative_query_lengths = {-5, 4, 2, 2147483647, -2147483648};
  packed.small.cumulative_kv_lengths = {-2147483648, 2147483647, 11, 11, 12};
  const AttentionDesc& desc = packed.problem.desc;
  const Inputs inputs = packed.inputs();
  // Queries: from 0 to 4; from 4 back to 2, none; from 2 on, 6 at most; from the end back, none.
  const std::int64_t queries[] = {4, 0, 6, 0};
  // Keys: all, 6 at most; from the end back, none; none; the last one.
  const std::int64_t keys[] = {6, 0, 0, 1};
  for (std::int64_t b = 0; b < 4; ++b) {
    EXPECT_EQ(reference::query_length(desc, inputs, b), queries[b]) << b;
    EXPECT_EQ(reference::key_length(desc, inputs, b), keys[b]) << b;
  }
  EXPECT_EQ(reference::stored_row(desc, inputs, {2, 0, 5}).query, 7);
  for_each_row(packed, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    ASSERT_EQ(packed.row(b, h, i).visible_keys, keys[b]);
  });
}

TEST(Dropout, KeepsTheExpectedShareAndTheMean) {
  // Equal scores and values of 1: a row's output is the share that is kept, divided by 1 - dropout.
  HostProblem host("b2 h4 64x256 d4 dv1 data=equal dropout=0.17 dropout_seed=77");
  put(host.value, std::vector<float>(2 * 4 * 256, 1.0F));
  double mean = 0;
  int rows = 0;
  for_each_row(host, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    mean += host.row(b, h, i).output[0];
    ++rows;
  });
  const double draws = 256.0 * rows;
  EXPECT_NEAR(mean / rows, 1, 4 * std::sqrt(0.17 / 0.83 / draws));
}

/// The bytes of one block, by hand.
TEST(Quantised, BlocksAreDecodedElementByElement) {
  HostProblem host("1x1 d32 scale=1 key=q8_0 value=q4_0");
  ASSERT_EQ(host.key.size(), 34U);
  ASSERT_EQ(host.value.size(), 18U);
  put(host.key, 0, float_to_half(0.5F));
  put(host.value, 0, float_to_half(-0.25F));
  for (std::size_t i = 0; i < 32; ++i)
    put(host.key, 2 + i, static_cast<std::uint8_t>(i * 4 - 64));  // -64 … 60
  for (std::size_t i = 0; i < 16; ++i) put(host.value, 2 + i, static_cast<std::uint8_t>(i | (15 - i) << 4U));
  for (std::size_t i = 0; i < 32; ++i) {
    put(host.query, std::vector<float>(32, 0.0F));
    put(host.query, i, 1.0F);
    const Row row = host.row(0, 0, 0);
    EXPECT_EQ(row.lse, 0.5 * (static_cast<double>(i) * 4 - 64)) << i;
    const double nibble = i < 16 ? static_cast<double>(i) : 15 - static_cast<double>(i - 16);
    EXPECT_EQ(row.output[i], -0.25 * (nibble - 8)) << i;
  }
}

TEST(Quantised, E4m3IsTimesTheScaleOfItsHead) {
  HostProblem host("hq4 hkv2 1x1 d1 scale=1 cache=e4m3");
  put(host.query, std::vector<float>(4, 1.0F));
  put<std::uint8_t>(host.key, {0x38, 0xc4});    // 1 and -3
  put<std::uint8_t>(host.value, {0x7e, 0x01});  // 448 and 2^-9
  host.small.key_scales = {2, 5};
  host.small.value_scales = {0.5F, 512};
  EXPECT_EQ(host.row(0, 1, 0).lse, 2);
  EXPECT_EQ(host.row(0, 1, 0).output[0], 224);
  EXPECT_EQ(host.row(0, 2, 0).lse, -15);
  EXPECT_EQ(host.row(0, 2, 0).output[0], 1);
}

TEST(Tolerance, OfWeightsGrowsWithWhatTheyAreMadeOf) {
  AttentionDesc desc = parsed("1x64 d16 weights=masked").desc;
  Row row;
  row.weights = {0.0, 0.5};
  row.weight_magnitudes = {3.0, 0.25};
  row.score_magnitude = 3.0;
  EXPECT_DOUBLE_EQ(reference::weight_tolerance(desc, row, 0), (16 + 4) * 0x1p-24 * 3.0);
  EXPECT_DOUBLE_EQ(reference::weight_tolerance(desc, row, 1), (16 + 4) * 0x1p-24 * 0.25);
  desc.softcap = 30;
  EXPECT_DOUBLE_EQ(reference::weight_tolerance(desc, row, 0), (16 + 8 + 4) * 0x1p-24 * 3.0);
  desc.softcap = 0;
  desc.weights = WeightsStage::kProbabilities;
  EXPECT_DOUBLE_EQ(reference::weight_tolerance(desc, row, 1),
                   ((16 + 8) * 4.0 + (16 + 4) * 3.0) * 0x1p-24 * 0.5 + 0x1p-24);
}

/// Probabilities and weighted sums of every stage in float32, which has to keep within the tolerances.
TEST(Tolerance, CoversFloat32Arithmetic) {
  for (const char* text :
       {"h2 5x200 d64 softcap=5 weights=softcap", "h2 5x200 d64 weights=scores magnitude=10",
        "h2 5x200 d64 softcap=0.5 magnitude=0.001 weights=softcap"}) {
    const HostProblem host(text);
    const AttentionDesc& desc = host.problem.desc;
    const std::vector<float> query = numbers<float>(host.query), key = numbers<float>(host.key);
    for_each_row(host, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      const Row row = host.row(b, h, i);
      for (std::int64_t j = 0; j < desc.kv_length; ++j) {
        float sum = 0;
        for (std::int64_t d = 0; d < desc.head_dim; ++d) {
          sum += query[static_cast<std::size_t>((h * desc.query_length + i) * desc.head_dim + d)] *
                 key[static_cast<std::size_t>((h * desc.kv_length + j) * desc.head_dim + d)];
        }
        sum *= desc.effective_scale();
        if (desc.softcap > 0) {
          // 4 units in the last place too much.
          const float tanh = std::tanh(sum / desc.softcap);
          sum = desc.softcap * std::bit_cast<float>(std::bit_cast<std::uint32_t>(tanh) + 4);
        }
        const auto expected = row.weights[static_cast<std::size_t>(j)];
        ASSERT_LE(std::abs(static_cast<double>(sum) - expected), reference::weight_tolerance(desc, row, j));
        ASSERT_GT(std::abs(expected) + 1e-3 * row.weight_magnitudes[static_cast<std::size_t>(j)],
                  reference::weight_tolerance(desc, row, j))
            << "a score of 0 has to fail unless it is one";
      }
    });
  }
}

}  // namespace
}  // namespace vkattn::tests
