// The test data of the features, what lies around them, and which rows a run has to write.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "harness/fill.hpp"
#include "harness/guard.hpp"
#include "harness/row_map.hpp"
#include "harness/row_selection.hpp"
#include "harness/score_problem.hpp"
#include "problem/problem.hpp"
#include "support/host_problem.hpp"
#include "support/problem_text.hpp"
#include "support/text.hpp"

namespace vkattn::tests {
namespace {

using harness::Position;
using harness::select_rows;
using harness::TensorRole;

/// What the problem's score function makes of a score of 1.
double scored(const Problem& problem, const reference::RowIndex& row, std::int64_t key) {
  std::array<double, 1> score{1.0};
  harness::make_score(problem).hook(row, key, score);
  return score[0];
}

TEST(ScoreData, TablesHaveAnEntryForWhateverIsAsked) {
  for (const auto& [problem, size] : {std::pair{"b3 hq4 hkv2 9x50 d1 score=alibi", 4U},
                                      {"b3 hq4 hkv2 9x50 d1 score=prefix", 3U},
                                      {"b3 hq4 hkv2 9x50 d1 score=documents", 50U},
                                      {"b3 hq4 hkv2 90x50 d1 score=documents", 90U},
                                      {"1x0 d1 score=documents", 1U},
                                      {"b3 hq4 hkv2 9x50 d1 score=bias", 4U * 257U}}) {
    const harness::ProblemScore score = harness::make_score(parsed(problem));
    EXPECT_EQ(score.tables.at(0).size(), size) << problem;
    EXPECT_FALSE(score.source.empty());
    EXPECT_EQ(harness::score_text(parsed(problem)).source, score.source);
  }
  EXPECT_TRUE(harness::make_score(parsed("9x50 d1")).source.empty());
  // The text is made without tables: this one's would have 2^30 entries.
  EXPECT_EQ(harness::score_text(parsed("b3 h1 q1 kv1073741824 d1 score=documents")).name, "score=documents");
}

TEST(ScoreData, FunctionsAreWhatTheirNamesSay) {
  // Slopes of 4 heads are 1/4, 1/16 and so on.
  EXPECT_EQ(scored(parsed("h4 9x50 d1 score=alibi"), {0, 1, 5}, 21), 1.0 - 16.0 / 16.0);
  const Problem prefix = parsed("b2 30x50 d1 score=prefix");
  for (std::int64_t b = 0; b < 2; ++b) {
    const auto length =
        static_cast<std::int64_t>(harness::make_score(prefix).tables[0][static_cast<std::size_t>(b)]);
    EXPECT_TRUE(length >= 1 && length <= 50);
    EXPECT_EQ(scored(prefix, {b, 0, 0}, length - 1), 1.0);
    EXPECT_EQ(scored(prefix, {b, 0, length - 1}, length), -INFINITY);
    EXPECT_EQ(scored(prefix, {b, 0, 29}, 29), 1.0);
  }
  const Problem documents = parsed("64x64 d1 score=documents");
  std::int64_t seen = 0;
  for (std::int64_t query = 0; query < 64; ++query) {
    EXPECT_EQ(scored(documents, {0, 0, query}, query), 1.0);
    for (std::int64_t key = 0; key < 64; ++key) {
      const bool visible = scored(documents, {0, 0, query}, key) == 1.0;
      EXPECT_EQ(visible, scored(documents, {0, 0, key}, query) == 1.0);
      seen += visible ? 1 : 0;
    }
  }
  EXPECT_TRUE(seen > 64 && seen < 64 * 32) << seen;
  const Problem bias = parsed("h2 300x300 d1 score=bias");
  EXPECT_EQ(scored(bias, {0, 1, 0}, 128), scored(bias, {0, 1, 0}, 299)) << "beyond 128 all the same";
  EXPECT_NE(scored(bias, {0, 1, 0}, 127), scored(bias, {0, 1, 0}, 128));
  EXPECT_EQ(scored(bias, {0, 1, 5}, 8), scored(bias, {0, 1, 105}, 108));
  EXPECT_NE(scored(bias, {0, 0, 5}, 8), scored(bias, {0, 1, 5}, 8));
}

TEST(MaskData, HidesItsShareWhateverItsStorage) {
  for (const double share : {0.0, 0.25, 0.75, 1.0}) {
    const std::string hidden = " hidden=" + std::to_string(share);
    const auto bytes = numbers<std::uint8_t>(HostProblem("h4 64x256 d1 mask=bytes:hqk" + hidden).mask);
    const auto zeros = static_cast<double>(std::count(bytes.begin(), bytes.end(), 0));
    EXPECT_NEAR(zeros / static_cast<double>(bytes.size()), share, 0.01);
    const auto floats = numbers<float>(HostProblem("h4 64x256 d1 mask=f32:hqk" + hidden).mask);
    double sum = 0, squares = 0;
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      ASSERT_EQ(bytes[n] == 0, std::isinf(floats[n]));
      ASSERT_TRUE(floats[n] < 10) << "-inf or N(0,1)";
      const auto number = bytes[n] == 0 ? 0.0 : static_cast<double>(floats[n]);
      sum += number;
      squares += number * number;
    }
    const double shown = std::max(static_cast<double>(bytes.size()) - zeros, 1.0);
    EXPECT_NEAR(sum / shown, 0, 0.03);
    EXPECT_NEAR(squares / shown, share < 1 ? 1 : 0, 0.03);
    if (share != 0.25) continue;
    const std::set<std::uint8_t> values(bytes.begin(), bytes.end());
    EXPECT_TRUE(values.contains(1) && values.contains(0x80) && values.contains(0xff))
        << "truth is not always 1";
  }
}

TEST(MaskData, BlocksAreHiddenWhole) {
  const auto bytes = numbers<std::uint8_t>(HostProblem("50x100 d1 mask=bytes hidden=0.5 block=16").mask);
  std::set<bool> seen;
  for (std::size_t i = 0; i < 50; ++i) {
    for (std::size_t j = 0; j < 100; ++j) {
      const bool hidden = bytes[i * 100 + j] == 0;
      EXPECT_EQ(hidden, bytes[i / 16 * 16 * 100 + j / 16 * 16] == 0);
      seen.insert(hidden);
    }
  }
  EXPECT_EQ(seen.size(), 2U);
}

TEST(MaskData, BitsBeyondTheLastKeyShow) {
  const auto words = numbers<std::uint32_t>(HostProblem("3x40 d1 mask=bits hidden=1").mask);
  EXPECT_EQ(words, (std::vector<std::uint32_t>{0, 0xffffff00U, 0, 0xffffff00U, 0, 0xffffff00U}));
}

TEST(SmallInputs, APageTableNamesNoPageTwice) {
  const HostProblem host("b3 1x100 d1 page=8");
  const auto& table = host.small.page_table;
  EXPECT_EQ(table.size(), 3U * 13);
  EXPECT_EQ(std::set<std::int32_t>(table.begin(), table.end()).size(), table.size());
  EXPECT_LT(*std::max_element(table.begin(), table.end()), host.problem.desc.cache.page_count);
  EXPECT_FALSE(std::is_sorted(table.begin(), table.end()));
}

TEST(SmallInputs, SlopesAndSinks) {
  HostProblem host("h64 1x1 d1 alibi=given sinks");
  const std::vector<float>& slopes = host.small.per_head[&AttentionTensors::alibi_slopes];
  ASSERT_EQ(slopes.size(), 64U);
  for (const float slope : slopes) EXPECT_TRUE(slope > 0 && slope < 1) << slope;
  const std::vector<float>& sinks = host.small.per_head[&AttentionTensors::sinks];
  EXPECT_EQ(std::set<float>(sinks.begin(), sinks.end()).size(), 64U);
  EXPECT_TRUE(HostProblem("h2 1x1 d1").small.per_head[&AttentionTensors::sinks].empty());
}

TEST(SmallInputs, CumulativeLengths) {
  using Lengths = std::vector<std::int32_t>;
  const HostProblem all("b3 9x9 d1 sequences query_lengths=9,0,4 kv_lengths=3,7,9");
  EXPECT_EQ(all.small.cumulative_query_lengths, (Lengths{0, 9, 9, 13}));
  EXPECT_EQ(all.small.cumulative_kv_lengths, (Lengths{0, 3, 10, 19}));
  EXPECT_TRUE(all.small.kv_lengths.empty());
  const HostProblem queries("b3 9x9 d1 sequences=queries query_lengths=9,0,4 kv_lengths=3,7,9 page=4");
  EXPECT_EQ(queries.small.cumulative_query_lengths, (Lengths{0, 9, 9, 13}));
  EXPECT_TRUE(queries.small.cumulative_kv_lengths.empty());
  EXPECT_EQ(queries.small.kv_lengths, (Lengths{3, 7, 9}));
  EXPECT_TRUE(queries.small.query_lengths.empty());
}

/// Rows of the memory that hold something of the problem.
std::int64_t rows_in_use(const HostProblem& host, TensorRole role) {
  const harness::RowMap map(host.problem, host.small, role);
  const TensorExtents extents =
      role == TensorRole::kQuery ? query_extents(host.problem.desc, 1) : key_extents(host.problem.desc, 1);
  std::int64_t count = 0;
  for (std::int64_t b = 0; b < extents.batch; ++b) {
    for (std::int64_t r = 0; r < extents.rows; ++r) count += map.at(b, r).has_value() ? 1 : 0;
  }
  return count;
}

TEST(RowMap, LeavesOutWhatHoldsNothing) {
  EXPECT_EQ(rows_in_use(HostProblem("b2 1x20 d1 page=8"), TensorRole::kKey), 40);
  EXPECT_EQ(rows_in_use(HostProblem("b3 1x20 d1 kv_lengths=20,3,0 ring=8"), TensorRole::kKey), 8 + 3);
  const HostProblem cut("b2 4x6 d1 sequences query_lengths=6,3 kv_lengths=9,5");
  EXPECT_EQ(rows_in_use(cut, TensorRole::kQuery), 4 + 3);
  EXPECT_EQ(rows_in_use(cut, TensorRole::kKey), 6 + 5);
  const HostProblem queries("b2 4x6 d1 sequences=queries query_lengths=6,3 kv_lengths=6,1 ring=5");
  EXPECT_EQ(rows_in_use(queries, TensorRole::kQuery), 4 + 3);
  EXPECT_EQ(rows_in_use(queries, TensorRole::kKey), 5 + 1);
}

TEST(RowMap, SpareMemoryIsNan) {
  for (const char* text : {"b2 1x20 d32 page=8", "b2 1x20 d32 page=8 f16", "b2 1x20 d32 page=8 cache=q8_0",
                           "b2 1x20 d32 page=8 cache=q4_0", "b2 1x20 d32 page=8 cache=e4m3"}) {
    HostProblem host(text);
    // The spare page in the place of a used one: every score is NaN then.
    std::int32_t spare = 0;
    while (std::count(host.small.page_table.begin(), host.small.page_table.end(), spare) != 0) ++spare;
    EXPECT_TRUE(std::isfinite(host.row(0, 0, 0).lse)) << text;
    host.small.page_table[0] = spare;
    EXPECT_TRUE(std::isnan(host.row(0, 0, 0).lse)) << text;
    EXPECT_TRUE(std::isfinite(host.row(1, 0, 0).lse)) << text;
  }
}

TEST(Quantise, E4m3UsesItsWholeRange) {
  const HostProblem host("b2 h2 1x30 d8 cache=e4m3 magnitude=1000");
  EXPECT_EQ(host.small.key_scales.size(), 2U);
  for (const std::size_t head : {0U, 1U}) {
    int largest = 0;
    for (std::size_t b = 0; b < 2; ++b) {
      for (std::size_t n = 0; n < 240; ++n) {
        const auto bits = static_cast<int>(host.key[(b * 2 + head) * 240 + n]) & 0x7f;
        ASSERT_LT(bits, 0x7f);
        largest = std::max(largest, bits);
      }
    }
    EXPECT_EQ(largest, 0x7e) << "448";
  }
}

/// Quantised data are those of float32, with the error of their storage.
TEST(Quantise, DataStayClose) {
  const HostProblem exact("h2 1x50 d64");
  const auto key = numbers<float>(exact.key);
  for (const auto& [text, error] : {std::pair{"h2 1x50 d64 cache=q8_0", 0.016},
                                    {"h2 1x50 d64 cache=q4_0", 0.3},
                                    {"h2 1x50 d64 cache=e4m3", 0.15}}) {
    HostProblem host(text);
    // Queries that pick one element: the score is the element of the key.
    host.problem.desc.scale = 1.0F;
    for (std::size_t d = 0; d < 64; d += 7) {
      std::vector<float> unit(2 * 64, 0.0F);
      unit[d] = unit[64 + d] = 1;
      put(host.query, unit);
      host.problem.desc.weights = WeightsStage::kScores;
      for (std::size_t h = 0; h < 2; ++h) {
        const auto row = host.row(0, static_cast<std::int64_t>(h), 0);
        for (std::size_t j = 0; j < 50; ++j) {
          ASSERT_NEAR(row.weights[j], static_cast<double>(key[(h * 50 + j) * 64 + d]), error) << text;
        }
      }
    }
  }
}

TEST(WrittenRows, ThoseOfQueryLengthsAndSequences) {
  const HostProblem lengths("b2 4x4 d1 query_lengths=3,0");
  const harness::WrittenRows rows(lengths.problem.desc, lengths.inputs());
  EXPECT_TRUE(rows.stored({0, 0, 2, 0}));
  EXPECT_FALSE(rows.stored({0, 0, 3, 0}));
  EXPECT_FALSE(rows.stored({1, 0, 0, 0}));
  EXPECT_FALSE(rows.weights({0, 0, 3, 0}));
  const HostProblem packed("b2 4x4 d1 sequences query_lengths=6,3 kv_lengths=4,4");
  const harness::WrittenRows sequences(packed.problem.desc, packed.inputs());
  const bool expected[9] = {true, true, true, true, false, false, true, true, true};
  for (std::int64_t r = 0; r < 9; ++r) EXPECT_EQ(sequences.stored({0, 0, r, 0}), expected[r]) << r;
  EXPECT_TRUE(sequences.weights({1, 0, 2, 0}));
  EXPECT_FALSE(sequences.weights({1, 0, 3, 0}));
}

TEST(Guards, RowsThatAreNotToBeWrittenKeepTheirPoison) {
  const HostProblem host("b2 h2 4x4 d8 query_lengths=3,1");
  const AttentionDesc& desc = host.problem.desc;
  const harness::TensorShape shape = harness::output_shape(desc);
  const harness::WrittenRows rows(desc, host.inputs());
  harness::ProblemRun::Tensor tensor;
  tensor.offset = 64;
  tensor.bytes = static_cast<VkDeviceSize>(*shape.bytes());
  std::vector<std::byte> bytes(64 + tensor.bytes + 64);
  const auto poison = harness::output_poison(DataType::kFloat32);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = poison[i % 4];
  const auto write = [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const Strides& s = *desc.output.strides;
    std::memset(bytes.data() + 64 + 4 * (b * s.batch + h * s.head + i * s.row), 0, 32);
  };
  const auto report = [&] {
    harness::CheckReport result;
    harness::check_guards(
        "output", shape, tensor, bytes, [&](const Position& position) { return rows.stored(position); },
        result);
    return result;
  };
  EXPECT_EQ(report().elements_unwritten, (3 + 1) * 2 * 8);
  for_each_row(host, write);
  EXPECT_EQ(report().elements_unwritten, 0);
  EXPECT_TRUE(report().guard_intact);
  write(1, 0, 1);
  EXPECT_FALSE(report().guard_intact);
  EXPECT_TRUE(has(report().guard_message, "32 bytes"));
  EXPECT_TRUE(has(report().guard_message, "not to be written"));
}

}  // namespace
}  // namespace vkattn::tests
