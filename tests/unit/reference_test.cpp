// The reference itself: closed forms, a second implementation, and every edge of its definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "harness/tensor_memory.hpp"
#include "support/cache_reference.hpp"
#include "support/host_problem.hpp"
#include "support/problem_text.hpp"
#include "support/special_numbers.hpp"

namespace vkattn::tests {
namespace {

using reference::Row;
using reference::RowIndex;

constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();

/// An element of a tensor in the host's memory.
double element(const std::vector<std::byte>& bytes, const TensorDesc& tensor, const harness::Position& p) {
  const Strides& s = *tensor.strides;
  const std::int64_t index = p.batch * s.batch + p.head * s.head + p.row * s.row + p.dim * s.dim;
  const std::size_t size = element_bytes(tensor.type);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &bytes.at(static_cast<std::size_t>(index) * size), size);
  return static_cast<double>(decoded(tensor.type, bits));
}

/// A second implementation of attention: logical positions, all keys, a mask, no running maximum.
Row by_definition(const HostProblem& c, const RowIndex& index) {
  const AttentionDesc& desc = c.problem.desc;
  const std::int64_t kv_head = index.head * desc.kv_heads / desc.query_heads;
  std::int64_t length = desc.kv_length;
  if (!c.problem.kv_lengths.empty()) {
    const std::int64_t given = c.problem.kv_lengths[static_cast<std::size_t>(index.batch)];
    length = std::clamp<std::int64_t>(given, 0, length);
  }
  std::int64_t offset = 0;
  if (desc.align == Align::kBottomRight) offset = length - desc.query_length;
  if (desc.align == Align::kOffset) offset = desc.offset;
  Row row;
  row.output.assign(static_cast<std::size_t>(desc.value_dim), 0);
  double sum = 0;
  for (std::int64_t j = 0; j < desc.kv_length; ++j) {
    if (j >= length || (desc.causal && j > index.query + offset)) continue;
    double score = 0;
    for (std::int64_t d = 0; d < desc.head_dim; ++d) {
      score += element(c.query, desc.query, {index.batch, index.head, index.query, d}) *
               element(c.key, desc.key, {index.batch, kv_head, j, d});
    }
    const double weight = std::exp(score * static_cast<double>(desc.effective_scale()));
    sum += weight;
    ++row.visible_keys;
    for (std::int64_t d = 0; d < desc.value_dim; ++d) {
      row.output[static_cast<std::size_t>(d)] +=
          weight * element(c.value, desc.value, {index.batch, kv_head, j, d});
    }
  }
  if (sum > 0) {
    for (double& element : row.output) element /= sum;
  }
  row.lse = std::log(sum);
  return row;
}

class ReferenceAgainstDefinition : public testing::TestWithParam<const char*> {};

TEST_P(ReferenceAgainstDefinition, EveryRow) {
  const HostProblem c(GetParam());
  for_each_row(c, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const Row got = c.row(b, h, i);
    const Row expected = by_definition(c, {b, h, i});
    ASSERT_EQ(got.visible_keys, expected.visible_keys) << i;
    for (std::size_t d = 0; d < got.output.size(); ++d) {
      ASSERT_NEAR(got.output[d], expected.output[d], 1e-12 * (1 + got.value_magnitude[d])) << i;
      ASSERT_LE(std::abs(got.output[d]), got.value_magnitude[d] * (1 + 1e-12));
    }
    if (expected.visible_keys > 0) {
      ASSERT_NEAR(got.lse, expected.lse, 1e-12 * (1 + got.score_magnitude));
    } else {
      ASSERT_EQ(got.lse, -kInfinity);
      ASSERT_EQ(got.output, std::vector<double>(got.output.size(), 0.0));
      ASSERT_EQ(got.value_magnitude, got.output) << "no tolerance either";
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Problems, ReferenceAgainstDefinition,
    testing::Values("1x1 d1", "b2 h3 5x7 d8 dv3", "b2 hq6 hkv2 5x7 d8", "hq4 hkv1 3x9 d5 dv6 layout=bshd",
                    "h2 6x6 d4 layout=packed pad=3 shift=1", "b2 9x7 d4 causal",
                    "b2 9x7 d4 causal align=bottom-right", "7x9 d4 causal align=bottom-right",
                    "7x9 d4 causal align=-3", "7x9 d4 causal align=100", "7x9 d4 causal align=-1073741824",
                    "b4 5x9 d4 kv_lengths=0,9,4,1",
                    "b3 5x9 d4 kv_lengths=-5,2147483647,3 causal align=bottom-right", "6x6 d8 f16 scale=-1.5",
                    "6x6 d8 bf16 pad=1", "6x6 d8 query=f16 key=bf16 value=f32", "6x6 d8 data=uniform",
                    "6x6 d8 data=dominant scale=0.05", "6x6 d8 data=equal", "3x0 d4",
                    "5x6 d3 magnitude=0.001", "5x33 d8 dv1 magnitude=10"));

TEST(Reference, ScoresBeyondTheRangeOfExp) {
  HostProblem c("1x2 d1 dv1");
  put<float>(c.query, {1e4F});
  put<float>(c.key, {1e4F, -1e4F});
  const Row row = c.row(0, 0, 0);
  EXPECT_EQ(row.output[0], static_cast<double>(numbers<float>(c.value)[0]));
  EXPECT_EQ(row.lse, 1e8);
}

TEST(Reference, AScoreOfMinusInfinityIsHidden) {
  HostProblem c("1x3 d1 dv1");
  put<float>(c.query, {-1});
  put(c.key, 1, kFloatInfinity);
  put(c.value, 1, kNan);
  const Row row = c.row(0, 0, 0);
  EXPECT_EQ(row.visible_keys, 2);
  EXPECT_TRUE(std::isfinite(row.output[0]));
  EXPECT_TRUE(std::isfinite(row.score_magnitude));
  put(c.key, std::vector<float>(3, kFloatInfinity));
  EXPECT_EQ(c.row(0, 0, 0).visible_keys, 0);
  EXPECT_EQ(c.row(0, 0, 0).output[0], 0);
  EXPECT_EQ(c.row(0, 0, 0).lse, -kInfinity);
}

TEST(Reference, AScoreOfPlusInfinityGivesNan) {
  HostProblem c("1x3 d1 dv1");
  put<float>(c.query, {1});
  put(c.key, 1, kFloatInfinity);
  EXPECT_TRUE(std::isnan(c.row(0, 0, 0).output[0]));
  EXPECT_TRUE(std::isnan(c.row(0, 0, 0).lse));
}

TEST(Reference, NanReachesOnlyRowsThatSeeIt) {
  HostProblem c("4x4 d2 dv1 causal");
  put(c.key, 2 * 2 + 1, kNan);
  put(c.value, 3, kNan);
  EXPECT_TRUE(std::isfinite(c.row(0, 0, 1).output[0]));
  EXPECT_TRUE(std::isnan(c.row(0, 0, 2).output[0]));
  EXPECT_TRUE(std::isnan(c.row(0, 0, 3).output[0]));
}

TEST(Tolerance, GrowsWithLengthScoresAndValues) {
  const Problem problem = parsed("1x64 d4 dv1");
  const Row row{.output = {0.5}, .lse = -8, .score_magnitude = 3, .value_magnitude = {2}, .value_sum = {0}};
  const double factor = (16 + 8) * 0x1p-24 * (1 + 3.0);
  EXPECT_DOUBLE_EQ(reference::output_tolerance(problem.desc, row, 0), factor * 2.0);
  EXPECT_DOUBLE_EQ(reference::lse_tolerance(problem.desc, row), factor + 8 * 0x1p-22);
}

TEST(Tolerance, Float16LosesSmallWeights) {
  const Row row{.output = {0.0},
                .value_magnitude = {0.0},
                .value_sum = {2.0}};  // only the flushed part of the tolerance remains
  const auto tolerance = [&](DataType type, const char* text = "1x64 d4 dv1") {
    return reference::output_tolerance(parsed(text).desc, row, 0, type);
  };
  // Weights that are kept are doubled.
  EXPECT_EQ(tolerance(DataType::kFloat32, "1x64 d4 dv1 dropout=0.5"), 0x5p-126);
  EXPECT_DOUBLE_EQ(tolerance(DataType::kFloat16, "1x64 d4 dv1 dropout=0.5"), 0x1p-30);
  EXPECT_EQ(tolerance(DataType::kFloat32), 0x3p-126);
  EXPECT_EQ(tolerance(DataType::kBfloat16), 0x3p-126) << "its exponents are those of float32";
  EXPECT_DOUBLE_EQ(tolerance(DataType::kFloat16), 0x1p-31);
}

TEST(Tolerance, HasFlushedProductsOfEachVisibleKey) {
  const Problem problem = parsed("1x64 d4 dv1");
  Row row;
  row.output = {0x1p-125};
  row.value_magnitude = {0x1p-125};  // as large as what is flushed, so its rounding does not count
  row.value_sum = {0x1p-20};         // small: normal weights give products that are not normal
  row.visible_keys = 15;
  EXPECT_DOUBLE_EQ(reference::output_tolerance(problem.desc, row, 0), 0x1p-122 + 0x1p-144);
}

TEST(Tolerance, AddsOneUnitOf16BitStorage) {
  Problem problem = parsed("1x64 d4 dv1");
  Row row;
  row.value_magnitude = {0.0};  // only the part of the storage type remains
  row.value_sum = {0.0};
  const auto tolerance = [&](DataType type, double output) {
    problem.desc.output.type = type;
    row.output = {output};
    return reference::output_tolerance(problem.desc, row, 0);
  };
  EXPECT_EQ(tolerance(DataType::kFloat32, 1.0), 0x1p-126) << "what may be flushed";
  EXPECT_EQ(tolerance(DataType::kFloat16, 1.0), 0x1p-10);
  EXPECT_EQ(tolerance(DataType::kFloat16, -1.99), 0x1p-10);
  EXPECT_EQ(tolerance(DataType::kFloat16, 2.0), 0x1p-9);
  EXPECT_EQ(tolerance(DataType::kBfloat16, 1.0), 0x1p-7);
  EXPECT_EQ(tolerance(DataType::kBfloat16, 0x1p-20), 0x1p-27);
  EXPECT_EQ(tolerance(DataType::kFloat16, 0x1.8p-14), 0x1p-24);
  EXPECT_EQ(tolerance(DataType::kFloat16, 0x1p-15), 0x1p-15) << "a subnormal may be flushed";
  EXPECT_EQ(tolerance(DataType::kFloat16, 0.0), 0x1p-24);
  row.value_sum = {3.0};
  EXPECT_EQ(tolerance(DataType::kFloat32, 0.0), 0x1p-124) << "with a weight for each key";
}

}  // namespace
}  // namespace vkattn::tests
