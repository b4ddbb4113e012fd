// The oracle itself: closed forms, a second way of computing the same, and every edge of its definition.
#include "reference/reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "harness/data.hpp"
#include "harness/tensor_memory.hpp"
#include "problem/problem.hpp"

namespace {

using vkattn::AttentionDesc;
using vkattn::DataType;
using vkattn::bench::Problem;
using vkattn::harness::Position;
using vkattn::harness::TensorRole;
using vkattn::harness::TensorShape;
using vkattn::reference::compute_row;
using vkattn::reference::Inputs;
using vkattn::reference::Row;
using vkattn::reference::RowIndex;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A tensor in host memory, everything that is no element being NaN.
class HostTensor {
 public:
  HostTensor(const TensorShape& shape, std::int64_t shift)
      : shape_(shape), shift_(shift), bytes_(static_cast<std::size_t>(*shape.bytes() + 4 * shift + 8)) {
    const auto filler = vkattn::harness::input_filler(shape.desc.type);
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = filler[i % 4];
  }

  void set(const Position& p, std::uint32_t bits) {
    const std::size_t size = vkattn::element_bytes(shape_.desc.type);
    std::byte* const at = bytes_.data() + index(p) * size;
    const auto bits16 = static_cast<std::uint16_t>(bits);
    std::memcpy(at, size == 4 ? static_cast<const void*>(&bits) : &bits16, size);
  }

  [[nodiscard]] double get(const Position& p) const {
    const std::size_t size = vkattn::element_bytes(shape_.desc.type);
    const std::byte* const at = bytes_.data() + index(p) * size;
    std::uint32_t bits = 0;
    std::uint16_t bits16 = 0;
    std::memcpy(size == 4 ? static_cast<void*>(&bits) : &bits16, at, size);
    if (shape_.desc.type == DataType::kFloat16) return static_cast<double>(vkattn::half_to_float(bits16));
    if (shape_.desc.type == DataType::kBfloat16)
      return static_cast<double>(vkattn::bfloat16_to_float(bits16));
    return static_cast<double>(std::bit_cast<float>(bits));
  }

  [[nodiscard]] const void* first() const {
    return bytes_.data() + static_cast<std::size_t>(shift_) * vkattn::element_bytes(shape_.desc.type);
  }

 private:
  [[nodiscard]] std::size_t index(const Position& p) const {
    const vkattn::Strides& s = *shape_.desc.strides;
    return static_cast<std::size_t>(shift_ + p.batch * s.batch + p.head * s.head + p.row * s.row +
                                    p.dim * s.dim);
  }

  TensorShape shape_;
  std::int64_t shift_;
  std::vector<std::byte> bytes_;
};

/// A problem with its random inputs in host memory.
struct Case {
  explicit Case(const std::string& text) : Case(*vkattn::bench::parse_problem(text)) {}
  explicit Case(const Problem& p)
      : problem(p),
        query(vkattn::harness::query_shape(p.desc), p.shift),
        key(vkattn::harness::key_shape(p.desc), p.shift),
        value(vkattn::harness::value_shape(p.desc), p.shift) {
    fill(TensorRole::kQuery, vkattn::harness::query_shape(p.desc), query);
    fill(TensorRole::kKey, vkattn::harness::key_shape(p.desc), key);
    fill(TensorRole::kValue, vkattn::harness::value_shape(p.desc), value);
  }

  void fill(TensorRole role, const TensorShape& shape, HostTensor& tensor) const {
    vkattn::harness::TensorData data(problem, role);
    vkattn::harness::AddressOrder(shape).for_each(
        [&](std::int64_t, const Position& p) { tensor.set(p, data.stored(p)); });
  }

  [[nodiscard]] Row row(std::int64_t batch, std::int64_t head, std::int64_t query_position) const {
    const Inputs inputs{query.first(), key.first(), value.first(), problem.kv_lengths};
    return compute_row(problem.desc, inputs, {batch, head, query_position});
  }

