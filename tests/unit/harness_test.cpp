// The test data and the memory around it: moments, determinism, order of addresses, choice of rows.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "harness/data.hpp"
#include "harness/problem_run.hpp"
#include "harness/row_selection.hpp"
#include "harness/tensor_memory.hpp"
#include "problem/problem.hpp"

namespace {

using vkattn::DataType;
using vkattn::bench::parse_problem;
using vkattn::bench::Problem;
using vkattn::harness::AddressOrder;
using vkattn::harness::Position;
using vkattn::harness::RowSelection;
using vkattn::harness::select_rows;
using vkattn::harness::TensorData;
using vkattn::harness::TensorRole;
using vkattn::harness::TensorShape;

struct Moments {
  double mean = 0, deviation = 0, skew = 0, kurtosis = 0, least = 0, largest = 0;
};

Moments moments_of(const std::vector<double>& values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (const double v : values) m.mean += v / n;
  double m2 = 0, m3 = 0, m4 = 0;
  m.least = m.largest = values.front();
  for (const double v : values) {
    const double d = v - m.mean;
    m2 += d * d / n;
    m3 += d * d * d / n;
    m4 += d * d * d * d / n;
    m.least = std::min(m.least, v);
    m.largest = std::max(m.largest, v);
  }
  m.deviation = std::sqrt(m2);
  m.skew = m3 / (m2 * m.deviation);
  m.kurtosis = m4 / (m2 * m2);
  return m;
}

std::vector<double> elements(const Problem& problem, TensorRole role, const TensorShape& shape) {
  TensorData data(problem, role);
  std::vector<double> values;
  AddressOrder(shape).for_each([&](std::int64_t, const Position& p) { values.push_back(data.element(p)); });
  return values;
}

TEST(Data, NormalMoments) {
  const Problem problem = *parse_problem("b2 h4 256x1 d64 magnitude=0.001");
  const Moments m =
      moments_of(elements(problem, TensorRole::kQuery, vkattn::harness::query_shape(problem.desc)));
  EXPECT_NEAR(m.mean / 1e-3, 0, 0.015);
  EXPECT_NEAR(m.deviation / 1e-3, 1, 0.015);
  EXPECT_NEAR(m.skew, 0, 0.05);
  EXPECT_NEAR(m.kurtosis, 3, 0.1);
  EXPECT_GT(m.largest / 1e-3, 3.5);
  EXPECT_LT(m.least / 1e-3, -3.5);
}

TEST(Data, UniformMoments) {
  const Problem problem = *parse_problem("b2 h4 1x256 d64 data=uniform magnitude=10");
  const Moments m = moments_of(elements(problem, TensorRole::kKey, vkattn::harness::key_shape(problem.desc)));
  EXPECT_NEAR(m.mean, 5, 0.05);
  EXPECT_NEAR(m.deviation, 10 / std::sqrt(12.0), 0.05);
  EXPECT_GE(m.least, 0);
  EXPECT_LT(m.largest, 10);
}

TEST(Data, TheSameElementInAnyOrderAndLayout) {
  const Problem bhsd = *parse_problem("b2 h3 5x7 d9 seed=4");
  const Problem other = *parse_problem("b2 h3 5x7 d9 seed=4 f16 layout=bshd pad=3 shift=5");
  TensorData forward(bhsd, TensorRole::kQuery);
  TensorData backward(other, TensorRole::kQuery);
  std::vector<double> values;
  for (std::int64_t i = 0; i < 2 * 3 * 5 * 9; ++i) {
    values.push_back(forward.element({i / 135, i / 45 % 3, i / 9 % 5, i % 9}));
  }
  for (std::int64_t i = 2 * 3 * 5 * 9 - 1; i >= 0; --i) {
    EXPECT_EQ(backward.element({i / 135, i / 45 % 3, i / 9 % 5, i % 9}), values[static_cast<std::size_t>(i)]);
  }
}

/// Written down once: the same on every machine and in every version, so that a seed in a report stays of
/// use.
TEST(Data, KnownBits) {
  EXPECT_EQ(vkattn::harness::random_bits(0, 0), 0x48218226ff3cd4bfU);
  EXPECT_EQ(vkattn::harness::random_bits(1, 2), 0x6e96dcf4fab47f5eU);
}

TEST(Data, TensorsAndSeedsDiffer) {
  const Problem one = *parse_problem("8x8 d8 seed=1");
  const Problem two = *parse_problem("8x8 d8 seed=2");
  std::set<double> values;
  for (const Problem* problem : {&one, &two}) {
    for (const TensorRole role : {TensorRole::kQuery, TensorRole::kKey, TensorRole::kValue}) {
      for (const double v : elements(*problem, role, vkattn::harness::query_shape(problem->desc)))
        values.insert(v);
    }
  }
  EXPECT_EQ(values.size(), 6U * 64U);
}

TEST(Data, Float16IsNeverSubnormalOrZero) {
  const Problem problem = *parse_problem("64x1 d64 f16 magnitude=0.0001");
  TensorData data(problem, TensorRole::kQuery);
  int least = 0;
  AddressOrder(vkattn::harness::query_shape(problem.desc)).for_each([&](std::int64_t, const Position& p) {
    const std::uint32_t magnitude = data.stored(p) & 0x7fffU;
    ASSERT_GE(magnitude, 0x0400U);
    ASSERT_LT(magnitude, 0x7c00U);
    least += magnitude == 0x0400U ? 1 : 0;
  });
  EXPECT_GT(least, 100);
}

TEST(Data, StoredIsRoundedToTheTypeOfTheTensor) {
  const Problem problem = *parse_problem("4x4 d8 query=f32 key=f16 value=bf16");
  const Position at{0, 0, 3, 5};
  TensorData query(problem, TensorRole::kQuery);
  TensorData key(problem, TensorRole::kKey);
  TensorData value(problem, TensorRole::kValue);
  EXPECT_EQ(query.stored(at), std::bit_cast<std::uint32_t>(static_cast<float>(query.element(at))));
  EXPECT_EQ(key.stored(at), vkattn::float_to_half(static_cast<float>(key.element(at))));
  EXPECT_EQ(value.stored(at), vkattn::float_to_bfloat16(static_cast<float>(value.element(at))));
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
    const Problem problem = *parse_problem(text);
    TensorData query(problem, TensorRole::kQuery);
    TensorData key(problem, TensorRole::kKey);
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
  const Problem problem = *parse_problem("2x5 d16 data=equal magnitude=0.1");
  TensorData query(problem, TensorRole::kQuery);
  TensorData key(problem, TensorRole::kKey);
  const double first = score(query, key, problem, 0, 0, 0);
  EXPECT_NEAR(first, 0.1 * 0.1 * 16 / 4, 1e-9);
  for (std::int64_t j = 0; j < 5; ++j) EXPECT_EQ(score(query, key, problem, 0, 1, j), first);
  TensorData value(problem, TensorRole::kValue);
  EXPECT_NE(value.element({0, 0, 0, 0}), value.element({0, 0, 1, 0}));
}

TEST(Data, LargeMagnitudesLeaveQueriesModerate) {
  const Problem problem = *parse_problem("64x64 d64 magnitude=1000");
  const Moments query =
      moments_of(elements(problem, TensorRole::kQuery, vkattn::harness::query_shape(problem.desc)));
  const Moments key =
      moments_of(elements(problem, TensorRole::kKey, vkattn::harness::key_shape(problem.desc)));
  EXPECT_NEAR(query.deviation, vkattn::harness::kLargestQueryMagnitude, 0.5);
  EXPECT_NEAR(key.deviation, 1000, 50);
}

TEST(AddressOrder, VisitsEachElementOnceAndUpwards) {
  for (const char* text : {"b2 h3 4x4 d5", "b2 h3 4x4 d5 layout=bshd pad=2", "b2 h3 4x4 d5 layout=packed",
                           "1x1 d1", "b2 0x4 d5"}) {
    const Problem problem = *parse_problem(text);
    TensorShape shape = vkattn::harness::query_shape(problem.desc);
    for (const bool transposed : {false, true}) {
      if (transposed) {
        shape.desc.strides = {1000, 300, 1, 7};
      }
      std::int64_t last = -1;
      std::int64_t count = 0;
      EXPECT_TRUE(AddressOrder(shape).is_nested());
      AddressOrder(shape).for_each([&](std::int64_t offset, const Position& p) {
        const vkattn::Strides& s = *shape.desc.strides;
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
  const Problem problem = *parse_problem("b2 h3 4x4 d5");
  TensorShape shape = vkattn::harness::key_shape(problem.desc);
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
    const auto poison = vkattn::harness::output_poison(type);
    EXPECT_NE(poison, vkattn::harness::input_filler(type));
    for (const auto& pattern : {poison, vkattn::harness::input_filler(type)}) {
      std::uint32_t word = 0;
      std::memcpy(&word, pattern.data(), 4);
      const auto low = static_cast<std::uint16_t>(word);
      if (type == DataType::kFloat32) {
        EXPECT_TRUE(std::isnan(std::bit_cast<float>(word)));
      } else {
        EXPECT_EQ(word >> 16U, low) << "16-bit elements may begin in either half";
        EXPECT_TRUE(std::isnan(type == DataType::kFloat16 ? vkattn::half_to_float(low)
                                                          : vkattn::bfloat16_to_float(low)));
      }
    }
  }
}

TEST(RowSelection, AllRowsByDefault) {
  const Problem problem = *parse_problem("b2 h3 5x1 d4");
  const auto rows = select_rows(problem.desc, {}, {});
  ASSERT_EQ(rows.size(), 30U);
  EXPECT_EQ(rows[17].batch, 1);
  EXPECT_EQ(rows[17].head, 0);
  EXPECT_EQ(rows[17].query, 2);
  EXPECT_EQ(select_rows(problem.desc, {}, {30, 1}).size(), 30U);
  EXPECT_TRUE(select_rows((*parse_problem("0x1 d4")).desc, {}, {}).empty());
}

TEST(RowSelection, FirstLastEdgesAndRandomOnes) {
  const Problem problem = *parse_problem("b4 h8 1000x1 d4");
  for (const std::int64_t wanted : {1, 2, 7, 64, 1000}) {
    const auto rows = select_rows(problem.desc, {}, {wanted, 3});
    EXPECT_EQ(rows.size(), static_cast<std::size_t>(wanted));
    EXPECT_EQ(rows.front().query, 0);
    if (wanted < 2) continue;
    EXPECT_EQ(rows.back().batch, 3);
    EXPECT_EQ(rows.back().head, 7);
    EXPECT_EQ(rows.back().query, 999);
  }
  std::set<std::int64_t> positions, heads;
  for (const auto& row : select_rows(problem.desc, {}, {64, 3})) {
    positions.insert(row.query);
    heads.insert(row.batch * 8 + row.head);
  }
  for (const std::int64_t edge : {15, 16, 17, 31, 32, 33, 63, 64, 65, 959, 960, 961, 991, 992, 993}) {
    EXPECT_TRUE(positions.contains(edge)) << edge;
  }
  EXPECT_GT(heads.size(), 20U);
}

TEST(CheckReport, SaysWhatIsWrong) {
  vkattn::harness::CheckReport report;
  report.rows_checked = 4;
  report.elements_checked = 16;
  report.largest_share = 0.5;
  report.where = {1, 2, 3};
  report.where_index = 4;
  EXPECT_TRUE(report.passed());
  EXPECT_NE(report.to_string().find("batch 1, head 2, query 3, dim 4"), std::string::npos);
  report.where_output = vkattn::harness::CheckedOutput::kLse;
  EXPECT_NE(report.to_string().find("lse"), std::string::npos);
  report.where_output = vkattn::harness::CheckedOutput::kWeights;
  EXPECT_NE(report.to_string().find("query 3, weight of key 4"), std::string::npos);
  report.elements_unwritten = 2;
  EXPECT_FALSE(report.passed());
  EXPECT_NE(report.to_string().find("2 elements were never written"), std::string::npos);
  EXPECT_EQ(report.nan_text(), "");
  report.nan_expected.add({{3, 0, 0}, vkattn::harness::CheckedOutput::kLse, 0}, 40);
  report.nan_for_number.add({{1, 2, 3}, vkattn::harness::CheckedOutput::kOutput, 4}, 9);
  vkattn::harness::ElementCount other_thread;
  other_thread.add({{0, 2, 3}, vkattn::harness::CheckedOutput::kWeights, 5}, 7);
  other_thread.add({{0, 2, 3}, vkattn::harness::CheckedOutput::kWeights, 6}, 7);
  report.nan_for_number.add(other_thread);
  report.nan_for_number.add(vkattn::harness::ElementCount{});
  EXPECT_NE(
      report.to_string().find("3 elements are NaN where the reference has a number, the first at batch 0, "
                              "head 2, query 3, weight of key 5; 1 element is NaN as in the reference, "
                              "the first at batch 3, head 0, query 0, lse"),
      std::string::npos)
      << report.to_string();
  report.elements_unwritten = 0;
  report.largest_share = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(report.passed());
  report.largest_share = 0;
  report.guard_intact = false;
  report.guard_message = "3 bytes outside";
  EXPECT_FALSE(report.passed());
  EXPECT_NE(report.to_string().find("3 bytes outside"), std::string::npos);
}

}  // namespace
