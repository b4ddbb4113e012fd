// The features of the reference, in small cases computed by hand. reference_properties_test.cpp compares
// features with each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/host_problem.hpp"
#include "support/special_numbers.hpp"

namespace vkattn::tests {
namespace {

using reference::Row;

constexpr float kHidden = -std::numeric_limits<float>::infinity();

/// Queries 1 and 2, keys 3 and 1, values 10 and 20, scale 1. The scores are 3, 1 and 6, 2.
struct TwoByTwo : HostProblem {
  explicit TwoByTwo(const std::string& words) : HostProblem("2x2 d1 scale=1 " + words) {
    put<float>(query, {1, 2});
    put<float>(key, {3, 1});
    put<float>(value, {10, 20});
  }
  template <class T>
  TwoByTwo(const std::string& words, const std::vector<T>& mask_numbers) : TwoByTwo(words) {
    put(mask, mask_numbers);
  }
  [[nodiscard]] Row row(std::int64_t i) const { return HostProblem::row(0, 0, i); }
};

/// The output if the two keys have these scores, and beside them stands a logit without a value.
double mixed(double first, double second, double sink = -kInfinity) {
  const double a = std::exp(first), b = std::exp(second);
  return (10 * a + 20 * b) / (a + b + std::exp(sink));
}

TEST(TwoByTwo, Softcap) {
  const TwoByTwo host("softcap=2");
  const double first = 2 * std::tanh(1.5), second = 2 * std::tanh(0.5);  // 1.8103, 0.9242
  EXPECT_NEAR(host.row(0).output[0], mixed(first, second), 1e-12);
  EXPECT_NEAR(host.row(0).lse, std::log(std::exp(first) + std::exp(second)), 1e-12);
  EXPECT_NEAR(host.row(1).output[0], mixed(2 * std::tanh(3.0), 2 * std::tanh(1.0)), 1e-12);
  EXPECT_EQ(host.row(1).score_magnitude, 6) << "of the scores before the cap";
}

TEST(TwoByTwo, AdditiveMask) {
  const TwoByTwo host("mask=f32", std::vector<float>{-1, 0.5F, kHidden, 4});
  EXPECT_NEAR(host.row(0).output[0], mixed(2, 1.5), 1e-12);
  EXPECT_EQ(host.row(0).score_magnitude, 4) << "3 of the score and 1 of the bias";
  EXPECT_EQ(host.row(1).visible_keys, 1);
  EXPECT_EQ(host.row(1).output[0], 20);
  EXPECT_EQ(host.row(1).lse, 6);
}

TEST(TwoByTwo, AdditiveMaskOfFloat16IsAddedAfterSoftcap) {
  const std::vector<std::uint16_t> mask{float_to_half(0.25F), float_to_half(-2), float_to_half(kHidden),
                                        float_to_half(kHidden)};
  const TwoByTwo host("softcap=2 mask=f16", mask);
  EXPECT_NEAR(host.row(0).output[0], mixed(2 * std::tanh(1.5) + 0.25, 2 * std::tanh(0.5) - 2), 1e-12);
  EXPECT_EQ(host.row(1).visible_keys, 0);
  EXPECT_EQ(host.row(1).output[0], 0);
  EXPECT_EQ(host.row(1).lse, -kInfinity);
}

TEST(TwoByTwo, BytesAndBits) {
  for (const TwoByTwo& host : {TwoByTwo("mask=bytes", std::vector<std::uint8_t>{0, 0x80, 1, 0}),
                               TwoByTwo("mask=bits", std::vector<std::uint32_t>{0b10, 0b01})}) {
    EXPECT_EQ(host.row(0).output[0], 20);
    EXPECT_EQ(host.row(1).output[0], 10);
  }
}

TEST(TwoByTwo, AHiddenKeyIsHiddenWhateverItHolds) {
  TwoByTwo host("mask=bytes", std::vector<std::uint8_t>{0, 1, 1, 0});
  put(host.key, 0, kNan);
  put(host.value, 0, std::numeric_limits<float>::infinity());
  EXPECT_EQ(host.row(0).output[0], 20);
  EXPECT_EQ(host.row(0).lse, 1);
  EXPECT_EQ(host.row(0).score_magnitude, 1);
  EXPECT_TRUE(std::isnan(host.row(1).output[0])) << "the only key is seen";
  EXPECT_TRUE(std::isnan(host.row(1).lse));
}

TEST(TwoByTwo, Sink) {
  TwoByTwo host("sinks weights=probabilities");
  host.small.per_head[&AttentionTensors::sinks] = {2};
  const Row row = host.row(0);
  EXPECT_NEAR(row.output[0], mixed(3, 1, 2), 1e-12);
  EXPECT_NEAR(row.lse, std::log(std::exp(3) + std::exp(1) + std::exp(2)), 1e-12);
  EXPECT_NEAR(row.weights[0] + row.weights[1], 1 - std::exp(2 - row.lse), 1e-12);
}

TEST(TwoByTwo, ASinkOfARowThatSeesNothing) {
  TwoByTwo host("sinks mask=bytes", std::vector<std::uint8_t>(4, 0));
  HostProblem without_keys("2x0 d1 sinks");
  host.small.per_head[&AttentionTensors::sinks] =
      without_keys.small.per_head[&AttentionTensors::sinks] = {-7.5F};
  for (const Row& row : {host.row(0), without_keys.row(0, 0, 1)}) {
    EXPECT_EQ(row.output[0], 0);
    EXPECT_EQ(row.lse, -7.5);
    EXPECT_EQ(row.score_magnitude, 7.5);
  }
}

TEST(TwoByTwo, Alibi) {
  TwoByTwo host("alibi=given");
  host.small.per_head[&AttentionTensors::alibi_slopes] = {0.5F};
  EXPECT_NEAR(host.row(0).output[0], mixed(3, 1 - 0.5), 1e-12);
  EXPECT_NEAR(host.row(1).output[0], mixed(6 - 0.5, 2), 1e-12);
  EXPECT_EQ(host.row(1).score_magnitude, 6.5);
  TwoByTwo behind("alibi=given align=-3");  // query 0 lies at key -3
  behind.small.per_head[&AttentionTensors::alibi_slopes] = {0.5F};
  EXPECT_NEAR(behind.row(0).output[0], mixed(3 - 1.5, 1 - 2.0), 1e-12);
  const TwoByTwo standard("alibi align=-3");  // the slope of one head is 2^-8
  EXPECT_NEAR(standard.row(0).output[0], mixed(3 - 3.0 / 256, 1 - 4.0 / 256), 1e-12);
}

TEST(TwoByTwo, SlopesThatMultiplyTheMask) {
  TwoByTwo host("mask=f32 alibi=times-mask", std::vector<float>{-1, 0.5F, kHidden, 4});
  std::vector<float>& slopes = host.small.per_head[&AttentionTensors::alibi_slopes];
  for (const float slope : {0.5F, 0.0F, -2.0F}) {
    slopes = {slope};
    const auto factor = static_cast<double>(slope);
    EXPECT_NEAR(host.row(0).output[0], mixed(3 - factor, 1 + 0.5 * factor), 1e-12) << "no distance";
    EXPECT_EQ(host.row(0).score_magnitude, std::max(3 + std::abs(factor), 1 + 0.5 * std::abs(factor)));
    EXPECT_EQ(host.row(1).output[0], 20) << "minus infinity hides";
    EXPECT_EQ(host.row(1).lse, 2 + 4 * factor);
  }
  constexpr float kLargest = std::numeric_limits<float>::max();
  put<float>(host.mask, {-kLargest, -kLargest, kLargest, 0});
  slopes = {2};
  EXPECT_EQ(host.row(0).output[0], 15) << "both count as the lowest score";
  EXPECT_EQ(host.row(1).output[0], 10);
  for (const float odd : {static_cast<float>(kNan), -kHidden, kHidden}) {
    slopes = {odd};
    EXPECT_TRUE(std::isnan(host.row(0).output[0])) << odd;
  }
}

TEST(TwoByTwo, WeightsOfEachStage) {
  const auto weights = [](const std::string& stage, std::int64_t i) {
    const TwoByTwo host("mask=f32 softcap=4 causal weights=" + stage,
                        std::vector<float>{0.5F, -1, 0, kHidden});
    return host.row(i).weights;
  };
  EXPECT_EQ(weights("scores", 0), (std::vector<double>{3, 1})) << "a hidden key has its score";
  EXPECT_EQ(weights("scores", 1), (std::vector<double>{6, 2}));
  EXPECT_NEAR(weights("softcap", 0)[1], 4 * std::tanh(0.25), 1e-12);
  EXPECT_NEAR(weights("masked", 0)[0], 4 * std::tanh(0.75) + 0.5, 1e-12);
  EXPECT_EQ(weights("masked", 0)[1], -kInfinity) << "by causality";
  EXPECT_EQ(weights("masked", 1)[1], -kInfinity) << "by the mask";
  EXPECT_EQ(weights("probabilities", 0), (std::vector<double>{1, 0}));
  EXPECT_EQ(weights("probabilities", 1), (std::vector<double>{1, 0}));
}

TEST(TwoByTwo, WeightsOfKeysThatDoNotExist) {
  for (const std::string stage : {"scores", "softcap", "masked"}) {
    EXPECT_EQ(TwoByTwo("kv_lengths=1 weights=" + stage).row(0).weights, (std::vector<double>{3, -kInfinity}));
  }
  EXPECT_EQ(TwoByTwo("kv_lengths=1 weights=probabilities").row(0).weights, (std::vector<double>{1, 0}));
}

TEST(TwoByTwo, DropoutDropsSomeAndTheOthersGrow) {
  TwoByTwo host("dropout=0.25 weights=probabilities");
  std::uint64_t& seed = host.problem.dropout_seed;
  bool dropped = false, kept = false;
  for (seed = 0; seed < 100; ++seed) {
    const Row result = host.row(0);
    const double p = 1 / (1 + std::exp(-2.0));
    EXPECT_NEAR(result.weights[0], p, 1e-12) << "the weights are those before dropout";
    EXPECT_NEAR(result.lse, std::log(std::exp(3) + std::exp(1)), 1e-12) << "and so is the lse";
    const double first = p * 10 / 0.75, second = (1 - p) * 20 / 0.75;
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
