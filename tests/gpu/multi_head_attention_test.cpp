// Layers of multi-head attention against float64: inputs, sizes, features, types, gradients, and the same
// bits each time.
#include <vkattn/multi_head_attention.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/layer_run.hpp"
#include "gpu/support.hpp"
#include "harness/problem_run.hpp"
#include "support/host_problem.hpp"

namespace vkattn::tests {
namespace {

class MultiHeadAttentionTest : public GpuTest {
 protected:
  /// A layer whose attention is what a problem string says, with gradients.
  static MultiHeadAttentionDesc layer(std::string_view problem, std::int64_t d_model,
                                      LayerInputs inputs = LayerInputs::kSelf) {
    MultiHeadAttentionDesc desc;
    desc.attention = desc_of(problem);
    AttentionDesc& heads = desc.attention;
    for (TensorDesc* tensor : {&heads.query, &heads.key, &heads.value, &heads.output})
      tensor->strides.reset();
    desc.d_model = d_model;
    desc.inputs = inputs;
    desc.saves_for_gradients = true;
    return desc;
  }

  /// Runs a layer's passes; compares what they write, and what they write once more.
  void expect_right(std::string_view problem, const MultiHeadAttentionDesc& desc,
                    MultiHeadAttentionBackwardDesc backward = {}, std::int64_t shift = 0) {
    SCOPED_TRACE(problem);
    const Problem its = parsed(problem);
    const HostProblem host(its);
    auto features = harness::ProblemRun::create(runtime(), its);
    ASSERT_TRUE(features.ok()) << features.error().message;
    ASSERT_TRUE(features->fill_inputs().ok());
    LayerData data = random_layer_data(desc, 7);
    data.features = host.inputs();
    data.frequencies = frequencies;
    auto run = LayerRun::create(runtime(), desc, data, features->tensors(), shift);
    ASSERT_TRUE(run.ok()) << run.error().message;
    const auto plan = runtime().make_multi_head_attention_plan(desc);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    std::optional<MultiHeadAttentionBackwardPlan> gradients;
    if (desc.saves_for_gradients) {
      backward.forward = desc;
      auto made = runtime().make_multi_head_attention_backward_plan(backward);
      ASSERT_TRUE(made.ok()) << made.error().message;
      gradients = *made;
    }
    const auto execute = [&] {
      const Result<void> forward = run->execute(*plan);
      if (!forward.ok() || !gradients) return forward;
      return run->execute(*gradients);
    };
    const Result<void> done = execute();
    ASSERT_TRUE(done.ok()) << done.error().message;
    double share = 0;
    EXPECT_EQ(run->check(layer_reference(desc.resolved(), data), share), "") << plan->describe();
    largest_share_ = std::max(largest_share_, share);
    const auto first = run->bytes();
    ASSERT_TRUE(execute().ok());
    const auto second = run->bytes();
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_TRUE(*first == *second) << "two runs differ";
  }
  void expect_right(std::string_view problem, std::int64_t d_model, LayerInputs inputs = LayerInputs::kSelf) {
    expect_right(problem, layer(problem, d_model, inputs));
  }

  void TearDown() override {
    RecordProperty("largest_share", std::to_string(largest_share_));
    GpuTest::TearDown();
  }

  std::vector<float> frequencies;