  Problem problem;
  HostTensor query, key, value;
};

/// Attention written down a second time: logical positions, all keys, a mask, no running maximum.
Row by_definition(const Case& c, const RowIndex& index) {
  const AttentionDesc& desc = c.problem.desc;
  const std::int64_t kv_head = index.head * desc.kv_heads / desc.query_heads;
  std::int64_t length = desc.kv_length;
  if (desc.kv_lengths == vkattn::Lengths::kPerEntry) {
    length = c.problem.kv_lengths[static_cast<std::size_t>(index.batch)];
    if (length < 0) length = 0;
    if (length > desc.kv_length) length = desc.kv_length;
  }
  std::int64_t offset = 0;
  if (desc.align == vkattn::Align::kBottomRight) offset = length - desc.query_length;
  if (desc.align == vkattn::Align::kOffset) offset = desc.offset;
  Row row;
  row.output.assign(static_cast<std::size_t>(desc.value_dim), 0);
  double sum = 0;
  for (std::int64_t j = 0; j < desc.kv_length; ++j) {
    if (j >= length || (desc.causal && j > index.query + offset)) continue;
    double score = 0;
    for (std::int64_t d = 0; d < desc.head_dim; ++d) {
      score +=
          c.query.get({index.batch, index.head, index.query, d}) * c.key.get({index.batch, kv_head, j, d});
    }
    const double weight = std::exp(score * static_cast<double>(desc.effective_scale()));
    sum += weight;
    ++row.visible_keys;
    for (std::int64_t d = 0; d < desc.value_dim; ++d) {
      row.output[static_cast<std::size_t>(d)] += weight * c.value.get({index.batch, kv_head, j, d});
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
  const Case c(GetParam());
  const AttentionDesc& desc = c.problem.desc;
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    for (std::int64_t h = 0; h < desc.query_heads; ++h) {
      for (std::int64_t i = 0; i < desc.query_length; ++i) {
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
        }
      }
    }
  }
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
                    "5x6 d3 magnitude=0.001"));

TEST(Reference, TheWorkedExample) {
  // Q = K = [[1,0,1,0],[0,1,0,1]]: the scaled scores are 2/sqrt(4) = 1 on the diagonal and 0 beside it.
  const std::vector<float> qk{1, 0, 1, 0, 0, 1, 0, 1};
  const std::vector<float> v{2, 3, 5, 7};
  AttentionDesc desc;
  desc.query_length = 2;
  desc.kv_length = 2;
  desc.head_dim = 4;
  desc.value_dim = 2;
  desc = desc.resolved();
  const Inputs inputs{qk.data(), qk.data(), v.data(), {}};
  const double p = 1.0 / (1.0 + std::exp(-1.0));  // 0.7310585786
  EXPECT_NEAR(p, 0.73, 0.005);
  const Row first = compute_row(desc, inputs, {0, 0, 0});
  const Row second = compute_row(desc, inputs, {0, 0, 1});
  EXPECT_NEAR(first.output[0], 2 * p + 5 * (1 - p), 1e-15);
  EXPECT_NEAR(first.output[1], 3 * p + 7 * (1 - p), 1e-15);
  EXPECT_NEAR(second.output[0], 2 * (1 - p) + 5 * p, 1e-15);
  EXPECT_NEAR(second.output[1], 3 * (1 - p) + 7 * p, 1e-15);
  EXPECT_NEAR(first.output[0], 2.81, 0.005);
  EXPECT_NEAR(first.output[1], 4.08, 0.005);
  EXPECT_NEAR(second.output[0], 4.19, 0.005);
  EXPECT_NEAR(second.output[1], 5.92, 0.005);
  EXPECT_NEAR(first.lse, std::log(std::exp(1.0) + 1.0), 1e-15);
  EXPECT_EQ(first.score_magnitude, 1.0);
}

TEST(Reference, RowsThatSeeNothing) {
  const Case c("3x4 d4 causal align=-2");
  for (const std::int64_t i : {0, 1}) {
    const Row row = c.row(0, 0, i);
    EXPECT_EQ(row.visible_keys, 0);
    EXPECT_EQ(row.lse, -kInfinity);
    EXPECT_EQ(row.output, std::vector<double>(4, 0.0));
    EXPECT_EQ(row.value_magnitude, std::vector<double>(4, 0.0));
  }
  EXPECT_EQ(c.row(0, 0, 2).visible_keys, 1);
}

TEST(Reference, WeightsSumToOne) {
  Case c("5x33 d8 dv1 magnitude=10");
  for (std::int64_t j = 0; j < 33; ++j) c.value.set({0, 0, j, 0}, std::bit_cast<std::uint32_t>(1.0F));
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_NEAR(c.row(0, 0, i).output[0], 1.0, 1e-14);
}

TEST(Reference, ScoresBeyondTheRangeOfExp) {
  Case c("1x2 d1 dv1");
  c.query.set({}, std::bit_cast<std::uint32_t>(1e4F));
  c.key.set({0, 0, 0, 0}, std::bit_cast<std::uint32_t>(1e4F));
  c.key.set({0, 0, 1, 0}, std::bit_cast<std::uint32_t>(-1e4F));
  const Row row = c.row(0, 0, 0);
  EXPECT_EQ(row.output[0], c.value.get({}));
  EXPECT_EQ(row.lse, 1e8);
}

