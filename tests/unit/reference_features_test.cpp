// The features of the oracle: small cases computed by hand. reference_properties_test.cpp ties one feature to
// another.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "problem/problem.hpp"
#include "reference/reference.hpp"
#include "support/host_problem.hpp"

namespace vkattn::tests {
namespace {

using reference::compute_row;
using reference::Inputs;
using reference::Row;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kHidden = -std::numeric_limits<float>::infinity();

/// Queries 1 and 2, keys 3 and 1, values 10 and 20, scale 1: scores 3, 1 and 6, 2.
class TwoByTwo : public testing::Test {
 protected:
  TwoByTwo() {
    desc.query_length = 2;
    desc.kv_length = 2;
    desc.head_dim = 1;
    desc.value_dim = 1;
    desc.scale = 1.0F;
    inputs.query = query.data();
    inputs.key = key.data();
    inputs.value = value.data();
  }

  [[nodiscard]] Row row(std::int64_t i) {
    desc.set_layout(Layout::kBhsd);
    EXPECT_TRUE(validate(desc).ok()) << validate(desc).error().message;
    return compute_row(desc.resolved(), inputs, {0, 0, i});
  }

  /// The output where the two keys have these scores and a logit without a value stands beside them.
  static double mixed(double first, double second, double sink = -kInfinity) {
    const double a = std::exp(first), b = std::exp(second);
    return (10 * a + 20 * b) / (a + b + std::exp(sink));
  }

