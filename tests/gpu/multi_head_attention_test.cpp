// Compares layers of multi-head attention with float64: inputs, sizes, features, types, gradients. Every run
// gives the same bits.
#include <vkattn/multi_head_attention.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/layer_run.hpp"
#include "gpu/support.hpp"
#include "harness/problem_run.hpp"
#include "problem/gradients.hpp"
#include "support/host_problem.hpp"

namespace vkattn::tests {
namespace {

/// A layer with gradients. A problem string describes its attention.
MultiHeadAttentionDesc layer(std::string_view problem, std::int64_t d_model,
                             LayerInputs inputs = LayerInputs::kSelf) {
  MultiHeadAttentionDesc desc;
  desc.attention = desc_of(problem);
  AttentionDesc& heads = desc.attention;
  for (TensorDesc* tensor : {&heads.query, &heads.key, &heads.value, &heads.output}) tensor->strides.reset();
  desc.d_model = d_model;
  desc.inputs = inputs;
  desc.saves_for_gradients = true;
  return desc;
}

/// A layer, its gradients, and the layout of its tensors.
struct LayerForm {
  std::string problem;  ///< problem string of its attention
  MultiHeadAttentionDesc desc;
  MultiHeadAttentionBackwardDesc backward{};
  std::int64_t shift = 0;
  std::vector<float> frequencies{};
};

LayerForm form_of(const std::string& problem, std::int64_t d_model, LayerInputs inputs = LayerInputs::kSelf) {
  return {problem, layer(problem, d_model, inputs)};
}

class MultiHeadAttentionTest : public GpuTest {
 protected:
  /// Runs the passes of a layer. Compares the outputs with the reference and between runs.
  void expect_right(const LayerForm& form, int runs = 2) {
    SCOPED_TRACE(form.problem);
    const MultiHeadAttentionDesc& desc = form.desc;
    const Problem its = parsed(form.problem);
    const HostProblem host(its);
    auto features = must(harness::ProblemRun::create(runtime(), its));
    must(features.fill_inputs());
    LayerData data = random_layer_data(desc, 7);
    data.features = host.inputs();
    data.frequencies = form.frequencies;
    auto run = LayerRun::create(runtime(), desc, data, features.tensors(), form.shift);
    const auto plan = must(runtime().make_plan(desc));
    std::optional<MultiHeadAttentionBackwardPlan> gradients;
    if (desc.saves_for_gradients) {
      const MultiHeadAttentionBackwardDesc backward = wanted_gradients(form, data);
      gradients = must(runtime().make_plan(backward));
    }
    const auto execute = [&] {
      run.execute(plan);
      if (gradients) run.execute(*gradients);
    };
    execute();
    double share = 0;
    EXPECT_EQ(run.check(layer_reference(desc.resolved(), data), share), "") << plan.describe();
    largest_share_ = std::max(largest_share_, share);
    const auto first = run.bytes();
    for (int i = 1; i < runs; ++i) {
      execute();
      ASSERT_TRUE(run.bytes() == first) << "run " << i << " differs";
    }
  }
  /// The gradients that the form asks for, and those of all inputs of its scores.
  static MultiHeadAttentionBackwardDesc wanted_gradients(const LayerForm& form, LayerData& data) {
    MultiHeadAttentionBackwardDesc backward = form.backward;
    backward.forward = form.desc;
    const BackwardDesc all = bench::with_all_gradients(form.desc.attention);
    backward.attention.has_grad_mask = all.has_grad_mask;
    backward.attention.has_grad_alibi_slopes = all.has_grad_alibi_slopes;
    backward.attention.has_grad_sinks = all.has_grad_sinks;
    data.grad_mask = *backward.resolved().attention.grad_mask->strides;
    return backward;
  }
  void TearDown() override {
    RecordProperty("largest_share", std::to_string(largest_share_));
    GpuTest::TearDown();
  }

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
    expect_right(form_of(size.problem, size.d_model));
  }
}

/// Adds inputs and their sizes, and weights in one tensor or in several.
void add_inputs(std::vector<LayerForm>& forms) {
  for (const LayerInputs inputs : {LayerInputs::kCross, LayerInputs::kSeparate}) {
    for (const bool packed : {true, false}) {
      LayerForm& form = forms.emplace_back(form_of("19x45 b2 d12 dv20 hq4 hkv2", 40, inputs));
      form.desc.packed_weights = packed;
      if (packed) continue;
      form.desc.key_input_dim = 24;
      form.desc.value_input_dim = inputs == LayerInputs::kCross ? 24 : 33;
    }
  }
}

/// Adds outputs that are asked for or left out, by the bits of a number.
void add_outputs(std::vector<LayerForm>& forms) {
  for (const unsigned wanted : {1U, 2U, 4U, 8U, 13U, 7U}) {
    LayerForm& form = forms.emplace_back(form_of("19x45 b2 d12 hq4", 28, LayerInputs::kSeparate));
    form.desc.has_input_bias = wanted > 7;
    form.desc.has_output_bias = wanted % 3 == 1;
    form.backward.has_grad_query = (wanted & 1U) != 0;
    form.backward.has_grad_key = (wanted & 2U) != 0;
    form.backward.has_grad_value = (wanted & 4U) != 0;
    form.backward.has_grad_parameters = (wanted & 8U) != 0;
  }
  for (const bool packed : {true, false}) {
    LayerForm& form = forms.emplace_back(form_of("19x19 b2 d12 hq2 causal", 28));
    form.desc.packed_weights = packed;
    form.desc.adds_to_output = form.backward.adds_to_inputs = form.backward.adds_to_parameters = true;
  }
}

TEST_F(MultiHeadAttentionTest, InputsAndOutputs) {
  std::vector<LayerForm> forms;
  add_inputs(forms);
  add_outputs(forms);
  for (const LayerForm& form : part_of(std::span<const LayerForm>(forms))) expect_right(form);
}

void add_types(std::vector<LayerForm>& forms) {
  struct Types {
    DataType rows, parameters, gradients;
    bool packed;
    LayerInputs inputs = LayerInputs::kSelf;
  };
  constexpr DataType k32 = DataType::kFloat32, k16 = DataType::kFloat16, kB = DataType::kBfloat16;
  for (const Types& types : {Types{k16, k16, k16, true},
                             {kB, kB, kB, false},
                             {k16, k32, k32, false},
                             {kB, k32, k32, true},
                             {k32, kB, k32, true},
                             {kB, k16, kB, true},
                             // Gradients of packed weights begin elsewhere than the weights do.
                             {k32, k16, k32, true, LayerInputs::kCross}}) {
    LayerForm& form = forms.emplace_back(form_of("37x37 b2 hq4 hkv2 d16 dv8 causal", 33, types.inputs));
    form.desc.type = types.rows;
    form.desc.parameter_type = types.parameters;
    form.desc.packed_weights = types.packed;
    form.desc.alignment_bytes = 0;
    form.backward.grad_parameter_type = types.gradients;
    form.shift = 1;
  }
}

void add_rotary(std::vector<LayerForm>& forms) {
  for (const char* const problem :
       {"40x40 b2 hq4 hkv2 d12 dv20 causal",
        "40x40 b2 hq4 d12 causal sequences query_lengths=20,33 kv_lengths=20,33"}) {
    for (const bool packed : {true, false}) {
      LayerForm& form = forms.emplace_back(form_of(problem, 36));
      form.desc.packed_weights = packed;
      form.desc.rotary.style = packed ? RotaryStyle::kInterleaved : RotaryStyle::kHalfSplit;
      form.desc.rotary.dims = 8;
      form.desc.rotary.magnitude = 1.1F;
      form.desc.rotary.inverse = !packed;
      form.desc.rotary.has_frequencies = packed;
      if (packed) form.frequencies = {1.0F, 0.5F, -0.3F, 0.01F};
    }
  }
}

/// Adds a form with only the gradients of the scores' inputs. The mask's gradient is summed over the batch,
/// although the mask does not repeat along it.
void add_score_gradients(std::vector<LayerForm>& forms) {
  LayerForm& form = forms.emplace_back(form_of("20x20 b2 hq4 hkv2 d12 mask=f32:bhqk hidden=0.3 sinks", 36));
  form.desc.type = DataType::kFloat16;
  MultiHeadAttentionBackwardDesc& wanted = form.backward;
  wanted.has_grad_query = wanted.has_grad_key = wanted.has_grad_value = wanted.has_grad_parameters = false;
  wanted.attention.grad_mask = TensorDesc{DataType::kFloat16, Strides{0, 20 * 20, 20, 1}, 0};
}

TEST_F(MultiHeadAttentionTest, FeaturesAndTypes) {
  std::vector<LayerForm> forms;
  add_types(forms);
  add_rotary(forms);
  for (const char* const words :
       {"causal", "causal align=bottom-right", "window=9,3", "kv_lengths=31,40",
        "sequences query_lengths=20,33 kv_lengths=20,33", "mask=f32:bhqk hidden=0.3",
        "mask=bytes:bk hidden=0.3", "mask=bits:qk hidden=0.5", "softcap=2", "alibi", "alibi=given align=3",
        "sinks", "dropout=0.3", "dropout=0.1 causal kv_lengths=31,40",
        "mask=f16:hq alibi=given sinks softcap=2 dropout=0.2 kv_lengths=31,40"}) {
    forms.push_back(form_of(std::string("40x40 b2 hq4 hkv2 d12 dv20 ") + words, 36));
  }
  add_score_gradients(forms);
  for (const LayerForm& form : part_of(std::span<const LayerForm>(forms))) expect_right(form);
}

TEST_F(MultiHeadAttentionTest, WithoutGradients) {
  for (const char* const problem :
       part_of<const char*>({"33x33 b2 hq4 d8 causal", "40x40 b2 hq3 d12 kv_lengths=31,40 dropout=0.2"})) {
    LayerForm form = form_of(problem, 36);
    form.desc.saves_for_gradients = false;
    form.desc.attention.weights = WeightsStage::kProbabilities;
    form.desc.has_averaged_weights = true;
    expect_right(form);
  }
  LayerForm form = form_of("40x40 b2 hq2 d12 query_lengths=17,40 kv_lengths=20,40", 24);
  form.desc.saves_for_gradients = false;
  expect_right(form);
}

/// Weights in blocks. The weights of K begin within a tensor, and rows begin at any place.
TEST_F(MultiHeadAttentionTest, QuantisedWeights) {
  struct Form {
    DataType type, rows;
    bool packed;
    LayerInputs inputs;
  };
  constexpr DataType k32 = DataType::kFloat32, k16 = DataType::kFloat16;
  for (const Form& each : part_of<Form>({{DataType::kQ8_0, k32, true, LayerInputs::kCross},
                                         {DataType::kQ4_0, k16, true, LayerInputs::kSelf},
                                         {DataType::kQ4_0, k32, false, LayerInputs::kSeparate}})) {
    LayerForm form = form_of("9x9 b2 hq3 d12 dv32", 64, each.inputs);
    MultiHeadAttentionDesc& desc = form.desc;
    desc.saves_for_gradients = false;
    desc.type = each.rows;
    desc.parameter_type = k32;
    desc.weight_type = each.type;
    desc.packed_weights = each.packed;
    desc.alignment_bytes = 0;
    form.shift = 1;
    expect_right(form);
  }
}

/// The append that makes blocks of a weight writes what the format says.
TEST_F(MultiHeadAttentionTest, WeightsAreQuantisedOnTheDevice) {
  const ParameterShape weight{"", nullptr, 3, 1600, DataType::kQ4_0};  // more than a head may have
  std::vector<float> numbers(static_cast<std::size_t>(weight.elements()));
  initialise(numbers, weight.columns, weight.rows, Initialisation::kHeNormal, 5);
  const std::vector<std::byte> expected = stored_parameter(weight, numbers);
  const Buffer floats = filled_buffer(runtime(), numbers);
  const Buffer blocks = runtime().create_buffer(expected.size()).value();
  const auto plan = must(runtime().make_plan(quantise_desc(weight)));
  AppendTensors tensors;
  tensors.key = floats.range();
  tensors.cache_key = blocks.range();
  bind_and_execute(runtime(), plan, tensors);
  EXPECT_TRUE(elements_of<std::byte>(runtime(), blocks, expected.size()) == expected);
}

TEST_F(MultiHeadAttentionTest, TheSameBitsEachTime) {
  expect_right(form_of("19x19 b2 d12 hq4 hkv2 causal dropout=0.2 sinks", 28), kSameBitsRuns);
}

/// Dispatches in slices, each with its own submission, and smaller dispatches, give the same bits.
TEST_F(MultiHeadAttentionTest, Slices) {
  const MultiHeadAttentionDesc desc = layer("40x40 b2 hq4 d12 causal", 36);
  const LayerData data = random_layer_data(desc, 3);
  auto run = LayerRun::create(runtime(), desc, data, {});
  const auto plan = must(runtime().make_plan(desc));
  const auto backward = must(runtime().make_plan(MultiHeadAttentionBackwardDesc{.forward = desc}));
  run.execute(plan);
  run.execute(backward);
  EXPECT_EQ(plan.dispatches().size(), plan.requirements().dispatches);
  const auto whole = run.bytes();
  run.execute(plan, 1);
  run.execute(backward, 2);
  EXPECT_TRUE(run.bytes() == whole);
}

/// With push descriptors the workspace holds parameters, and the shares of heads by which weights are
/// averaged.
TEST_F(MultiHeadAttentionTest, PushDescriptorsGiveTheSameBits) {
  if (!capabilities().push_descriptors) GTEST_SKIP() << "the device has no VK_KHR_push_descriptor";
  MultiHeadAttentionOptions pushes;
  pushes.push_descriptors = true;
  struct Form {
    const char* problem;
    std::int64_t d_model;
    bool averages;
  };
  // The shares of the last form need more bytes than one update of a buffer takes.
  for (const Form& form :
       {Form{"40x40 b2 hq4 hkv2 d12 causal dropout=0.3", 36, false},
        Form{"40x40 b2 hq4 hkv2 d12 causal dropout=0.3", 36, true}, Form{"1x1 hq16640 hkv1 d1", 4, true}}) {
    MultiHeadAttentionDesc desc = layer(form.problem, form.d_model);
    if (form.averages) {
      desc.saves_for_gradients = false;
      desc.attention.weights = WeightsStage::kProbabilities;
      desc.has_averaged_weights = true;
    }
    AttentionTensors features;
    features.dropout_seed = 5;
    auto run = LayerRun::create(runtime(), desc, random_layer_data(desc, 3), features);
    const auto run_passes = [&](const MultiHeadAttentionOptions& options) {
      run.execute(must(runtime().make_plan(desc, options)));
      if (!form.averages) {
        run.execute(must(runtime().make_plan(MultiHeadAttentionBackwardDesc{.forward = desc}, options)));
      }
      return run.bytes();
    };
    const auto bound = run_passes({});
    EXPECT_TRUE(run_passes(pushes) == bound) << form.problem;
  }
}

/// A complete block mask is not computed. Its computation would be in the middle of a layer's dispatches.
TEST_F(MultiHeadAttentionTest, CompleteBlockMasksAreNotComputed) {
  const std::string problem = "9x300 b2 hq2 d12 mask=f32:qk hidden=0.5";
  LayerForm form = form_of(problem, 24, LayerInputs::kCross);
  form.desc.saves_for_gradients = false;
  auto features = must(harness::ProblemRun::create(runtime(), parsed(problem)));
  must(features.fill_inputs());
  AttentionTensors tensors = features.tensors();
  const auto plan = must(runtime().make_plan(form.desc));
  const VkDeviceSize bytes = plan.range_bytes(&AttentionTensors::block_mask);
  ASSERT_GT(bytes, 0U);
  const Buffer mask = runtime().create_buffer(bytes).value();
  tensors.block_mask = mask.range();
  LayerData data = random_layer_data(form.desc, 3);
  auto computes = LayerRun::create(runtime(), form.desc, data, tensors);
  computes.execute(plan);
  const auto all = computes.bytes();
  tensors.block_mask_complete = true;
  auto keeps = LayerRun::create(runtime(), form.desc, data, tensors);
  keeps.execute(plan);
  EXPECT_TRUE(keeps.bytes() == all);
  keeps.execute(plan, 1);
  EXPECT_TRUE(keeps.bytes() == all) << "in slices";
  // A mask that hides everything shows that it was read.
  must(runtime().write(mask, 0, std::vector<std::byte>(bytes)));
  keeps.execute(plan);
  EXPECT_FALSE(keeps.bytes() == all);
}

TEST_F(MultiHeadAttentionTest, MistakesAreRefused) {
  const MultiHeadAttentionDesc desc = layer("8x8 b2 hq2 d4", 8);
  MultiHeadAttentionOptions options;
  options.attention_plan = runtime().make_plan(desc_of("8x8 d4")).value();
  EXPECT_FALSE(runtime().make_plan(desc, options).ok());
  options = {};
  options.matmul.kernel = "fast";
  EXPECT_FALSE(runtime().make_plan(desc, options).ok());
}

}  // namespace
}  // namespace vkattn::tests
