// Queries and keys that a trained layer makes of its input: X and a weights file, see inputs.hpp.
#include <vkattn/multi_head_attention.hpp>
#include <vkattn/safetensors.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "console.hpp"
#include "error.hpp"
#include "inspect/inputs.hpp"
#include "npy.hpp"
#include "plot_format.hpp"

namespace vkattn::cli {
namespace {

/// Rows of numbers, without padding.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> values;
  std::string name;  ///< for messages

  [[nodiscard]] std::span<const float> row(std::int64_t index) const {
    return std::span(values).subspan(static_cast<std::size_t>(index * columns),
                                     static_cast<std::size_t>(columns));
  }
};

std::string shape_of(const Matrix& matrix) {
  return "(" + std::to_string(matrix.rows) + ", " + std::to_string(matrix.columns) + ")";
}

/// Names of a layer's tensors begin with it and a dot.
std::string name_in_layer(const InspectArguments& arguments, std::string_view name) {
  return (arguments.layer.empty() ? "" : arguments.layer + ".") + std::string(name);
}

std::optional<Matrix> find_matrix(SafetensorsFile& file, const std::string& name) {
  const StoredTensor* const found = file.find(name);
  if (found == nullptr) return std::nullopt;
  Matrix matrix{.name = file.path().string() + ": " + name};
  if (found->shape.size() == 2) {
    matrix.rows = found->shape[0];
    matrix.columns = found->shape[1];
  } else if (found->shape.size() == 1) {
    matrix.rows = 1;
    matrix.columns = found->shape[0];
  } else {
    fail_usage(matrix.name + " has the shape " + npy::shape_text(found->shape) + ", which is no matrix");
  }
  matrix.values = take(file.read_floats(name));
  return matrix;
}

/// What the file has, for a message.
std::string some_names(const SafetensorsFile& file) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, file.tensors().size()); ++i) {
    text += (i == 0 ? "" : ", ") + bench::drawable(file.tensors()[i].name);
  }
  return text + (file.tensors().size() > kMost ? ", …" : "");
}

/// W_Q and W_K, (outputs, inputs), and their biases where the layer has some.
struct LayerWeights {
  Matrix query, key;
  std::vector<float> query_bias, key_bias;
};

Matrix part_of_rows(const Matrix& matrix, std::int64_t first, std::int64_t rows) {
  const auto begin = matrix.values.begin() + first * matrix.columns;
  return {rows, matrix.columns, {begin, begin + rows * matrix.columns}, matrix.name};
}

LayerWeights read_weights(const InspectArguments& arguments) {
  SafetensorsFile file = take(SafetensorsFile::open(arguments.weights));
  for (const char* const name : {"bias_k", "bias_v"}) {
    if (file.find(name_in_layer(arguments, name)) == nullptr) continue;
    fail_usage(file.path().string() + ": " + check_parameter_name(name).error().message);
  }
  LayerWeights weights;
  if (const auto packed = find_matrix(file, name_in_layer(arguments, "in_proj_weight"))) {
    if (packed->rows % 3 != 0) {
      fail_usage(packed->name + " has " + std::to_string(packed->rows) +
                 " rows, which are no three matrices of one size");
    }
    weights.query = part_of_rows(*packed, 0, packed->rows / 3);
    weights.key = part_of_rows(*packed, packed->rows / 3, packed->rows / 3);
  } else {
    auto query = find_matrix(file, name_in_layer(arguments, "q_proj_weight"));
    auto key = find_matrix(file, name_in_layer(arguments, "k_proj_weight"));
    if (!query || !key) {
      fail_usage(file.path().string() + " has neither " + name_in_layer(arguments, "in_proj_weight") +
                 " nor q_proj_weight and k_proj_weight there; it has " + some_names(file) +
                 "; --layer names what comes before");
    }
    weights.query = *std::move(query);
    weights.key = *std::move(key);
  }
  if (const auto bias = find_matrix(file, name_in_layer(arguments, "in_proj_bias"))) {
    const std::int64_t needed = weights.query.rows + weights.key.rows;
    if (bias->columns < needed) {
      fail_usage(bias->name + " has " + std::to_string(bias->columns) + " elements; Q and K need " +
                 std::to_string(needed));
    }
    const auto begin = bias->values.begin();
    weights.query_bias.assign(begin, begin + weights.query.rows);
    weights.key_bias.assign(begin + weights.query.rows, begin + needed);
  }
  return weights;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find('\n', begin);
    lines.push_back(bench::drawable(text.substr(begin, end - begin)));
  }
  return lines;
}

