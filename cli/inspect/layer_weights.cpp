// See layer_weights.hpp.
#include "inspect/layer_weights.hpp"

#include <vkattn/multi_head_attention.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include "console.hpp"
#include "error.hpp"
#include "json.hpp"
#include "npy.hpp"

namespace vkattn::cli {

std::string shape_of(const Matrix& matrix) {
  return "(" + std::to_string(matrix.rows) + ", " + std::to_string(matrix.columns) + ")";
}

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

std::string some_names(const SafetensorsFile& file) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, file.tensors().size()); ++i) {
    text += (i == 0 ? "" : ", ") + drawable(file.tensors()[i].name);
  }
  return text + (file.tensors().size() > kMost ? ", …" : "");
}

namespace {

/// Names, after the prefix of --layer, of a tensor that stacks the rows of W_Q, W_K and W_V, and of W_O.
/// PyTorch's nn.MultiheadAttention and vision transformers use them.
struct PackedNames {
  std::string_view weight, bias, output;
};
constexpr std::array<PackedNames, 4> kPackedNames = {
    {{"in_proj_weight", "in_proj_bias", "out_proj.weight"},
     {"self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight"},
     {"qkv.weight", "qkv.bias", "proj.weight"},
     {"attn.qkv.weight", "attn.qkv.bias", "attn.proj.weight"}}};

/// Names of separate tensors: nn.MultiheadAttention (its bias is one tensor); Llama and Mistral; Whisper (its
/// W_O is out_proj); both again behind self_attn; BERT from its layer, and from its attention module (query),
/// which does not have W_O; diffusion models (to_q); the first Llama (wq). Biases have the same names with
/// "bias" in place of "weight".
struct SeparateNames {
  std::string_view query, key, value, output;
  bool has_packed_bias = false;
};
constexpr std::array<SeparateNames, 9> kSeparateNames = {
    {{"q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight", true},
     {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"},
     {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"},
     {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight",
      "self_attn.o_proj.weight"},
     {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight",
      "self_attn.out_proj.weight"},
     {"attention.self.query.weight", "attention.self.key.weight", "attention.self.value.weight",
      "attention.output.dense.weight"},
     {"query.weight", "key.weight", "value.weight", ""},
     {"to_q.weight", "to_k.weight", "to_v.weight", "to_out.0.weight"},
     {"wq.weight", "wk.weight", "wv.weight", "wo.weight"}}};

/// The name of the bias that belongs to a weight.
std::string bias_of(std::string_view weight) {
  constexpr std::string_view kEnd = "weight";
  return std::string(weight.substr(0, weight.size() - kEnd.size())) + "bias";
}

Matrix part_of_rows(const Matrix& matrix, std::int64_t first, std::int64_t rows) {
  const auto begin = matrix.values.begin() + first * matrix.columns;
  return {rows, matrix.columns, {begin, begin + rows * matrix.columns}, matrix.name};
}

struct HeadSizes {
  std::int64_t kv_heads, head_dim, value_dim;
};

/// What the options say about a layer's heads. 0 means that an option is not given.
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

/// All head sizes that give `rows` stacked rows of W_Q, W_K and W_V, and `output_columns` columns of W_O if
/// these are known (not 0).
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

/// Chooses the head sizes. If several fit, it takes those with the dims that a layer has by default, or
/// refuses.
HeadSizes choose_heads(const Matrix& packed, const StoredTensor* output, std::string_view output_name,
                       const GivenHeads& given) {
  const bool has_output = output != nullptr && output->shape.size() == 2;
  const std::vector<HeadSizes> all = heads_of_packed(packed.rows, has_output ? output->shape[1] : 0, given);
  if (all.size() == 1) return all.front();
  const auto usual = std::ranges::find_if(all, [&](const HeadSizes& sizes) {
    return sizes.head_dim == sizes.value_dim && sizes.head_dim * given.heads == packed.columns;
  });
  if (usual != all.end()) return *usual;
  const std::string text =
      packed.name + " is " + shape_of(packed) +
      (has_output ? " and " + std::string(output_name) + " " + npy::shape_text(output->shape) : "") +
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

/// The head sizes if W_Q and W_K are separate tensors.
HeadSizes heads_of_separate(const Matrix& query, const Matrix& key, const GivenHeads& given) {
  const std::int64_t head_dim = query.rows / given.heads;
  const bool fits = head_dim > 0 && query.rows % given.heads == 0 && key.rows % head_dim == 0;
  const HeadSizes sizes{fits ? key.rows / head_dim : 0, head_dim, 0};
  if (fits && given.allow(sizes)) return sizes;
  fail_usage(given.to_string() + ": " + query.name + " has " + std::to_string(query.rows) +
             " rows of queries and " + std::to_string(key.rows) + " of keys, which are no such heads");
}

/// Splits the bias of W_Q, W_K and W_V, if there is one.
void set_packed_bias(const std::optional<Matrix>& bias, LayerWeights& weights) {
  if (!bias) return;
  const std::int64_t needed = weights.query.rows + weights.key.rows + weights.value.rows;
  if (bias->columns < needed) {
    fail_usage(bias->name + " has " + std::to_string(bias->columns) + " elements; " +
               (weights.value.rows == 0 ? "Q and K need " : "Q, K and V need ") + std::to_string(needed));
  }
  auto begin = bias->values.begin();
  for (const auto& [part, rows] :
       {std::pair(&weights.query_bias, weights.query.rows), std::pair(&weights.key_bias, weights.key.rows),
        std::pair(&weights.value_bias, weights.value.rows)}) {
    part->assign(begin, begin + rows);
    begin += rows;
  }
}

std::vector<float> own_bias(const std::optional<Matrix>& bias, const Matrix& weight) {
  if (!bias) return {};
  if (bias->rows == 1 && bias->columns == weight.rows) return bias->values;
  fail_usage(bias->name + " is " + shape_of(*bias) + ", and " + weight.name + " has " +
             std::to_string(weight.rows) + " rows");
}

/// W_Q and W_K must have as many columns as the input.
void require_width(const Matrix& weight, const Matrix& x) {
  if (weight.columns == x.columns) return;
  const bool is_transposed = weight.rows == x.columns;
  fail_usage(weight.name + " is " + shape_of(weight) + " and " + x.name + " " + shape_of(x) +
             "; the widths differ" +
             (is_transposed ? ": is the weight transposed, (inputs, outputs), as ONNX and GPT-2 have it? "
                              "Store it as (outputs, inputs)"
                            : ""));
}

/// Reads W_O and its bias. They must fit the heads of the other weights.
void read_output(SafetensorsFile& file, const InspectArguments& arguments, std::string_view name,
                 LayerWeights& weights) {
  const std::string full = name_in_layer(arguments, name);
  std::optional<Matrix> output = name.empty() ? std::nullopt : find_matrix(file, full);
  if (!output) {
    fail_usage(file.path().string() + " has no " + (name.empty() ? "W_O beside these weights" : full) +
               ", which --output needs; it has " + some_names(file));
  }
  const std::int64_t heads = GivenHeads(arguments).heads;
  if (output->columns != heads * weights.value_dim) {
    fail_usage(output->name + " is " + shape_of(*output) + ", but " + std::to_string(heads) +
               " heads of values of dimension " + std::to_string(weights.value_dim) + " need " +
               std::to_string(heads * weights.value_dim) + " columns");
  }
  weights.output_bias = own_bias(find_matrix(file, name_in_layer(arguments, bias_of(name))), *output);
  weights.output = *std::move(output);
}

LayerWeights packed_projections(SafetensorsFile& file, const InspectArguments& arguments,
                                const Matrix& packed, const PackedNames& names) {
  const GivenHeads given(arguments);
  const StoredTensor* const output = file.find(name_in_layer(arguments, names.output));
  const HeadSizes sizes = choose_heads(packed, output, names.output, given);
  const std::int64_t query_rows = given.heads * sizes.head_dim, key_rows = sizes.kv_heads * sizes.head_dim;
  LayerWeights weights{.query = part_of_rows(packed, 0, query_rows),
                       .key = part_of_rows(packed, query_rows, key_rows),
                       .kv_heads = sizes.kv_heads,
                       .head_dim = sizes.head_dim,
                       .value_dim = sizes.value_dim};
  if (!arguments.output.empty()) {
    weights.value = part_of_rows(packed, query_rows + key_rows, sizes.kv_heads * sizes.value_dim);
    read_output(file, arguments, names.output, weights);
  }
  set_packed_bias(find_matrix(file, name_in_layer(arguments, names.bias)), weights);
  return weights;
}

/// Reads a separate W_V, which has as many heads as W_K.
Matrix read_value(SafetensorsFile& file, const InspectArguments& arguments, const Matrix& x,
                  const SeparateNames& names, std::int64_t kv_heads) {
  const std::string full = name_in_layer(arguments, names.value);
  std::optional<Matrix> value = find_matrix(file, full);
  if (!value) {
    fail_usage(file.path().string() + " has no " + full + ", which --output needs; it has " +
               some_names(file));
  }
  require_width(*value, x);
  if (value->rows % kv_heads != 0 || value->rows == 0) {
    fail_usage(value->name + " has " + std::to_string(value->rows) + " rows, which are no multiple of the " +
               std::to_string(kv_heads) + " heads of keys");
  }
  return *std::move(value);
}

LayerWeights separate_projections(SafetensorsFile& file, const InspectArguments& arguments, const Matrix& x,
                                  const SeparateNames& names) {
  const auto find = [&](std::string_view name) { return find_matrix(file, name_in_layer(arguments, name)); };
  LayerWeights weights{.query = find(names.query).value(), .key = find(names.key).value()};
  require_width(weights.query, x);
  require_width(weights.key, x);
  const HeadSizes sizes = heads_of_separate(weights.query, weights.key, GivenHeads(arguments));
  weights.kv_heads = sizes.kv_heads;
  weights.head_dim = sizes.head_dim;
  if (!arguments.output.empty()) {
    weights.value = read_value(file, arguments, x, names, sizes.kv_heads);
    weights.value_dim = weights.value.rows / sizes.kv_heads;
    read_output(file, arguments, names.output, weights);
  }
  if (names.has_packed_bias) {
    set_packed_bias(find(kPackedNames.front().bias), weights);
    return weights;
  }
  weights.query_bias = own_bias(find(bias_of(names.query)), weights.query);
  weights.key_bias = own_bias(find(bias_of(names.key)), weights.key);
  if (weights.value.rows > 0) weights.value_bias = own_bias(find(bias_of(names.value)), weights.value);
  return weights;
}

/// Finds the names of W_Q and W_K in the file. It prefers names whose W_O is there too, and otherwise takes
/// the first.
const SeparateNames* find_separate(const SafetensorsFile& file, const InspectArguments& arguments) {
  const auto has = [&](std::string_view name) {
    return !name.empty() && file.find(name_in_layer(arguments, name)) != nullptr;
  };
  const SeparateNames* first = nullptr;
  for (const SeparateNames& names : kSeparateNames) {
    if (!has(names.query) || !has(names.key)) continue;
    if (has(names.output)) return &names;
    if (first == nullptr) first = &names;
  }
  return first;
}

}  // namespace

std::int64_t layer_heads(const InspectArguments& arguments) {
  if (arguments.heads.empty()) fail_usage("--weights needs --heads, which no file of weights tells");
  return GivenHeads(arguments).heads;
}

LayerWeights read_weights(const InspectArguments& arguments, const Matrix& x) {
  SafetensorsFile file = take(SafetensorsFile::open(arguments.weights));
  for (const char* const name : {"bias_k", "bias_v"}) {
    if (file.find(name_in_layer(arguments, name)) == nullptr) continue;
    fail_usage(file.path().string() + ": " + check_parameter_name(name).error().message);
  }
  const auto find = [&](std::string_view name) { return find_matrix(file, name_in_layer(arguments, name)); };
  for (const PackedNames& names : kPackedNames) {
    const auto packed = find(names.weight);
    if (!packed) continue;
    require_width(*packed, x);
    return packed_projections(file, arguments, *packed, names);
  }
  if (const SeparateNames* const names = find_separate(file, arguments))
    return separate_projections(file, arguments, x, *names);
  fail_usage(file.path().string() + " has neither " + name_in_layer(arguments, "in_proj_weight") +
             " nor q_proj_weight and k_proj_weight there, nor published models' names for them; it has " +
             some_names(file) + "; --layer names what comes before");
}

}  // namespace vkattn::cli
