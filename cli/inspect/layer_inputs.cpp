// Makes queries and keys from a layer's input X and a file of trained weights: see inputs.hpp.
#include <vkattn/safetensors.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "console.hpp"
#include "error.hpp"
#include "inspect/inputs.hpp"
#include "inspect/labels.hpp"
#include "inspect/layer_weights.hpp"
#include "json.hpp"
#include "npy.hpp"

namespace vkattn::cli {
namespace {

/// X, and the labels of its rows: the metadata `labels` of its file, one in each line.
struct LayerInput {
  Matrix x;
  std::vector<std::string> labels;
  bool is_batch = false;  ///< the file has a batch axis of size 1
};

LayerInput read_input(const InspectArguments& arguments) {
  LayerInput input;
  if (arguments.input.ends_with(".npy")) {
    npy::Reader reader = take(npy::Reader::open(arguments.input));
    std::vector<std::int64_t> shape = reader.header().shape;
    input.is_batch = shape.size() == 3 && shape[0] == 1;
    if (input.is_batch) shape.erase(shape.begin());
    if (shape.size() != 2) {
      fail_usage(arguments.input + " has the shape " + npy::shape_text(shape) +
                 "; --input takes (length, width), or a batch of one");
    }
    const std::int64_t elements = reader.header().elements;
    input.x = {shape[0], shape[1], take(npy::read_floats(reader, elements)), arguments.input};
    return input;
  }
  SafetensorsFile file = take(SafetensorsFile::open(arguments.input));
  const std::string name = name_in_layer(arguments, "input");
  auto x = find_matrix(file, name);
  if (!x) fail_usage(arguments.input + " has no " + name + "; it has " + some_names(file));
  input.x = *std::move(x);
  if (const auto labels = file.metadata().find("labels"); labels != file.metadata().end()) {
    input.labels = lines_of(labels->second);
    if (static_cast<std::int64_t>(input.labels.size()) != input.x.rows) {
      fail_usage(arguments.input + " has " + console::count(input.labels.size(), "label") + " for " +
                 std::to_string(input.x.rows) + " rows");
    }
  }
  return input;
}

/// X W^T + b, split by head: (head, row, dim).
std::vector<float> project(const Matrix& x, const Matrix& weight, std::span<const float> bias,
                           std::int64_t head_dim) {
  std::vector<float> result(static_cast<std::size_t>(x.rows * weight.rows));
  for (std::int64_t output = 0; output < weight.rows; ++output) {
    const std::span<const float> w = weight.row(output);
    for (std::int64_t i = 0; i < x.rows; ++i) {
      const std::span<const float> row = x.row(i);
      double sum = bias.empty() ? 0.0 : static_cast<double>(bias[static_cast<std::size_t>(output)]);
      for (std::size_t d = 0; d < row.size(); ++d) {
        sum += static_cast<double>(row[d]) * static_cast<double>(w[d]);
      }
      const std::int64_t head = output / head_dim;
      result[static_cast<std::size_t>((head * x.rows + i) * head_dim + output % head_dim)] =
          static_cast<float>(sum);
    }
  }
  return result;
}

void require_finite(const Matrix& matrix) {
  if (std::ranges::all_of(matrix.values, [](float value) { return std::isfinite(value); })) return;
  fail_usage(matrix.name + " has a NaN, or a number beyond float32; weights need finite numbers");
}

void require_fits(const Matrix& x, const LayerWeights& weights) {
  if (x.rows < 2 || x.rows > kMostTokens) {
    fail_usage(x.name + " has " + console::count(static_cast<std::uint64_t>(x.rows), "row") +
               "; inspect takes from 2 to " + std::to_string(kMostTokens));
  }
  for (const Matrix* const matrix : {&weights.query, &weights.key, &weights.value, &weights.output, &x})
    require_finite(*matrix);
}

/// Adds the values, and W_O with the shape of the output.
void add_output(const LayerInput& input, LayerWeights weights, InspectInputs& inputs) {
  AttentionDesc desc = inputs.desc;
  desc.value_dim = weights.value_dim;
  inputs.output_desc = desc_with_output(desc);
  inputs.value = project(input.x, weights.value, weights.value_bias, weights.value_dim);
  LayerOutput& output = inputs.layer_output.emplace();
  output.shape = {input.x.rows, weights.output.rows};
  if (input.is_batch) output.shape.insert(output.shape.begin(), 1);
  output.value_dim = weights.value_dim;
  output.weight = std::move(weights.output);
  output.bias = std::move(weights.output_bias);
}

}  // namespace

InspectInputs inputs_of_layer(const InspectArguments& arguments) {
  const std::int64_t heads = layer_heads(arguments);
  LayerInput input = read_input(arguments);
  const LayerWeights weights = read_weights(arguments, input.x);
  require_fits(input.x, weights);
  InspectInputs inputs;
  inputs.desc = desc_of_words(arguments);
  inputs.desc.query_heads = heads;
  inputs.desc.kv_heads = weights.kv_heads;
  inputs.desc.query_length = inputs.desc.kv_length = input.x.rows;
  inputs.desc.head_dim = weights.head_dim;
  if (heads > kMostWeights / (input.x.rows * input.x.rows)) {
    fail_usage(std::to_string(heads) + " heads of " + std::to_string(input.x.rows) +
               " rows make more than the " + std::to_string(kMostWeights) + " weights that inspect takes");
  }
  if (!arguments.output.empty()) add_output(input, weights, inputs);
  set_stand_in_values(inputs.desc);
  inputs.query = project(input.x, weights.query, weights.query_bias, weights.head_dim);
  inputs.key = project(input.x, weights.key, weights.key_bias, weights.head_dim);
  inputs.source = arguments.layer.empty()
                      ? file_label(arguments.weights)
                      : drawable(arguments.layer) + " of " + file_label(arguments.weights);
  if (std::vector<std::string> labels = given_labels(arguments, {{input.x.name, input.x.rows}});
      !labels.empty())
    input.labels = std::move(labels);
  inputs.labels_are_numbers = input.labels.empty();
  inputs.query_labels = inputs.labels_are_numbers ? number_labels(input.x.rows) : std::move(input.labels);
  inputs.key_labels = inputs.query_labels;
  return inputs;
}

}  // namespace vkattn::cli
