// Rules of layers, shapes of their parameters, and the parameters' first values.
#include <vkattn/multi_head_attention.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/host_problem.hpp"
#include "support/layer_reference.hpp"
#include "support/must.hpp"
#include "support/rule.hpp"
#include "support/text.hpp"
#include "unit/central_difference.hpp"

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

TEST(MultiHeadAttentionDescTest, WhatFollows) {
  const MultiHeadAttentionDesc desc = small_layer().resolved();
  EXPECT_EQ(message_of(validate(small_layer())), "");
  EXPECT_EQ(message_of(validate(desc)), "") << "what resolved() gives is a descriptor as well";
  EXPECT_EQ(desc.resolved(), desc);
  EXPECT_EQ(desc.attention.head_dim, 8);
  EXPECT_EQ(desc.attention.kv_length, 5);
  // The rows of Q, K and V lie in one matrix of 4 * 8 + 2 * 8 + 2 * 8 columns.
  EXPECT_EQ(desc.attention.query.strides, (Strides{5 * 64, 8, 64, 1}));
  EXPECT_EQ(desc.attention.value.strides, desc.attention.query.strides);
  MultiHeadAttentionDesc cross = small_layer();
  cross.inputs = LayerInputs::kCross;
  cross.attention.kv_length = 7;
  cross = cross.resolved();
  EXPECT_EQ(cross.attention.query.strides, (Strides{5 * 32, 8, 32, 1}));
  EXPECT_EQ(cross.attention.key.strides, (Strides{7 * 32, 8, 32, 1}));
}

void cross_keys_of_16(MultiHeadAttentionDesc& desc) {
  desc.inputs = LayerInputs::kCross;
  desc.attention.kv_length = 7;
  desc.key_input_dim = 16;
}

void cached(MultiHeadAttentionDesc& desc, std::int64_t kv_length) {
  desc.has_cache = true;
  desc.attention.kv_length = kv_length;
}

