// The test data, the memory around them, and the rows that a run compares: moments, determinism, order of
// addresses, inputs of features, reports.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "harness/data.hpp"
#include "harness/problem_run.hpp"
#include "harness/row_map.hpp"
#include "harness/row_selection.hpp"
#include "harness/score_problem.hpp"
#include "harness/tensor_memory.hpp"
#include "problem/problem.hpp"
#include "support/cache_reference.hpp"
#include "support/host_problem.hpp"
#include "support/problem_text.hpp"
#include "support/text.hpp"

namespace vkattn::tests {
namespace {

using namespace harness;

std::vector<double> elements(const Problem& problem, TensorRole role) {
  TensorData data(problem, role);
  const TensorShape shape = role == TensorRole::kQuery ? query_shape(problem.desc) : key_shape(problem.desc);
  std::vector<double> values;
  AddressOrder(shape).for_each([&](std::int64_t, const Position& p) { values.push_back(data.element(p)); });
  return values;
}

/// The mean of (x - centre)^power.
double moment(const std::vector<double>& values, double centre, int power) {
  double sum = 0;
  for (const double value : values) sum += std::pow(value - centre, power);
  return sum / static_cast<double>(values.size());
}

TEST(Data, Moments) {
  const auto normal = elements(parsed("b2 h4 256x1 d64 magnitude=0.001"), TensorRole::kQuery);
  EXPECT_NEAR(moment(normal, 0, 1) / 1e-3, 0, 0.015);
  EXPECT_NEAR(moment(normal, 0, 2) / 1e-6, 1, 0.03);
  EXPECT_NEAR(moment(normal, 0, 3) / 1e-9, 0, 0.05);
  EXPECT_NEAR(moment(normal, 0, 4) / 1e-12, 3, 0.15);
  EXPECT_GT(*std::max_element(normal.begin(), normal.end()) / 1e-3, 3.5);
  EXPECT_LT(*std::min_element(normal.begin(), normal.end()) / 1e-3, -3.5);
  const auto uniform = elements(parsed("b2 h4 1x256 d64 data=uniform magnitude=10"), TensorRole::kKey);
  EXPECT_NEAR(moment(uniform, 0, 1), 5, 0.05);
  EXPECT_NEAR(moment(uniform, 5, 2), 100 / 12.0, 0.3);
  EXPECT_GE(*std::min_element(uniform.begin(), uniform.end()), 0);
  EXPECT_LT(*std::max_element(uniform.begin(), uniform.end()), 10);
  const Problem large = parsed("64x64 d64 magnitude=1000");
  const double query = std::sqrt(moment(elements(large, TensorRole::kQuery), 0, 2));
  EXPECT_NEAR(query, kLargestQueryMagnitude, 0.5) << "queries stay moderate";
  EXPECT_NEAR(std::sqrt(moment(elements(large, TensorRole::kKey), 0, 2)), 1000, 50);
}

TEST(Data, TheSameElementInAnyOrderAndLayout) {
  const Problem bhsd = parsed("b2 h3 5x7 d9 seed=4");
  const Problem other = parsed("b2 h3 5x7 d9 seed=4 f16 layout=bshd pad=3 shift=5");
  TensorData forward(bhsd, TensorRole::kQuery), backward(other, TensorRole::kQuery);
  const auto position = [](std::int64_t i) { return Position{i / 135, i / 45 % 3, i / 9 % 5, i % 9}; };
  std::vector<double> values;
  for (std::int64_t i = 0; i < 2 * 3 * 5 * 9; ++i) values.push_back(forward.element(position(i)));
  for (std::int64_t i = 2 * 3 * 5 * 9 - 1; i >= 0; --i) {
    EXPECT_EQ(backward.element(position(i)), values[static_cast<std::size_t>(i)]);
  }
}

/// These bits are fixed. They are the same on every machine and in every version, so that the seed in a
/// report stays useful.
TEST(Data, KnownBits) {
  EXPECT_EQ(random_bits(0, 0), 0x48218226ff3cd4bfU);
  EXPECT_EQ(random_bits(1, 2), 0x6e96dcf4fab47f5eU);
}

TEST(Data, TensorsAndSeedsDiffer) {
  std::set<double> values;
  for (const char* text : {"8x8 d8 seed=1", "8x8 d8 seed=2"}) {
    for (const TensorRole role : {TensorRole::kQuery, TensorRole::kKey, TensorRole::kValue}) {
      for (const double v : elements(parsed(text), role)) values.insert(v);
    }
  }
  EXPECT_EQ(values.size(), 6U * 64U);
}

TEST(Data, StoredIsRoundedAndInFloat16NeverSubnormalOrZero) {
  const Problem problem = parsed("4x4 d8 query=f32 key=f16 value=bf16");
  const Position at{0, 0, 3, 5};
  TensorData query(problem, TensorRole::kQuery), key(problem, TensorRole::kKey);
  TensorData value(problem, TensorRole::kValue);
  EXPECT_EQ(query.stored(at), std::bit_cast<std::uint32_t>(static_cast<float>(query.element(at))));
  EXPECT_EQ(key.stored(at), float_to_half(static_cast<float>(key.element(at))));
  EXPECT_EQ(value.stored(at), float_to_bfloat16(static_cast<float>(value.element(at))));
  const Problem tiny = parsed("64x1 d64 f16 magnitude=0.0001");
  TensorData data(tiny, TensorRole::kQuery);
  int least = 0;
  AddressOrder(query_shape(tiny.desc)).for_each([&](std::int64_t, const Position& p) {
    const std::uint32_t magnitude = data.stored(p) & 0x7fffU;
    ASSERT_TRUE(magnitude >= 0x0400U && magnitude < 0x7c00U) << magnitude;
    least += magnitude == 0x0400U ? 1 : 0;
  });
  EXPECT_GT(least, 100);
}

double score(TensorData& query, TensorData& key, const Problem& problem, std::int64_t head, std::int64_t i,
             std::int64_t j) {
  double sum = 0;
  const std::int64_t kv_head = head / (problem.desc.query_heads / problem.desc.kv_heads);
  for (std::int64_t d = 0; d < problem.desc.head_dim; ++d) {
    sum += query.element({0, head, i, d}) * key.element({0, kv_head, j, d});
  }
  return sum * static_cast<double>(problem.desc.effective_scale());
}

TEST(Data, DominantHasOneKeyAboveAllOthers) {
  for (const char* text : {"hq4 hkv2 6x50 d32 data=dominant", "hq4 hkv2 6x50 d64 scale=-0.2 data=dominant"}) {
    const Problem problem = parsed(text);
    TensorData query(problem, TensorRole::kQuery), key(problem, TensorRole::kKey);
    for (std::int64_t head = 0; head < 4; ++head) {
      std::set<std::int64_t> best;
      for (std::int64_t i = 0; i < 6; ++i) {
        std::vector<std::pair<double, std::int64_t>> scores;
        for (std::int64_t j = 0; j < 50; ++j) scores.emplace_back(score(query, key, problem, head, i, j), j);
        std::sort(scores.rbegin(), scores.rend());
        EXPECT_GT(scores[0].first, scores[1].first + 20) << text;
        best.insert(scores[0].second);
      }
      EXPECT_EQ(best.size(), 1U);
    }
  }
}

TEST(Data, EqualScoresAreEqual) {
  const Problem problem = parsed("2x5 d16 data=equal magnitude=0.1");
  TensorData query(problem, TensorRole::kQuery), key(problem, TensorRole::kKey);
  const double first = score(query, key, problem, 0, 0, 0);
  EXPECT_NEAR(first, 0.1 * 0.1 * 16 / 4, 1e-9);
  for (std::int64_t j = 0; j < 5; ++j) EXPECT_EQ(score(query, key, problem, 0, 1, j), first);
  TensorData value(problem, TensorRole::kValue);
  EXPECT_NE(value.element({0, 0, 0, 0}), value.element({0, 0, 1, 0}));
}

TEST(AddressOrder, VisitsEachElementOnceAndUpwards) {
  for (const char* text : {"b2 h3 4x4 d5", "b2 h3 4x4 d5 layout=bshd pad=2", "b2 h3 4x4 d5 layout=packed",
                           "1x1 d1", "b2 0x4 d5"}) {
    TensorShape shape = query_shape(parsed(text).desc);
    for (const bool transposed : {false, true}) {
      if (transposed) shape.desc.strides = {1000, 300, 1, 7};
      const Strides& s = *shape.desc.strides;
      std::int64_t last = -1, count = 0;
      EXPECT_TRUE(AddressOrder(shape).is_nested());
      AddressOrder(shape).for_each([&](std::int64_t offset, const Position& p) {
        EXPECT_EQ(offset, p.batch * s.batch + p.head * s.head + p.row * s.row + p.dim * s.dim);
        EXPECT_GT(offset, last);
        last = offset;
        ++count;
      });
      EXPECT_EQ(count, shape.batch * shape.heads * shape.rows * shape.dims) << text;
      EXPECT_EQ(4 * (last + 1), *shape.bytes());
    }
  }
}

TEST(AddressOrder, RepeatedElementsAreVisitedOnceAndOverlapIsSeen) {
  TensorShape shape = key_shape(parsed("b2 h3 4x4 d5").desc);
  shape.desc.strides->batch = 0;
  std::int64_t count = 0;
  AddressOrder(shape).for_each([&](std::int64_t, const Position&) { ++count; });
  EXPECT_EQ(count, 3 * 4 * 5);
  EXPECT_TRUE(AddressOrder(shape).is_nested());
  shape.desc.strides->row = 4;
  EXPECT_FALSE(AddressOrder(shape).is_nested());
}

TEST(Patterns, AreNanAndDiffer) {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    EXPECT_NE(output_poison(type), input_filler(type));
    for (const auto& pattern : {output_poison(type), input_filler(type)}) {
      std::uint32_t word = 0;
      std::memcpy(&word, pattern.data(), 4);
      const auto low = static_cast<std::uint16_t>(word);
      EXPECT_TRUE(std::isnan(decoded(type, type == DataType::kFloat32 ? word : low)));
      EXPECT_TRUE(type == DataType::kFloat32 || word >> 16U == low) << "elements may begin in either half";
    }
  }
}

TEST(RowSelection, AllRowsThatAreWritten) {
  const auto rows = select_rows(parsed("b2 h3 5x1 d4").desc, {}, {});
  ASSERT_EQ(rows.size(), 30U);
  EXPECT_EQ(rows[17].batch, 1);
  EXPECT_EQ(rows[17].head, 0);
  EXPECT_EQ(rows[17].query, 2);
  const HostProblem host("b5 h3 100x4 d1 query_lengths=0,100,1,17,0");
  EXPECT_EQ(select_rows(host.problem.desc, host.inputs(), {}).size(), 3U * 118);
  EXPECT_TRUE(select_rows(parsed("0x1 d4").desc, {}, {}).empty());
  const HostProblem none("b2 4x4 d1 query_lengths=0,-4");
  EXPECT_TRUE(select_rows(none.problem.desc, none.inputs(), {}).empty());
}

TEST(RowSelection, FirstLastEdgesAndRandomOnes) {
  for (const HostProblem& host :
       {HostProblem("b4 h8 100x1 d4"), HostProblem("b5 h8 100x4 d1 query_lengths=0,100,1,100,0")}) {
    const AttentionDesc& desc = host.problem.desc;
    for (const std::int64_t wanted : {1, 2, 7, 64, 800}) {
      const auto rows = select_rows(desc, host.inputs(), {wanted, 3});
      EXPECT_EQ(rows.size(), static_cast<std::size_t>(wanted));
      for (const auto& row : rows) EXPECT_TRUE(reference::is_written(desc, host.inputs(), row));
      EXPECT_EQ(rows.front().batch, desc.batch == 5 ? 1 : 0);
      EXPECT_EQ(rows.front().query, 0);
      if (wanted < 2) continue;
      EXPECT_EQ(rows.back().batch, 3);
      EXPECT_EQ(rows.back().head, 7);
      EXPECT_EQ(rows.back().query, 99);
    }
  }
  std::set<std::int64_t> positions, heads;
  for (const auto& row : select_rows(parsed("b4 h8 1000x1 d4").desc, {}, {64, 3})) {
    positions.insert(row.query);
    heads.insert(row.batch * 8 + row.head);
  }
  for (const std::int64_t edge : {15, 16, 17, 31, 32, 33, 63, 64, 65, 959, 960, 961, 991, 992, 993}) {
    EXPECT_TRUE(positions.contains(edge)) << edge;
  }
  EXPECT_GT(heads.size(), 20U);
}

/// tests/gpu/broken_test.cpp tests the rest: elements that were never written, and guards.
TEST(CheckReport, SaysWhatIsWrong) {
  CheckReport report;
  report.rows_checked = 4;
  report.elements_checked = 16;
  report.largest_share = 0.5;
  report.where = {1, 2, 3};
  report.where_index = 4;
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(report.nan_text(), "");
  EXPECT_TRUE(has(report.to_string(), "batch 1, head 2, query 3, dim 4"));
  report.where_output = CheckedOutput::kLse;
  EXPECT_TRUE(has(report.to_string(), "lse"));
  report.where_output = CheckedOutput::kWeights;
  EXPECT_TRUE(has(report.to_string(), "query 3, weight of key 4"));
  report.nan_expected.add({{3, 0, 0}, CheckedOutput::kLse, 0}, 40);
  report.nan_for_number.add({{1, 2, 3}, CheckedOutput::kOutput, 4}, 9);
  ElementCount other_thread;
  other_thread.add({{0, 2, 3}, CheckedOutput::kWeights, 5}, 7);
  other_thread.add({{0, 2, 3}, CheckedOutput::kWeights, 6}, 7);
  report.nan_for_number.add(other_thread);
  report.nan_for_number.add(ElementCount{});
  EXPECT_TRUE(has(report.to_string(),
                  "3 elements are NaN where the reference has a number, the first at batch 0, "
                  "head 2, query 3, weight of key 5; 1 element is NaN as in the reference, "
                  "the first at batch 3, head 0, query 0, lse"));
  report.largest_share = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(report.passed());
}

TEST(CheckReport, PrintsDigitsThatDiffer) {
  CheckReport report;
  report.expected = report.got = -0.832;
  EXPECT_EQ(report.values_text(3), "expected -0.832, got -0.832");
  report.got = -0.5;
  EXPECT_EQ(report.values_text(3), "expected -0.832, got -0.5");
  report.got = -0.83200001;
  EXPECT_EQ(report.values_text(3), "expected -0.832, got -0.83200001");
  report.expected = 0.1;
  report.got = std::nextafter(0.1, 1.0);
  EXPECT_EQ(report.values_text(3), "expected 0.10000000000000001, got 0.10000000000000002");
  report.got = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(report.values_text(3), "expected 0.1, got nan");
  report.expected = report.got;
  EXPECT_EQ(report.values_text(3), "expected nan, got nan");
}

/// The result of the problem's score function for a score of 1.
double scored(const Problem& problem, const reference::RowIndex& row, std::int64_t key) {
  std::array<double, 1> score{1.0};
  make_score(problem).hook(row, key, score);
  return score[0];
}

TEST(ScoreData, TablesHaveAnEntryForWhateverIsAsked) {
  for (const auto& [problem, size] : {std::pair{"b3 hq4 hkv2 9x50 d1 score=alibi", 4U},
                                      {"b3 hq4 hkv2 9x50 d1 score=prefix", 3U},
                                      {"b3 hq4 hkv2 9x50 d1 score=documents", 50U},
                                      {"b3 hq4 hkv2 90x50 d1 score=documents", 90U},
                                      {"1x0 d1 score=documents", 1U},
                                      {"b3 hq4 hkv2 9x50 d1 score=bias", 4U * 257U}}) {
    const ProblemScore score = make_score(parsed(problem));
    EXPECT_EQ(score.tables.at(0).size(), size) << problem;
    EXPECT_FALSE(score.source.empty());
    EXPECT_EQ(score_text(parsed(problem)).source, score.source);
  }
  EXPECT_TRUE(make_score(parsed("9x50 d1")).source.empty());
  // The text is made without tables. The table of this problem would have 2^30 entries.
  EXPECT_EQ(score_text(parsed("b3 h1 q1 kv1073741824 d1 score=documents")).name, "score=documents");
}

TEST(ScoreData, FunctionsAreWhatTheirNamesSay) {
  // The slopes of 4 heads are 1/4, 1/16 and so on.
  EXPECT_EQ(scored(parsed("h4 9x50 d1 score=alibi"), {0, 1, 5}, 21), 1.0 - 16.0 / 16.0);
  const Problem prefix = parsed("b2 30x50 d1 score=prefix");
  for (std::int64_t b = 0; b < 2; ++b) {
    const auto length = static_cast<std::int64_t>(make_score(prefix).tables[0][static_cast<std::size_t>(b)]);
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

TEST(MaskData, ZerosAreTheirShareOfWhatIsShown) {
  const auto count = [](const std::string& words) {
    const auto numbers_of = numbers<float>(HostProblem("h4 64x256 d1 mask=f32:hqk " + words).mask);
    const auto zeros = std::count(numbers_of.begin(), numbers_of.end(), 0.0F);
    return static_cast<double>(zeros) / static_cast<double>(numbers_of.size());
  };
  EXPECT_EQ(count("hidden=0.5"), 0);
  EXPECT_NEAR(count("hidden=0.5 zeros=0.25"), 0.25, 0.01);
  EXPECT_NEAR(count("hidden=0.3 zeros=1"), 0.7, 0.01);
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

/// The number of memory rows that hold a row of the problem.
std::int64_t rows_in_use(const HostProblem& host, TensorRole role) {
  const RowMap map(host.problem, host.small, role);
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
    // The spare page takes the place of a used page. Then every score is NaN.
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

/// Quantised data are the float32 data with the error of their storage.
TEST(Quantise, DataStayClose) {
  const HostProblem exact("h2 1x50 d64");
  const auto key = numbers<float>(exact.key);
  for (const auto& [text, error] : {std::pair{"h2 1x50 d64 cache=q8_0", 0.016},
                                    {"h2 1x50 d64 cache=q4_0", 0.3},
                                    {"h2 1x50 d64 cache=e4m3", 0.15}}) {
    HostProblem host(text);
    // Queries that select one element: the score is that element of the key.
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

}  // namespace
}  // namespace vkattn::tests
