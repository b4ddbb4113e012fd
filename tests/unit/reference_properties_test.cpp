// Properties of the reference: features compared with each other, layouts and storage types, and its
// tolerances.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
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

/// Checks that each row has the same numbers in two problems, and that there are some.
void expect_same_rows(const HostProblem& one, const HostProblem& other) {
  int rows = 0;
  for_each_row(other, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const Row a = one.row(b, h, i), row = other.row(b, h, i);
    ASSERT_EQ(a.visible_keys, row.visible_keys);
    ASSERT_EQ(a.output, row.output);
    ASSERT_EQ(a.lse, row.lse);
    ASSERT_EQ(a.value_magnitude, row.value_magnitude);
    for (const double element : row.output) ASSERT_TRUE(std::isfinite(element));
    ++rows;
  });
  EXPECT_GT(rows, 0);
}

/// The same problem in two memory layouts. Spare memory is NaN.
TEST(TwoLayouts, GiveTheSameRows) {
  for (const auto& [problem, layout] :
       {std::pair{"b2 hq4 hkv2 3x37 d8 causal align=bottom-right", "page=8"},
        {"b3 h2 2x11 d4 kv_lengths=11,0,5", "page=1"},
        {"b2 3x5 d4", "page=64"},
        {"b2 h2 3x20 d8 dv4 f16", "page=4 layout=bshd pad=3"},
        {"b2 h2 3x20 d32 cache=q8_0 mask=bits:bqk", "page=16"},
        {"b2 h2 3x20 d8 cache=e4m3", "page=5"},
        {"b2 3x20 d4 kv_lengths=20,7", "ring=32"},
        // The window ends before the oldest key in the ring.
        {"b3 h2 4x50 d8 kv_lengths=50,9,33 causal window=5,-1 align=bottom-right", "ring=9"},
        {"b3 hq4 hkv2 9x12 d8 query_lengths=9,0,4 kv_lengths=3,7,12", "sequences"},
        {"b2 h2 9x9 d8 query_lengths=5,9 kv_lengths=9,8 causal alibi align=bottom-right", "sequences"},
        {"b2 h2 9x40 d8 query_lengths=5,9 kv_lengths=40,8 mask=f32:bhqk dropout=0.3",
         "sequences layout=bshd"},
        {"b3 hq4 hkv2 9x12 d8 query_lengths=9,0,4 kv_lengths=3,7,12 causal", "sequences=queries"},
        {"b2 h2 9x40 d8 query_lengths=5,9 kv_lengths=40,8 alibi align=bottom-right",
         "sequences=queries page=8 layout=bshd"},
        {"b2 h2 4x50 d8 query_lengths=3,4 kv_lengths=50,9 window=5,0 align=bottom-right",
         "sequences=queries ring=9"}}) {
    const std::string other = std::string(problem) + " " + layout;
    SCOPED_TRACE(other);
    expect_same_rows(HostProblem(problem), HostProblem(other));
  }
}

/// A sequence longer than the maximum is cut off. The next sequence still begins at its own place.
TEST(TwoLayouts, LongSequencesAreCutOff) {
  expect_same_rows(HostProblem("b2 4x6 d4 query_lengths=4,3 kv_lengths=6,5"),
                   HostProblem("b2 4x6 d4 sequences query_lengths=6,3 kv_lengths=9,5"));
}

/// A mask that repeats along dimensions equals the same mask written out in full.
TEST(Mask, RepeatsAlongDimensionsOfStrideZero) {
  for (const char* dims : {"b", "h", "q", "k", "bk", "hq", "bhqk"}) {
    SCOPED_TRACE(dims);
    const HostProblem repeated(std::string("b2 hq4 hkv2 3x5 d4 mask=f32:") + dims);
    HostProblem whole("b2 hq4 hkv2 3x5 d4 mask=f32:bhqk");
    const Strides& s = *repeated.problem.desc.mask.strides;
    const std::vector<float> from = numbers<float>(repeated.mask);
    std::int64_t at = 0;
    for_each_row(whole, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      for (std::int64_t j = 0; j < 5; ++j, ++at) {
        put(whole.mask, static_cast<std::size_t>(at),
            from[static_cast<std::size_t>(b * s.batch + h * s.head + i * s.row + j * s.dim)]);
      }
    });
    expect_same_rows(repeated, whole);
  }
}

