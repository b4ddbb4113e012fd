// Rules of layers, shapes of their parameters, and first values.
#include <vkattn/multi_head_attention.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace vkattn::tests {
namespace {

MultiHeadAttentionDesc small_layer() {
  MultiHeadAttentionDesc desc;
  desc.attention.batch = 2;
  desc.attention.query_length = 5;
  desc.attention.query_heads = 4;
  desc.attention.kv_heads = 2;
  desc.d_model = 32;
  return desc;
}

std::string message_of(const MultiHeadAttentionDesc& desc) {
  const Result<void> status = validate(desc);
  return status.ok() ? std::string() : status.error().message;
}

TEST(MultiHeadAttentionDescTest, WhatFollows) {
  const MultiHeadAttentionDesc desc = small_layer().resolved();
  EXPECT_EQ(message_of(small_layer()), "");
  EXPECT_EQ(message_of(desc), "") << "what resolved() gives is a descriptor as well";
  EXPECT_EQ(desc.resolved(), desc);
  EXPECT_EQ(desc.attention.head_dim, 8);
  EXPECT_EQ(desc.attention.kv_length, 5);
  // Rows of Q, K and V lie in one matrix of 4 * 8 + 2 * 8 + 2 * 8 columns.
  EXPECT_EQ(desc.attention.query.strides, (Strides{5 * 64, 8, 64, 1}));
  EXPECT_EQ(desc.attention.value.strides, desc.attention.query.strides);
  MultiHeadAttentionDesc cross = small_layer();
  cross.inputs = LayerInputs::kCross;
  cross.attention.kv_length = 7;
  cross = cross.resolved();
  EXPECT_EQ(cross.attention.query.strides, (Strides{5 * 32, 8, 32, 1}));
  EXPECT_EQ(cross.attention.key.strides, (Strides{7 * 32, 8, 32, 1}));
}

TEST(MultiHeadAttentionDescTest, MistakesAreRefused) {
  const auto refused = [](const std::function<void(MultiHeadAttentionDesc&)>& change) {
    MultiHeadAttentionDesc desc = small_layer();
    change(desc);
    return message_of(desc);
  };
  using D = MultiHeadAttentionDesc;
  const auto has = [](const std::string& text, const char* words) {
    return text.find(words) != std::string::npos ? testing::AssertionSuccess()
                                                 : testing::AssertionFailure() << text;
  };
  EXPECT_TRUE(has(refused([](D& d) { d.d_model = kUnset; }), "d_model is not set"));
  EXPECT_TRUE(has(refused([](D& d) { d.d_model = 30; }), "30, which is no multiple of query_heads, 4"));
  EXPECT_TRUE(has(refused([](D& d) { d.attention.query_heads = 0; }), "query_heads is 0"));
  EXPECT_TRUE(
      has(refused([](D& d) { d.attention.kv_length = 7; }), "has 5 rows, but attention asks for 7 keys"));
  EXPECT_TRUE(has(refused([](D& d) { d.key_input_dim = 16; }), "have 32 elements, but key_input_dim is 16"));
  EXPECT_TRUE(has(refused([](D& d) {
                    d.inputs = LayerInputs::kCross;
                    d.attention.kv_length = 7;
                    d.key_input_dim = 16;
                  }),
                  "d_model is 32, key_input_dim 16 and value_input_dim 16"));
  EXPECT_TRUE(has(refused([](D& d) { d.type = DataType::kQ8_0; }), "q8_0"));
  EXPECT_TRUE(has(refused([](D& d) { d.attention.set_type(DataType::kFloat16); }), "has a type of its own"));
  EXPECT_TRUE(has(refused([](D& d) {
                    d.attention.key.strides = Strides{1, 2, 3, 4};
                  }),
                  "attention.key has strides"));
  EXPECT_TRUE(has(refused([](D& d) { d.alignment_bytes = 2; }), "alignment_bytes is 2"));
  EXPECT_TRUE(has(refused([](D& d) { d.has_averaged_weights = true; }), "kProbabilities"));
  EXPECT_TRUE(has(refused([](D& d) {
                    d.has_cache = d.attention.causal = true;
                    d.attention.kv_length = 9;
                  }),
                  "kBottomRight"));
  EXPECT_TRUE(has(refused([](D& d) {
                    d.has_cache = true;
                    d.attention.kv_length = 4;
                  }),
                  "end at position 5 but the cache has room for 4"));
  EXPECT_TRUE(has(refused([](D& d) {
                    d.rotary.style = RotaryStyle::kHalfSplit;
                    d.rotary.dims = 12;
                  }),
                  "rotary.dims is 12"));
  MultiHeadAttentionBackwardDesc backward{.forward = small_layer()};
  EXPECT_TRUE(has(validate(backward).error().message, "saves_for_gradients"));
  backward.forward.saves_for_gradients = true;
  EXPECT_TRUE(validate(backward).ok());
  backward.forward.attention.query_lengths = Lengths::kPerEntry;
  EXPECT_TRUE(has(validate(backward).error().message, "query_lengths is kPerEntry"));
}

TEST(MultiHeadAttentionDescTest, Parameters) {
  MultiHeadAttentionDesc desc = small_layer();
  const auto all = parameters(desc);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].name, "in_proj_weight");
  EXPECT_EQ(all[0].rows, 64);
  EXPECT_EQ(all[0].columns, 32);
  EXPECT_EQ(all[1].elements(), 64);
  EXPECT_EQ(all[3].name, "out_proj.bias");
  const std::vector<std::int64_t> wrong{64, 30}, right{64, 32};
  EXPECT_TRUE(check_parameter(desc, "in_proj_weight", right).ok());
  EXPECT_EQ(check_parameter(desc, "in_proj_weight", wrong).error().message,
            "in_proj_weight has the shape (64, 30), but the layer's is (64, 32)");
  EXPECT_EQ(check_parameter(desc, "bias_k", wrong).error().message,
            "the layer has no parameter bias_k; it has in_proj_weight, in_proj_bias, out_proj.weight, "
            "out_proj.bias");
  desc.packed_weights = desc.has_input_bias = desc.has_output_bias = false;
  EXPECT_EQ(parameters(desc).size(), 4U);
}