 private:
  double largest_share_ = 0;
};

TEST_F(MultiHeadAttentionTest, RaggedSizes) {
  struct Size {
    const char* problem;
    std::int64_t d_model;
  };
  for (const Size& size : part_of<Size>({{"1x1 d1", 1},
                                         {"3x3 b2 d4", 5},
                                         {"33x33 d20 dv12 hq2", 33},
                                         {"65x65 b2 d16 hq4", 64},
                                         {"17x17 b3 d8 hq3", 31},
                                         {"64x64 d32 hq2", 70},
                                         {"129x129 d5 dv7 hq3", 17}})) {
    expect_right(size.problem, size.d_model);
  }
}

TEST_F(MultiHeadAttentionTest, InputsAndWeights) {
  struct Form {
    LayerInputs inputs;
    bool packed;
    std::int64_t key_input_dim, value_input_dim;
  };
  for (const Form& form : part_of<Form>({{LayerInputs::kCross, true, 40, 40},
                                         {LayerInputs::kSeparate, true, 40, 40},
                                         {LayerInputs::kCross, false, 24, 24},
                                         {LayerInputs::kSeparate, false, 24, 33}})) {
    const char* const problem = "19x45 b2 d12 dv20 hq4 hkv2";
    MultiHeadAttentionDesc desc = layer(problem, 40, form.inputs);
    desc.packed_weights = form.packed;
    desc.key_input_dim = form.key_input_dim;
    desc.value_input_dim = form.value_input_dim;
    expect_right(problem, desc);
  }
}

TEST_F(MultiHeadAttentionTest, SeparateWeightsOfOneInput) {
  const char* const problem = "37x37 b2 d12 hq4 hkv2 causal";
  MultiHeadAttentionDesc desc = layer(problem, 45);
  desc.packed_weights = false;
  desc.rotary.style = RotaryStyle::kHalfSplit;
  desc.rotary.dims = 12;
  expect_right(problem, desc);
}

TEST_F(MultiHeadAttentionTest, Features) {
  for (const char* const words :
       part_of<const char*>({"causal", "causal align=bottom-right", "window=9,3", "kv_lengths=31,40",
                             "sequences query_lengths=20,33 kv_lengths=20,33", "mask=f32:bhqk hidden=0.3",
                             "mask=bytes:bk hidden=0.3", "mask=bits:qk hidden=0.5", "softcap=2", "alibi",
                             "sinks", "dropout=0.3", "dropout=0.1 causal kv_lengths=31,40"})) {
    expect_right(std::string("40x40 b2 hq4 hkv2 d12 dv20 ") + words, 36);
  }
}

TEST_F(MultiHeadAttentionTest, LengthsOfQueriesGoForwardOnly) {
  const char* const problem = "40x40 b2 hq2 d12 query_lengths=17,40 kv_lengths=20,40";
  MultiHeadAttentionDesc desc = layer(problem, 24);
  desc.saves_for_gradients = false;
  expect_right(problem, desc);
}

TEST_F(MultiHeadAttentionTest, Weights) {
  for (const char* const problem :
       part_of<const char*>({"33x33 b2 hq4 d8 causal", "40x40 b2 hq3 d12 kv_lengths=31,40 dropout=0.2"})) {
    MultiHeadAttentionDesc desc = layer(problem, 36);
    desc.saves_for_gradients = false;
    desc.attention.weights = WeightsStage::kProbabilities;
    desc.has_averaged_weights = true;
    expect_right(problem, desc);
  }
}

TEST_F(MultiHeadAttentionTest, Types) {
  struct Types {
    DataType rows, parameters, gradients;
    bool packed;
  };
  constexpr DataType k32 = DataType::kFloat32, k16 = DataType::kFloat16, kB = DataType::kBfloat16;
  for (const Types& types : part_of<Types>({{k16, k16, k16, true},
                                            {kB, kB, kB, false},
                                            {k16, k32, k32, false},
                                            {kB, k32, k32, true},
                                            {k32, kB, k32, true},
                                            {kB, k16, kB, true}})) {
    const char* const problem = "37x37 b2 hq4 hkv2 d16 dv8 causal";
    MultiHeadAttentionDesc desc = layer(problem, 33);
    desc.type = types.rows;
    desc.parameter_type = types.parameters;
    desc.packed_weights = types.packed;
    desc.alignment_bytes = 0;
    MultiHeadAttentionBackwardDesc backward;
    backward.grad_parameter_type = types.gradients;
    expect_right(problem, desc, backward, 1);
  }
}

TEST_F(MultiHeadAttentionTest, WithoutBiasesAndSomeGradients) {
  for (const int wanted : part_of<int>({1, 2, 4, 8, 13, 7})) {
    const char* const problem = "19x45 b2 d12 hq4";
    MultiHeadAttentionDesc desc = layer(problem, 28, LayerInputs::kSeparate);
    desc.has_input_bias = wanted > 7;
    desc.has_output_bias = wanted % 3 == 1;
    MultiHeadAttentionBackwardDesc backward;
    backward.has_grad_query = (wanted & 1) != 0;
    backward.has_grad_key = (wanted & 2) != 0;
    backward.has_grad_value = (wanted & 4) != 0;
    backward.has_grad_parameters = (wanted & 8) != 0;
    expect_right(problem, desc, backward);
  }
}

TEST_F(MultiHeadAttentionTest, AddsToWhatIsThere) {
  for (const bool packed : {true, false}) {
    const char* const problem = "19x19 b2 d12 hq2 causal";
    MultiHeadAttentionDesc desc = layer(problem, 28);
    desc.packed_weights = packed;
    desc.adds_to_output = true;
    MultiHeadAttentionBackwardDesc backward;
    backward.adds_to_inputs = backward.adds_to_parameters = true;
    expect_right(problem, desc, backward);
  }
}

/// Without a mask, rows of the input in another order give those rows of the output in that order; weights
/// of a row sum to 1.
TEST_F(MultiHeadAttentionTest, OrderAndSums) {
  const char* const problem = "33x33 hq3 d12";
  MultiHeadAttentionDesc desc = layer(problem, 36);
  desc.saves_for_gradients = false;
  desc.attention.weights = WeightsStage::kProbabilities;
  LayerData data = random_layer_data(desc, 3);
  const auto plan = runtime().make_multi_head_attention_plan(desc);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto outputs = [&]() -> std::pair<std::vector<float>, std::vector<float>> {
    auto run = LayerRun::create(runtime(), desc, data, {});
    if (!run.ok() || !run->execute(*plan).ok()) return {};
    return {run->read("output"), run->read("weights")};
  };
  const auto [first, weights] = outputs();
  ASSERT_EQ(first.size(), 33U * 36);
  for (std::size_t row = 0; row < 3 * 33; ++row) {
    const auto begin = weights.begin() + static_cast<std::ptrdiff_t>(row * 33);
    EXPECT_NEAR(std::accumulate(begin, begin + 33, 0.0), 1.0, 0x1p-20);
  }
  std::vector<float>& input = data.inputs[0];
  std::rotate(input.begin(), input.begin() + 5 * 36, input.end());
  const auto second = outputs().first;
  ASSERT_EQ(second.size(), first.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_NEAR(second[i], first[(i + 5 * 36) % first.size()], 0x1p-17F);
  }
}

/// Dispatches in slices, each in a submission of its own, and less at a time, give the same bits.
TEST_F(MultiHeadAttentionTest, Slices) {
  const char* const problem = "40x40 b2 hq4 d12 causal";
  const MultiHeadAttentionDesc desc = layer(problem, 36);
  const LayerData data = random_layer_data(desc, 3);
  auto run = LayerRun::create(runtime(), desc, data, {});
  const auto plan = runtime().make_multi_head_attention_plan(desc);
  const auto backward = runtime().make_multi_head_attention_backward_plan({.forward = desc});
  ASSERT_TRUE(run.ok() && plan.ok() && backward.ok());
  ASSERT_TRUE(run->execute(*plan).ok() && run->execute(*backward).ok());
  EXPECT_EQ(plan->dispatches().size(), plan->requirements().dispatches);
  const auto whole = run->bytes();
  ASSERT_TRUE(run->execute(*plan, 1).ok() && run->execute(*backward, 2).ok());
  const auto sliced = run->bytes();
  ASSERT_TRUE(whole.ok() && sliced.ok());
  EXPECT_TRUE(*whole == *sliced);
}

TEST_F(MultiHeadAttentionTest, MistakesAreRefused) {
  const MultiHeadAttentionDesc desc = layer("8x8 b2 hq2 d4", 8);
  const LayerData data = random_layer_data(desc, 3);
  auto run = LayerRun::create(runtime(), desc, data, {});
  const auto plan = runtime().make_multi_head_attention_plan(desc);
  ASSERT_TRUE(run.ok() && plan.ok());
  ASSERT_TRUE(run->execute(*plan).ok());
  const Buffer workspace = runtime().create_buffer(1 << 20).value();
  const auto refused = [&](const std::function<void(MultiHeadAttentionTensors&)>& change) {
    MultiHeadAttentionTensors tensors = run->tensors();
    change(tensors);
    const auto bindings = plan->make_bindings(tensors, workspace.range());
    return bindings.ok() ? std::string() : bindings.error().message;
  };
  EXPECT_EQ(refused([](MultiHeadAttentionTensors&) {}), "");
  EXPECT_EQ(refused([](MultiHeadAttentionTensors& t) { t.parameters.in_proj_weight.size = 700; }),
            "in_proj_weight is (24, 8) f32, which takes a range of 768 bytes, but its range has 700");
  EXPECT_EQ(refused([](MultiHeadAttentionTensors& t) { t.query = {}; }),
            "query is (2, 8, 8) f32, 512 bytes, but its buffer is null");
  EXPECT_NE(refused([](MultiHeadAttentionTensors& t) { t.output.offset += 4; }).find("no multiple of 16"),
            std::string::npos);
  EXPECT_NE(refused([](MultiHeadAttentionTensors& t) { t.saved.size -= 4; }).find("saved is ("),
            std::string::npos);
  MultiHeadAttentionOptions options;
  options.attention_plan = runtime().make_plan(desc_of("8x8 d4")).value();
  EXPECT_FALSE(runtime().make_multi_head_attention_plan(desc, options).ok());
  options = {};
  options.matmul_kernel = "fast";
  EXPECT_FALSE(runtime().make_multi_head_attention_plan(desc, options).ok());
}

TEST_F(MultiHeadAttentionTest, Rotary) {
  struct Form {
    RotaryStyle style;
    const char* problem;
    std::vector<float> frequencies;
  };
  for (const Form& form :
       part_of<Form>({{RotaryStyle::kInterleaved, "40x40 b2 hq4 hkv2 d12 dv20 causal", {}},
                      {RotaryStyle::kHalfSplit,
                       "40x40 b2 hq4 d12 causal sequences query_lengths=20,33 kv_lengths=20,33",
                       {1.0F, 0.5F, -0.3F, 0.01F}}})) {
    MultiHeadAttentionDesc desc = layer(form.problem, 36);
    desc.rotary.style = form.style;
    desc.rotary.dims = 8;
    desc.rotary.magnitude = 1.1F;
    frequencies = form.frequencies;
    desc.rotary.has_frequencies = !frequencies.empty();
    expect_right(form.problem, desc);
  }
}

}  // namespace
}  // namespace vkattn::tests