TEST(Reference, AScoreOfMinusInfinityIsHidden) {
  Case c("1x3 d1 dv1");
  const auto infinity = std::bit_cast<std::uint32_t>(std::numeric_limits<float>::infinity());
  c.query.set({}, std::bit_cast<std::uint32_t>(-1.0F));
  c.key.set({0, 0, 1, 0}, infinity);
  c.value.set({0, 0, 1, 0}, std::bit_cast<std::uint32_t>(std::numeric_limits<float>::quiet_NaN()));
  const Row row = c.row(0, 0, 0);
  EXPECT_EQ(row.visible_keys, 2);
  EXPECT_TRUE(std::isfinite(row.output[0]));
  EXPECT_TRUE(std::isfinite(row.score_magnitude));
  c.key.set({0, 0, 0, 0}, infinity);
  c.key.set({0, 0, 2, 0}, infinity);
  EXPECT_EQ(c.row(0, 0, 0).visible_keys, 0);
  EXPECT_EQ(c.row(0, 0, 0).output[0], 0);
  EXPECT_EQ(c.row(0, 0, 0).lse, -kInfinity);
}

TEST(Reference, AScoreOfPlusInfinityGivesNan) {
  Case c("1x3 d1 dv1");
  c.query.set({}, std::bit_cast<std::uint32_t>(1.0F));
  c.key.set({0, 0, 1, 0}, std::bit_cast<std::uint32_t>(std::numeric_limits<float>::infinity()));
  EXPECT_TRUE(std::isnan(c.row(0, 0, 0).output[0]));
  EXPECT_TRUE(std::isnan(c.row(0, 0, 0).lse));
}

TEST(Reference, NanReachesOnlyRowsThatSeeIt) {
  Case c("4x4 d2 dv1 causal");
  const auto nan = std::bit_cast<std::uint32_t>(std::numeric_limits<float>::quiet_NaN());
  c.key.set({0, 0, 2, 1}, nan);
  c.value.set({0, 0, 3, 0}, nan);
  EXPECT_TRUE(std::isfinite(c.row(0, 0, 1).output[0]));
  EXPECT_TRUE(std::isnan(c.row(0, 0, 2).output[0]));
  EXPECT_TRUE(std::isnan(c.row(0, 0, 3).output[0]));
}

TEST(Tolerance, GrowsWithLengthScoresAndValues) {
  Problem problem = *vkattn::bench::parse_problem("1x64 d4 dv1");
  Row row;
  row.output = {0.5};
  row.value_magnitude = {2.0};
  row.value_sum = {0.0};
  row.score_magnitude = 3.0;
  row.lse = -8.0;
  const double factor = (16 + 8) * 0x1p-24 * (1 + 3.0);
  EXPECT_DOUBLE_EQ(vkattn::reference::output_tolerance(problem.desc, row, 0), factor * 2.0);
  EXPECT_DOUBLE_EQ(vkattn::reference::lse_tolerance(problem.desc, row), factor + 8 * 0x1p-22);
}

TEST(Tolerance, Float16LosesSmallWeights) {
  const Problem problem = *vkattn::bench::parse_problem("1x64 d4 dv1");
  Row row;
  row.output = {0.0};
  row.value_magnitude = {0.0};  // leaves what is flushed
  row.value_sum = {2.0};
  const auto tolerance = [&](DataType type) {
    return vkattn::reference::output_tolerance(problem.desc, row, 0, type);
  };
  EXPECT_EQ(tolerance(DataType::kFloat32), 0x3p-126);
  EXPECT_EQ(tolerance(DataType::kBfloat16), 0x3p-126) << "its exponents are those of float32";
  EXPECT_DOUBLE_EQ(tolerance(DataType::kFloat16), 0x1p-31);
}

TEST(Tolerance, HasFlushedProductsOfEachVisibleKey) {
  const Problem problem = *vkattn::bench::parse_problem("1x64 d4 dv1");
  Row row;
  row.output = {0x1p-125};
  row.value_magnitude = {0x1p-125};  // as great as what is flushed, so its rounding does not count
  row.value_sum = {0x1p-20};         // small: weights that are normal numbers give products that are not
  row.visible_keys = 15;
  EXPECT_DOUBLE_EQ(vkattn::reference::output_tolerance(problem.desc, row, 0), 0x1p-122 + 0x1p-144);
}

TEST(Tolerance, AddsOneUnitOf16BitStorage) {
  Problem problem = *vkattn::bench::parse_problem("1x64 d4 dv1");
  Row row;
  row.value_magnitude = {0.0};  // leaves the part of the storage
  row.value_sum = {0.0};
  const auto tolerance = [&](DataType type, double output) {
    problem.desc.output.type = type;
    row.output = {output};
    return vkattn::reference::output_tolerance(problem.desc, row, 0);
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