TEST(InitialisationTest, WidthsAndRepeats) {
  constexpr std::int64_t kIn = 300, kOut = 100;
  struct Expected {
    Initialisation how;
    double deviation, most;
  };
  for (const Expected& expected :
       {Expected{Initialisation::kXavierUniform, std::sqrt(2.0 / 400), std::sqrt(6.0 / 400)},
        {Initialisation::kXavierNormal, std::sqrt(2.0 / 400), 1},
        {Initialisation::kHeUniform, std::sqrt(2.0 / 300), std::sqrt(6.0 / 300)},
        {Initialisation::kHeNormal, std::sqrt(2.0 / 300), 1}}) {
    std::vector<float> values(kIn * kOut), again(values.size()), other(values.size());
    initialise(values, kIn, kOut, expected.how, 1);
    initialise(again, kIn, kOut, expected.how, 1);
    initialise(other, kIn, kOut, expected.how, 2);
    EXPECT_EQ(values, again);
    EXPECT_NE(values, other);
    double sum = 0, squares = 0, fourth = 0;
    for (const float value : values) {
      const auto v = static_cast<double>(value);
      EXPECT_LE(std::abs(v), expected.most * (1 + 0x1p-24));
      sum += v;
      squares += v * v;
      fourth += v * v * v * v;
    }
    const auto n = static_cast<double>(values.size());
    const double variance = expected.deviation * expected.deviation;
    EXPECT_NEAR(sum / n, 0, 5 * expected.deviation / std::sqrt(n));
    EXPECT_NEAR(squares / n, variance, 5 * variance * std::sqrt(2 / n));
    // Uniform numbers have 9/5 of the variance's square as their fourth moment, normal ones 3 times it.
    const bool is_uniform = expected.most < 1;
    EXPECT_NEAR(fourth / n / (variance * variance), is_uniform ? 1.8 : 3.0, 0.15);
  }
}

/// The very numbers: std::mt19937_64 is the same everywhere, and so is what is made of it.
TEST(InitialisationTest, TheSameNumbersEverywhere) {
  std::vector<float> uniform(4), normal(4);
  initialise(uniform, 8, 8, Initialisation::kXavierUniform, 42);
  initialise(normal, 8, 8, Initialisation::kHeNormal, 42, 2);
  const std::vector<float> expected_uniform{0x1.40001cp-2F, 0x1.5cbab4p-3F, 0x1.3c399ep-2F, -0x1.c82a1ep-2F};
  const std::vector<float> expected_normal{0x1.4b37d0p+0F, 0x1.68f438p-1F, 0x1.978762p-2F, -0x1.25efc2p-1F};
  EXPECT_EQ(uniform, expected_uniform);
  EXPECT_EQ(normal, expected_normal);
}

/// Numbers of all parameters of layers with neighbouring seeds: none occurs twice but by chance, of which
/// 2^-23 steps of a float leave room for a few.
TEST(InitialisationTest, NeighbouringSeedsShareNoNumbers) {
  MultiHeadAttentionDesc desc = small_layer();
  desc.packed_weights = false;
  std::set<float> different;
  std::size_t count = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    for (const ParameterShape& parameter : parameters(desc)) {
      if (parameter.columns == 0) continue;
      // As wide for all, so that one number of the generator would be one value.
      const ParameterShape square{parameter.name, parameter.range, 16, 16};
      const std::vector<float> values = initial_values(square, Initialisation::kXavierUniform, seed);
      EXPECT_EQ(values, initial_values(square, Initialisation::kXavierUniform, seed));
      different.insert(values.begin(), values.end());
      count += values.size();
    }
  }
  EXPECT_EQ(count, 4U * 4 * 256);
  EXPECT_GE(different.size(), count - 16);
}

}  // namespace
}  // namespace vkattn::tests
