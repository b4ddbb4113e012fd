// Compares layers that PyTorch's nn.MultiheadAttention computed in float64 (make_module_golden.py) with the
// reference and the device.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "conformance/case_test.hpp"
#include "gpu/layer_run.hpp"

namespace vkattn::tests {
namespace {

const CaseFolder& module_folder() {
  static const CaseFolder folder(VKATTN_GOLDEN_DIR "/module");
  return folder;
}

template <class T>
std::vector<T> numbers_of(const CaseTensor* tensor) {
  std::vector<T> values;
  for (std::size_t i = 0; tensor != nullptr && i < tensor->elements(); ++i) {
    values.push_back(static_cast<T>(tensor->number(i)));
  }
  return values;
}

/// The rows of a batch entry, and the elements of a row.
struct RowShape {
  std::int64_t batch = 0, length = 0, columns = 0;
};
RowShape rows_of(const Case& of, const char* role) {
  const auto& shape = of.input(role)->shape;
  return {shape[0], shape[1], shape[2]};
}

MultiHeadAttentionDesc layer_of(const Case& of) {
  MultiHeadAttentionDesc desc;
  const RowShape query = rows_of(of, "query");
  desc.inputs = static_cast<LayerInputs>(of.attribute("inputs", 0));
  desc.d_model = query.columns;
  desc.type = *storage_type(of.input("query")->type);
  desc.packed_weights = of.input("in_proj_weight") != nullptr;
  desc.has_input_bias = desc.has_output_bias = of.attribute("bias", 1) != 0;
  desc.saves_for_gradients = desc.has_averaged_weights = true;
  AttentionDesc& heads = desc.attention;
  heads.batch = query.batch;
  heads.query_length = query.length;
  heads.query_heads = static_cast<std::int64_t>(of.attribute("heads", 1));
  heads.causal = of.attribute("causal", 0) != 0;
  heads.weights = WeightsStage::kProbabilities;
  if (desc.inputs != LayerInputs::kSelf) {
    const RowShape key = rows_of(of, "key");
    heads.kv_length = key.length;
    desc.key_input_dim = key.columns;
  }
  if (desc.inputs == LayerInputs::kSeparate) desc.value_input_dim = rows_of(of, "value").columns;
  if (of.input("kv_lengths") != nullptr) heads.kv_lengths = Lengths::kPerEntry;
  if (const CaseTensor* const mask = of.input("mask")) {
    const std::int64_t keys = mask->shape.back(), all = mask->shape[mask->shape.size() - 2] * keys;
    heads.mask.type = mask->type == ElementType::kBool ? MaskType::kBytes : MaskType::kFloat32;
    const bool of_heads = mask->shape.size() == 3;  // (batch * heads, queries, keys)
    heads.mask.strides = Strides{of_heads ? all * heads.query_heads : 0, of_heads ? all : 0, keys, 1};
  }
  return desc;
}

/// The features that a case reads, on the host and on the device.
struct CaseFeatures {
  std::vector<std::int32_t> lengths;
  std::vector<Buffer> buffers;
  AttentionTensors tensors;

  [[nodiscard]] BufferRange upload(const Runtime& runtime, std::span<const std::byte> bytes) {
    const auto size = static_cast<VkDeviceSize>((bytes.size() + 3) / 4 * 4);
    buffers.push_back(runtime.create_buffer(size).value());
    EXPECT_TRUE(runtime.write(buffers.back(), 0, bytes).ok());
    return buffers.back().range();
  }
};

LayerData data_of(const Case& of, const MultiHeadAttentionDesc& desc, CaseFeatures& features) {
  LayerData data;
  constexpr const char* kInputs[] = {"query", "key", "value"};
  for (std::size_t i = 0; i < 3; ++i) data.inputs[i] = numbers_of<float>(of.input(kInputs[i]));
  for (const ParameterShape& parameter : parameters(desc)) {
    data.parameters[std::string(parameter.name)] = numbers_of<float>(of.input(parameter.name));
  }
  data.grad_output = numbers_of<float>(of.input("grad_output"));
  features.lengths = numbers_of<std::int32_t>(of.input("kv_lengths"));
  data.features.kv_lengths = features.lengths;
  if (const CaseTensor* const mask = of.input("mask")) data.features.mask = mask->bytes;
  return data;
}

LayerResults results_of(const Case& of, const MultiHeadAttentionDesc& desc) {
  LayerResults results;
  results.output = numbers_of<double>(of.output("output"));
  results.weights = numbers_of<double>(of.output("weights"));
  results.averaged_weights = numbers_of<double>(of.output("averaged_weights"));
  constexpr const char* kInputGradients[] = {"grad_query", "grad_key", "grad_value"};
  for (std::size_t i = 0; i < 3; ++i)
    results.grad_inputs[i] = numbers_of<double>(of.output(kInputGradients[i]));
  for (const ParameterShape& parameter : parameters(desc)) {
    const std::string name(parameter.name);
    results.grad_parameters[name] = numbers_of<double>(of.output("grad " + name));
  }
  return results;
}

/// The file has float32 numbers, and the reference rounds the results of its steps to float32.
void expect_near(const std::vector<double>& got, const std::vector<double>& expected, const char* what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::abs(got[i] - expected[i]));
  }
  EXPECT_LE(error, 8 * 0x1p-24 * largest) << what;
}

class ModuleGolden : public GpuTest, public testing::WithParamInterface<Case> {};

TEST_P(ModuleGolden, PyTorch) {
  const Case& of = GetParam();
  const MultiHeadAttentionDesc desc = layer_of(of);
  CaseFeatures features;
  const LayerData data = data_of(of, desc, features);
  const LayerResults expected = results_of(of, desc);
  const LayerResults reference = layer_reference(desc.resolved(), data);
  expect_near(reference.output, expected.output, "output");
  expect_near(reference.weights, expected.weights, "weights");
  for (const auto& [name, gradient] : expected.grad_parameters) {
    expect_near(reference.grad_parameters.at(name), gradient, name.c_str());
  }
  for (std::size_t i = 0; i < 3; ++i) {
    expect_near(reference.grad_inputs[i], expected.grad_inputs[i], "gradient of an input");
  }
  if (!features.lengths.empty()) {
    features.tensors.kv_lengths = features.upload(runtime(), std::as_bytes(std::span(features.lengths)));
  }
  if (of.input("mask") != nullptr)
    features.tensors.mask = features.upload(runtime(), of.input("mask")->bytes);
  auto run = LayerRun::create(runtime(), desc, data, features.tensors);
  const auto plan = must(runtime().make_plan(desc));
  const auto backward = must(runtime().make_plan(MultiHeadAttentionBackwardDesc{.forward = desc}));
  run.execute(plan);
  run.execute(backward);
  double share = 0;
  EXPECT_EQ(run.check(expected, share), "") << plan.describe();
  RecordProperty("share", std::to_string(share));
}

INSTANTIATE_TEST_SUITE_P(Cases, ModuleGolden, testing::ValuesIn(part_of<Case>(module_folder().cases)),
                         case_test_name);

TEST(ModuleGoldenFolder, HasCases) {
  EXPECT_EQ(module_folder().error, "");
}

}  // namespace
}  // namespace vkattn::tests
