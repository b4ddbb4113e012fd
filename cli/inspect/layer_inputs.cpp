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

/// W_Q and W_K, (outputs, inputs), their biases where the layer has some, and its heads.
struct LayerWeights {
  Matrix query, key;
  std::vector<float> query_bias, key_bias;
  std::int64_t kv_heads = 0, head_dim = 0;
};

Matrix part_of_rows(const Matrix& matrix, std::int64_t first, std::int64_t rows) {
  const auto begin = matrix.values.begin() + first * matrix.columns;
  return {rows, matrix.columns, {begin, begin + rows * matrix.columns}, matrix.name};
}

struct HeadSizes {
  std::int64_t kv_heads, head_dim, value_dim;
};

/// What the options say of a layer's heads; 0: nothing.
struct GivenHeads {
  explicit GivenHeads(const InspectArguments& arguments)
      : heads(number_of("--heads", arguments.heads, 1, INT32_MAX, 0)),
        kv_heads(number_of("--kv-heads", arguments.kv_heads, 1, INT32_MAX, 0)),
        head_dim(number_of("--head-dim", arguments.head_dim, 1, INT32_MAX, 0)) {}

  [[nodiscard]] bool allow(const HeadSizes& sizes) const {
    return (kv_heads == 0 || sizes.kv_heads == kv_heads) && (head_dim == 0 || sizes.head_dim == head_dim);
  }
  [[nodiscard]] std::string to_string() const {
    return "--heads " + std::to_string(heads) +
           (kv_heads == 0 ? "" : " --kv-heads " + std::to_string(kv_heads)) +
           (head_dim == 0 ? "" : " --head-dim " + std::to_string(head_dim));
  }

  std::int64_t heads, kv_heads, head_dim;
};

/// All heads that make so many rows of W_Q, W_K and W_V one below the other, and so many columns of W_O where
/// they are known (not 0).
std::vector<HeadSizes> heads_of_packed(std::int64_t rows, std::int64_t output_columns,
                                       const GivenHeads& given) {
  std::vector<HeadSizes> all;
  for (std::int64_t kv_heads = std::min(given.heads, rows); kv_heads > 0; --kv_heads) {
    if (given.heads % kv_heads != 0) continue;
    const std::int64_t rows_of_dim = given.heads + kv_heads;
    for (std::int64_t head_dim = 1; head_dim * rows_of_dim < rows; ++head_dim) {
      const std::int64_t value_rows = rows - head_dim * rows_of_dim;
      const HeadSizes sizes{kv_heads, head_dim, value_rows / kv_heads};
      const bool fits = value_rows % kv_heads == 0 &&
                        (output_columns == 0 || sizes.value_dim * given.heads == output_columns);
      if (fits && given.allow(sizes)) all.push_back(sizes);
    }
  }
  return all;
}

/// Where several heads make such rows: those of dims that a layer has by itself, or a refusal.
HeadSizes choose_heads(const Matrix& packed, const StoredTensor* output, const GivenHeads& given) {
  const bool has_output = output != nullptr && output->shape.size() == 2;
  const std::vector<HeadSizes> all = heads_of_packed(packed.rows, has_output ? output->shape[1] : 0, given);
  if (all.size() == 1) return all.front();
  const auto usual = std::ranges::find_if(all, [&](const HeadSizes& sizes) {
    return sizes.head_dim == sizes.value_dim && sizes.head_dim * given.heads == packed.columns;
  });
  if (usual != all.end()) return *usual;
  const std::string text = packed.name + " is " + shape_of(packed) +
                           (has_output ? " and out_proj.weight " + npy::shape_text(output->shape) : "") +
                           ", which ";
  if (all.empty()) fail_usage(text + "no heads make with " + given.to_string());
  constexpr std::size_t kMost = 3;
  std::string heads;
  for (std::size_t i = 0; i < std::min(kMost, all.size()); ++i) {
    heads += (i == 0 ? "" : ", or ") + console::count(static_cast<std::uint64_t>(all[i].kv_heads), "head") +
             " of keys of dimension " + std::to_string(all[i].head_dim) + " and values of " +
             std::to_string(all[i].value_dim);
  }
  fail_usage(text + "leaves open with " + given.to_string() + " whether there are " + heads +
             (all.size() > kMost ? ", …" : "") + "; give --kv-heads or --head-dim");
}