TEST(MultiHeadAttentionDescTest, MistakesAreRefused) {
  using D = MultiHeadAttentionDesc;
  const std::pair<const char*, void (*)(D&)> mistakes[] = {
      {"d_model is not set", [](D& d) { d.d_model = kUnset; }},
      {"30, which is no multiple of query_heads, 4", [](D& d) { d.d_model = 30; }},
      {"query_heads is 0", [](D& d) { d.attention.query_heads = 0; }},
      {"has 5 rows, but attention asks for 7 keys", [](D& d) { d.attention.kv_length = 7; }},
      {"have 32 elements, but key_input_dim is 16", [](D& d) { d.key_input_dim = 16; }},
      {"d_model is 32, key_input_dim 16 and value_input_dim 16", cross_keys_of_16},
      {"q8_0", [](D& d) { d.type = DataType::kQ8_0; }},
      {"has a type of its own", [](D& d) { d.attention.set_type(DataType::kFloat16); }},
      {"attention.key has strides",
       [](D& d) {
         d.attention.key.strides.emplace(Strides{1, 2, 3, 4});
       }},
      {"alignment_bytes is 2", [](D& d) { d.alignment_bytes = 2; }},
      {"kProbabilities", [](D& d) { d.has_averaged_weights = true; }},
      {"kBottomRight", [](D& d) { cached(d, 9), d.attention.causal = true; }},
      {"end at position 5 but the cache has room for 4", [](D& d) { cached(d, 4); }},
      {"rotary.dims is 12", [](D& d) { d.rotary.style = RotaryStyle::kHalfSplit, d.rotary.dims = 12; }},
      {"parameter_type is q8_0", [](D& d) { d.parameter_type = DataType::kQ8_0; }},
      {"weight_type is e4m3", [](D& d) { d.weight_type = DataType::kFloat8E4m3; }},
      {"out_proj.weight is q4_0, blocks of 32 along its inputs, but it has 36 of them; take another "
       "weight_type",
       [](D& d) { d.weight_type = DataType::kQ4_0, d.attention.value_dim = 9; }},
      {"weight_type is q8_0, which has no gradients",
       [](D& d) { d.weight_type = DataType::kQ8_0, d.saves_for_gradients = true; }}};
  for (const auto& [words, make] : mistakes) {
    MultiHeadAttentionDesc desc = small_layer();
    make(desc);
    EXPECT_TRUE(has(message_of(validate(desc)), words));
    expect_refused_in_c(desc, validate(desc).error());
  }
  MultiHeadAttentionDesc quantised = small_layer();
  quantised.weight_type = DataType::kQ8_0;
  EXPECT_EQ(message_of(validate(quantised)), "");
  MultiHeadAttentionBackwardDesc backward{.forward = small_layer()};
  EXPECT_TRUE(has(message_of(validate(backward)), "saves_for_gradients"));
  expect_refused_in_c(backward, validate(backward).error());
  backward.forward.saves_for_gradients = true;
  EXPECT_TRUE(validate(backward).ok());
  backward.attention.has_grad_sinks = true;
  EXPECT_TRUE(has(message_of(validate(backward)), "set has_sinks"));
  backward.forward.attention.has_sinks = true;
  backward.has_grad_query = backward.has_grad_key = backward.has_grad_value = false;
  backward.has_grad_parameters = false;
  EXPECT_TRUE(validate(backward).ok());
  EXPECT_EQ(backward.resolved().resolved(), backward.resolved());
  backward.attention.has_grad_lse = true;
  EXPECT_TRUE(has(message_of(validate(backward)), "a layer gives no lse"));
  backward.attention.has_grad_lse = false;
  backward.attention.has_grad_sinks = false;
  EXPECT_TRUE(has(message_of(validate(backward)), "no gradient is asked for"));
  backward.attention.has_grad_mask = true;
  EXPECT_TRUE(has(message_of(validate(backward)), "the mask is not there"));
  backward.forward.attention.query_lengths = Lengths::kPerEntry;
  EXPECT_TRUE(has(message_of(validate(backward)), "query_lengths is kPerEntry"));
}

TEST(MultiHeadAttentionDescTest, Parameters) {
  MultiHeadAttentionDesc desc = small_layer();
  const auto all = parameters(desc);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].name, "in_proj_weight");
  EXPECT_EQ(all[0].rows, 64);
  EXPECT_EQ(all[0].columns, 32);
  EXPECT_EQ(all[0].type, DataType::kFloat32);
  EXPECT_EQ(all[1].elements(), 64);
  EXPECT_EQ(all[3].name, "out_proj.bias");
  const std::vector<std::int64_t> wrong{64, 30}, right{64, 32};
  EXPECT_TRUE(check_parameter(desc, "in_proj_weight", right).ok());
  EXPECT_EQ(check_parameter(desc, "in_proj_weight", wrong).error().message,
            "in_proj_weight has the shape (64, 30), but the layer's is (64, 32)");
  EXPECT_EQ(check_parameter(desc, "bias_k", wrong).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(
      check_parameter(desc, "bias_k", wrong).error().message,
      "bias_k is a key or value that nn.MultiheadAttention(add_bias_kv=True) learns beside those of the "
      "input, which is not supported; train the model without add_bias_kv");
  EXPECT_EQ(check_parameter(desc, "bias", wrong).error().message,
            "the layer has no parameter bias; it has in_proj_weight, in_proj_bias, out_proj.weight, "
            "out_proj.bias");
  desc.packed_weights = desc.has_input_bias = desc.has_output_bias = false;
  EXPECT_EQ(parameters(desc).size(), 4U);
  desc.weight_type = DataType::kQ4_0;
  EXPECT_EQ(parameters(desc)[2].type, DataType::kQ4_0);
  EXPECT_TRUE(validate(quantise_desc(parameters(desc)[2])).ok());
}