  AttentionDesc desc;
  Inputs inputs;
  std::vector<float> query{1, 2}, key{3, 1}, value{10, 20};
};

TEST_F(TwoByTwo, Softcap) {
  desc.softcap = 2.0F;
  const double first = 2 * std::tanh(1.5), second = 2 * std::tanh(0.5);  // 1.8103, 0.9242
  EXPECT_NEAR(row(0).output[0], mixed(first, second), 1e-12);
  EXPECT_NEAR(row(0).lse, std::log(std::exp(first) + std::exp(second)), 1e-12);
  EXPECT_NEAR(row(1).output[0], mixed(2 * std::tanh(3.0), 2 * std::tanh(1.0)), 1e-12);
  EXPECT_EQ(row(1).score_magnitude, 6) << "of the scores before the cap";
}

TEST_F(TwoByTwo, AdditiveMask) {
  const std::vector<float> mask{-1, 0.5F, kHidden, 4};
  inputs.mask = mask.data();
  desc.mask.type = MaskType::kFloat32;
  EXPECT_NEAR(row(0).output[0], mixed(2, 1.5), 1e-12);
  EXPECT_EQ(row(0).score_magnitude, 4) << "3 of the score and 1 of the bias";
  EXPECT_EQ(row(1).visible_keys, 1);
  EXPECT_EQ(row(1).output[0], 20);
  EXPECT_EQ(row(1).lse, 6);
}

TEST_F(TwoByTwo, AdditiveMaskOfFloat16IsAddedAfterSoftcap) {
  const std::vector<std::uint16_t> mask{float_to_half(0.25F), float_to_half(-2), float_to_half(kHidden),
                                        float_to_half(kHidden)};
  inputs.mask = mask.data();
  desc.mask.type = MaskType::kFloat16;
  desc.softcap = 2.0F;
  EXPECT_NEAR(row(0).output[0], mixed(2 * std::tanh(1.5) + 0.25, 2 * std::tanh(0.5) - 2), 1e-12);
  EXPECT_EQ(row(1).visible_keys, 0);
  EXPECT_EQ(row(1).output[0], 0);
  EXPECT_EQ(row(1).lse, -kInfinity);
}

TEST_F(TwoByTwo, BytesAndBits) {
  const std::vector<std::uint8_t> bytes{0, 0x80, 1, 0};
  inputs.mask = bytes.data();
  desc.mask.type = MaskType::kBytes;
  EXPECT_EQ(row(0).output[0], 20);
  EXPECT_EQ(row(1).output[0], 10);
  const std::vector<std::uint32_t> bits{0b10, 0b01};
  inputs.mask = bits.data();
  desc.mask.type = MaskType::kBits;
  EXPECT_EQ(row(0).output[0], 20);
  EXPECT_EQ(row(1).output[0], 10);
}

TEST_F(TwoByTwo, AHiddenKeyIsHiddenWhateverItHolds) {
  const std::vector<std::uint8_t> bytes{0, 1, 0, 1};
  inputs.mask = bytes.data();
  desc.mask.type = MaskType::kBytes;
  key[0] = std::numeric_limits<float>::quiet_NaN();
  value[0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(row(0).output[0], 20);
  EXPECT_EQ(row(0).lse, 1);
  EXPECT_EQ(row(0).score_magnitude, 1);
}

TEST_F(TwoByTwo, NanInTheOnlyKeyIsSeen) {
  const std::vector<std::uint8_t> bytes{1, 0, 1, 0};
  inputs.mask = bytes.data();
  desc.mask.type = MaskType::kBytes;
  key[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(row(0).output[0]));
  EXPECT_TRUE(std::isnan(row(0).lse));
}

TEST_F(TwoByTwo, Sink) {
  const std::vector<float> sinks{2};
  inputs.sinks = sinks;
  desc.has_sinks = true;
  EXPECT_NEAR(row(0).output[0], mixed(3, 1, 2), 1e-12);
  EXPECT_NEAR(row(0).lse, std::log(std::exp(3) + std::exp(1) + std::exp(2)), 1e-12);
  desc.weights = WeightsStage::kProbabilities;
  const Row weights = row(0);
  EXPECT_NEAR(weights.weights[0] + weights.weights[1], 1 - std::exp(2 - weights.lse), 1e-12);
}

TEST_F(TwoByTwo, ASinkOfARowThatSeesNothing) {
  const std::vector<float> sinks{-7.5F};
  const std::vector<std::uint8_t> nothing(4, 0);
  inputs.sinks = sinks;
  inputs.mask = nothing.data();
  desc.has_sinks = true;
  desc.mask.type = MaskType::kBytes;
  EXPECT_EQ(row(0).output[0], 0);
  EXPECT_EQ(row(0).lse, -7.5);
  EXPECT_EQ(row(0).score_magnitude, 7.5);
  desc.kv_length = 0;
  EXPECT_EQ(row(1).output[0], 0);
  EXPECT_EQ(row(1).lse, -7.5);
}

TEST_F(TwoByTwo, Alibi) {
  const std::vector<float> slopes{0.5F};
  inputs.alibi_slopes = slopes;
  desc.alibi = Alibi::kGiven;
  EXPECT_NEAR(row(0).output[0], mixed(3, 1 - 0.5), 1e-12);
  EXPECT_NEAR(row(1).output[0], mixed(6 - 0.5, 2), 1e-12);
  EXPECT_EQ(row(1).score_magnitude, 6.5);
  desc.align = Align::kOffset;  // query 0 lines up with key -3
  desc.offset = -3;
  EXPECT_NEAR(row(0).output[0], mixed(3 - 1.5, 1 - 2.0), 1e-12);
  desc.alibi = Alibi::kStandard;  // one head: 2^-8
  EXPECT_NEAR(row(0).output[0], mixed(3 - 3.0 / 256, 1 - 4.0 / 256), 1e-12);
}

TEST_F(TwoByTwo, WeightsOfEachStage) {
  const std::vector<float> mask{0.5F, -1, 0, kHidden};
  inputs.mask = mask.data();
  desc.mask.type = MaskType::kFloat32;
  desc.softcap = 4.0F;
  desc.causal = true;
  desc.weights = WeightsStage::kScores;
  EXPECT_EQ(row(0).weights, (std::vector<double>{3, 1})) << "a hidden key has its score";
  EXPECT_EQ(row(1).weights, (std::vector<double>{6, 2}));
  desc.weights = WeightsStage::kSoftcap;
  EXPECT_NEAR(row(0).weights[1], 4 * std::tanh(0.25), 1e-12);
  desc.weights = WeightsStage::kMasked;
  EXPECT_NEAR(row(0).weights[0], 4 * std::tanh(0.75) + 0.5, 1e-12);
  EXPECT_EQ(row(0).weights[1], -kInfinity) << "by causality";
  EXPECT_EQ(row(1).weights[1], -kInfinity) << "by the mask";
  desc.weights = WeightsStage::kProbabilities;
  EXPECT_EQ(row(0).weights, (std::vector<double>{1, 0}));
  EXPECT_EQ(row(1).weights, (std::vector<double>{1, 0}));
}

TEST_F(TwoByTwo, WeightsOfKeysThatDoNotExist) {
  const std::vector<std::int32_t> one{1};
  inputs.kv_lengths = one;
  desc.kv_lengths = Lengths::kPerEntry;
  for (const WeightsStage stage : {WeightsStage::kScores, WeightsStage::kSoftcap, WeightsStage::kMasked}) {
    desc.weights = stage;
    EXPECT_EQ(row(0).weights, (std::vector<double>{3, -kInfinity}));
  }
  desc.weights = WeightsStage::kProbabilities;
  EXPECT_EQ(row(0).weights, (std::vector<double>{1, 0}));
}

TEST_F(TwoByTwo, DropoutDropsSomeAndTheOthersGrow) {
  desc.dropout = 0.5F;
  desc.weights = WeightsStage::kProbabilities;
  bool dropped = false, kept = false;
  for (inputs.dropout_seed = 0; inputs.dropout_seed < 20; ++inputs.dropout_seed) {
    const Row result = row(0);
    const double p = 1 / (1 + std::exp(-2.0));
    EXPECT_NEAR(result.weights[0], p, 1e-12) << "the weights are those before dropout";
    EXPECT_NEAR(result.lse, std::log(std::exp(3) + std::exp(1)), 1e-12) << "and so is the lse";
    const double first = 2 * p * 10, second = 2 * (1 - p) * 20;
    const double got = result.output[0];
    const double nearest = std::min(
        {std::abs(got), std::abs(got - first), std::abs(got - second), std::abs(got - first - second)});
    EXPECT_LT(nearest, 1e-12);
    dropped = dropped || got < 1;
    kept = kept || got > first + second - 1e-9;
  }
  EXPECT_TRUE(dropped);
  EXPECT_TRUE(kept);
}

}  // namespace
}  // namespace vkattn::tests