/// Of tensors of their own.
HeadSizes heads_of_separate(const Matrix& query, const Matrix& key, const GivenHeads& given) {
  const std::int64_t head_dim = query.rows / given.heads;
  const bool fits = head_dim > 0 && query.rows % given.heads == 0 && key.rows % head_dim == 0;
  const HeadSizes sizes{fits ? key.rows / head_dim : 0, head_dim, 0};
  if (fits && given.allow(sizes)) return sizes;
  fail_usage(given.to_string() + ": " + query.name + " has " + std::to_string(query.rows) +
             " rows of queries and " + std::to_string(key.rows) + " of keys, which are no such heads");
}

LayerWeights read_projections(SafetensorsFile& file, const InspectArguments& arguments) {
  const GivenHeads given(arguments);
  if (const auto packed = find_matrix(file, name_in_layer(arguments, "in_proj_weight"))) {
    const HeadSizes sizes =
        choose_heads(*packed, file.find(name_in_layer(arguments, "out_proj.weight")), given);
    const std::int64_t query_rows = given.heads * sizes.head_dim;
    return {.query = part_of_rows(*packed, 0, query_rows),
            .key = part_of_rows(*packed, query_rows, sizes.kv_heads * sizes.head_dim),
            .kv_heads = sizes.kv_heads,
            .head_dim = sizes.head_dim};
  }
  auto query = find_matrix(file, name_in_layer(arguments, "q_proj_weight"));
  auto key = find_matrix(file, name_in_layer(arguments, "k_proj_weight"));
  if (!query || !key) {
    fail_usage(file.path().string() + " has neither " + name_in_layer(arguments, "in_proj_weight") +
               " nor q_proj_weight and k_proj_weight there; it has " + some_names(file) +
               "; --layer names what comes before");
  }
  const HeadSizes sizes = heads_of_separate(*query, *key, given);
  return {.query = *std::move(query),
          .key = *std::move(key),
          .kv_heads = sizes.kv_heads,
          .head_dim = sizes.head_dim};
}

LayerWeights read_weights(const InspectArguments& arguments) {
  SafetensorsFile file = take(SafetensorsFile::open(arguments.weights));
  for (const char* const name : {"bias_k", "bias_v"}) {
    if (file.find(name_in_layer(arguments, name)) == nullptr) continue;
    fail_usage(file.path().string() + ": " + check_parameter_name(name).error().message);
  }
  LayerWeights weights = read_projections(file, arguments);
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

void require_fits(const Matrix& x, const LayerWeights& weights) {
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
}

}  // namespace

InspectInputs inputs_of_layer(const InspectArguments& arguments) {
  if (arguments.heads.empty()) fail_usage("--weights needs --heads, which no file of weights tells");
  const std::int64_t heads = GivenHeads(arguments).heads;
  LayerInput input = read_input(arguments);
  const LayerWeights weights = read_weights(arguments);
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
  set_stand_in_values(inputs.desc);
  inputs.query = project(input.x, weights.query, weights.query_bias, weights.head_dim);
  inputs.key = project(input.x, weights.key, weights.key_bias, weights.head_dim);
  inputs.source = arguments.layer.empty()
                      ? file_label(arguments.weights)
                      : bench::drawable(arguments.layer) + " of " + file_label(arguments.weights);
  inputs.labels_are_numbers = input.labels.empty();
  inputs.query_labels = inputs.labels_are_numbers ? number_labels(input.x.rows) : std::move(input.labels);
  inputs.key_labels = inputs.query_labels;
  return inputs;
}

}  // namespace vkattn::cli