/// Numbers of both signs that all differ.
std::vector<float> waves(std::int64_t count, double frequency) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(static_cast<double>(i) * frequency + 0.3));
  return values;
}

/// The reference's gradients of a mask, of slopes and of sinks equal the central differences of its output.
TEST(LayerReference, GradientsOfScoresAreCentralDifferences) {
  HostProblem host("5x7 b2 hq4 hkv2 d3 dv2 mask=f32:bqk alibi=given sinks softcap=2 dropout=0.2");
  MultiHeadAttentionDesc desc;
  desc.attention = host.problem.desc;
  AttentionDesc& heads = desc.attention;
  for (TensorDesc* tensor : {&heads.query, &heads.key, &heads.value, &heads.output}) tensor->strides.reset();
  desc.d_model = 6;
  desc.inputs = LayerInputs::kCross;
  desc = desc.resolved();
  LayerData data;
  data.inputs = {waves(2 * 5 * 6, 1.1), waves(2 * 7 * 6, 1.3), {}};
  double frequency = 0.7;
  for (const ParameterShape& each : parameters(desc))
    data.parameters[std::string(each.name)] = waves(each.elements(), frequency += 0.2);
  data.grad_mask = *desc.attention.mask.strides;
  const std::vector<float> weights = waves(2 * 5 * 6, 1.7);
  const auto loss = [&] {
    data.features = host.inputs();
    const std::vector<double> output = layer_reference(desc, data).output;
    double sum = 0;
    for (std::size_t i = 0; i < output.size(); ++i) sum += output[i] * static_cast<double>(weights[i]);
    return sum;
  };
  std::vector<float> mask = numbers<float>(host.mask);
  data.features = host.inputs();
  data.grad_output = weights;
  const LayerResults analytic = layer_reference(desc, data);
  data.grad_output.clear();
  expect_gradient(mask, analytic.grad_mask, [&] {
    put<float>(host.mask, mask);
    return loss();
  });
  put<float>(host.mask, mask);
  auto& per_head = host.small.per_head;
  expect_gradient(per_head[&AttentionTensors::alibi_slopes], analytic.grad_alibi_slopes, loss);
  expect_gradient(per_head[&AttentionTensors::sinks], analytic.grad_sinks, loss);
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
    // The fourth moment of uniform numbers is 9/5 of the variance's square, that of normal numbers 3 times
    // it.
    const bool is_uniform = expected.most < 1;
    EXPECT_NEAR(fourth / n / (variance * variance), is_uniform ? 1.8 : 3.0, 0.15);
  }
}

/// The exact numbers. std::mt19937_64 is the same everywhere, and so are numbers made from it.
TEST(InitialisationTest, TheSameNumbersEverywhere) {
  std::vector<float> uniform(4), normal(4);
  initialise(uniform, 8, 8, Initialisation::kXavierUniform, 42);
  initialise(normal, 8, 8, Initialisation::kHeNormal, 42, 2);
  const std::vector<float> expected_uniform{0x1.40001cp-2F, 0x1.5cbab4p-3F, 0x1.3c399ep-2F, -0x1.c82a1ep-2F};
  const std::vector<float> expected_normal{0x1.4b37d0p+0F, 0x1.68f438p-1F, 0x1.978762p-2F, -0x1.25efc2p-1F};
  EXPECT_EQ(uniform, expected_uniform);
  EXPECT_EQ(normal, expected_normal);
}

/// The numbers of all parameters of layers with neighbouring seeds. No number occurs twice except by chance.
/// A few may, because a float has steps of 2^-23.
TEST(InitialisationTest, NeighbouringSeedsShareNoNumbers) {
  MultiHeadAttentionDesc desc = small_layer();
  desc.packed_weights = false;
  std::set<float> different;
  std::size_t count = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    for (const ParameterShape& parameter : parameters(desc)) {
      if (parameter.columns == 0) continue;
      // All have the same width, so that equal numbers of the generator give equal values.
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