/// X, and what its file calls its rows: the metadata `labels`, a line for each.
struct LayerInput {
  Matrix x;
  std::vector<std::string> labels;
};

LayerInput read_input(const InspectArguments& arguments) {
  LayerInput input;
  if (arguments.input.ends_with(".npy")) {
    npy::Reader reader = take(npy::Reader::open(arguments.input));
    const std::vector<std::int64_t>& shape = reader.header().shape;
    if (shape.size() != 2) {
      fail_usage(arguments.input + " has the shape " + npy::shape_text(shape) +
                 "; --input takes (length, width)");
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

/// X W^T + b, by head: (head, row, dim).
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

void require_fits(const Matrix& x, const LayerWeights& weights, std::int64_t heads) {
  if (x.rows < 2 || x.rows > kMostTokens) {
    fail_usage(x.name + " has " + console::count(static_cast<std::uint64_t>(x.rows), "row") +
               "; inspect takes from 2 to " + std::to_string(kMostTokens));
  }
  for (const Matrix* const weight : {&weights.query, &weights.key}) {
    require_finite(*weight);
    if (weight->columns == x.columns) continue;
    fail_usage(weight->name + " is " + shape_of(*weight) + " and " + x.name + " " + shape_of(x) +
               "; the widths differ");
  }
  require_finite(x);
  const std::int64_t head_dim = weights.query.rows / heads;
  if (head_dim == 0 || weights.query.rows % heads != 0 || weights.key.rows % head_dim != 0) {
    fail_usage("--heads " + std::to_string(heads) + ": " + weights.query.name + " has " +
               std::to_string(weights.query.rows) + " rows of queries and " +
               std::to_string(weights.key.rows) + " of keys, which are no such heads");
  }
}

}  // namespace

InspectInputs inputs_of_layer(const InspectArguments& arguments) {
  if (arguments.heads.empty()) fail_usage("--weights needs --heads, which no file of weights tells");
  const std::int64_t heads = number_of("--heads", arguments.heads, 1, INT32_MAX, 1);
  LayerInput input = read_input(arguments);
  const LayerWeights weights = read_weights(arguments);
  require_fits(input.x, weights, heads);
  const std::int64_t head_dim = weights.query.rows / heads;
  InspectInputs inputs;
  inputs.desc = desc_of_words(arguments);
  inputs.desc.query_heads = heads;
  inputs.desc.kv_heads = weights.key.rows / head_dim;
  inputs.desc.query_length = inputs.desc.kv_length = input.x.rows;
  inputs.desc.head_dim = head_dim;
  if (heads > kMostWeights / (input.x.rows * input.x.rows)) {
    fail_usage(std::to_string(heads) + " heads of " + std::to_string(input.x.rows) +
               " rows make more than the " + std::to_string(kMostWeights) + " weights that inspect takes");
  }
  set_stand_in_values(inputs.desc);
  inputs.query = project(input.x, weights.query, weights.query_bias, head_dim);
  inputs.key = project(input.x, weights.key, weights.key_bias, head_dim);
  inputs.source = arguments.layer.empty()
                      ? file_label(arguments.weights)
                      : bench::drawable(arguments.layer) + " of " + file_label(arguments.weights);
  inputs.labels_are_numbers = input.labels.empty();
  inputs.query_labels = inputs.labels_are_numbers ? number_labels(input.x.rows) : std::move(input.labels);
  inputs.key_labels = inputs.query_labels;
  return inputs;
}

}  // namespace vkattn::cli