/// Query head h reads head h % n of a mask of n heads.
TEST(Mask, HeadsAreTakenInTurn) {
  for (const std::int64_t heads : {2, 3, 1}) {
    const HostProblem few("b2 hq6 hkv3 3x5 d4 mask=f32:bh" + std::to_string(heads) + "qk");
    HostProblem whole("b2 hq6 hkv3 3x5 d4 mask=f32:bhqk");
    const std::vector<float> from = numbers<float>(few.mask);
    EXPECT_EQ(from.size(), static_cast<std::size_t>(2 * heads * 3 * 5));
    std::size_t at = 0;
    for_each_row(whole, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      for (std::int64_t j = 0; j < 5; ++j, ++at) {
        const std::int64_t row = (b * heads + h % heads) * 3 + i;
        put(whole.mask, at, from[static_cast<std::size_t>(row * 5 + j)]);
      }
    });
    expect_same_rows(few, whole);
  }
}

TEST(Mask, BitsAreBytesInFewerBytes) {
  for (const auto& [dims, words] : {std::pair{"hqk", 3U * 5 * 3}, {"bq", 2U * 5}, {"", 1U}}) {
    const std::string rest = std::string(":") + dims + " hidden=0.5";
    const HostProblem bits("b2 h3 5x70 d4 mask=bits" + rest);
    EXPECT_EQ(bits.mask.size(), words * 4);
    expect_same_rows(bits, HostProblem("b2 h3 5x70 d4 mask=bytes" + rest));
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

/// Whatever numbers the device's buffers hold, nothing outside of the tensors is read, which the address
/// sanitizer checks. Every row has a number.
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
  // Page 0 and the last page take their places.
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
  // Queries: from 0 to 4; from 4 back to 2, which gives none; from 2 on, at most 6; from the end back, none.
  const std::int64_t queries[] = {4, 0, 6, 0};
  // Keys: all, at most 6; from the end back, none; none; the last one.
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

/// The bytes of one block are written by hand.
TEST(Quantised, BlocksAreDecodedElementByElement) {
  HostProblem host("1x1 d32 scale=1 key=q8_0 value=q4_0");
  ASSERT_EQ(host.key.size(), 34U);
  ASSERT_EQ(host.value.size(), 18U);
  put(host.key, 0, float_to_half(0.5F));
  put(host.value, 0, float_to_half(-0.25F));
  for (std::size_t i = 0; i < 32; ++i)
    put(host.key, 2 + i, static_cast<std::uint8_t>(i * 4 - 64));  // -64 to 60
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
  row.weight_flushed = {0.0, 0.0};
  row.score_magnitude = 3.0;
  for (const WeightsStage stage : {WeightsStage::kScores, WeightsStage::kSoftcap, WeightsStage::kMasked}) {
    desc.weights = stage;
    desc.softcap = 0;
    EXPECT_DOUBLE_EQ(reference::weight_tolerance(desc, row, 0), (16 + 4) * 0x1p-24 * 3.0);
    EXPECT_DOUBLE_EQ(reference::weight_tolerance(desc, row, 1), (16 + 4) * 0x1p-24 * 0.25);
    desc.softcap = 30;
    EXPECT_DOUBLE_EQ(reference::weight_tolerance(desc, row, 0), (16 + 8 + 4) * 0x1p-24 * 3.0);
  }
  desc.softcap = 0;
  desc.weights = WeightsStage::kProbabilities;
  EXPECT_DOUBLE_EQ(reference::weight_tolerance(desc, row, 1),
                   ((16 + 8) * 4.0 + (16 + 4) * 3.0) * 0x1p-24 * 0.5 + 0x1p-24);
}

}  // namespace
}  // namespace vkattn::tests
