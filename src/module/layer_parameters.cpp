// The parameters of a layer: their names, shapes and first values.
#include <algorithm>

#include "common/message.hpp"
#include "common/mix.hpp"
#include "module/layer_shape.hpp"

namespace vkattn {

namespace {

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text;
  for (const std::int64_t size : shape) text += detail::message(text.empty() ? "(" : ", ", size);
  return text.empty() ? "()" : text + ")";
}

/// A seed of its own for each name and seed: parameters of one layer share no numbers, nor do layers with
/// neighbouring seeds.
std::uint64_t seed_of(std::string_view parameter_name, std::uint64_t seed) {
  std::uint64_t state = seed;
  for (const char letter : parameter_name)
    state = detail::mix(state + detail::kGolden) ^ static_cast<unsigned char>(letter);
  return detail::mix(state + detail::kGolden);
}

}  // namespace

std::vector<ParameterShape> parameters(const MultiHeadAttentionDesc& given) {
  using P = MultiHeadAttentionParameters;
  const MultiHeadAttentionDesc desc = given.resolved();
  const detail::LayerShape shape = detail::layer_shape(desc);
  const auto& [query, key, value] = shape.projections;
  const std::int64_t packed_rows = value.first_row + value.width;
  const DataType weights = *desc.weight_type, biases = *desc.parameter_type;
  std::vector<ParameterShape> all;
  if (desc.packed_weights) {
    all.push_back({"in_proj_weight", &P::in_proj_weight, packed_rows, desc.d_model, weights});
  } else {
    all.push_back({"q_proj_weight", &P::q_proj_weight, query.width, desc.d_model, weights});
    all.push_back({"k_proj_weight", &P::k_proj_weight, key.width, desc.key_input_dim, weights});
    all.push_back({"v_proj_weight", &P::v_proj_weight, value.width, desc.value_input_dim, weights});
  }
  if (desc.has_input_bias) all.push_back({"in_proj_bias", &P::in_proj_bias, packed_rows, 0, biases});
  all.push_back({"out_proj.weight", &P::out_proj_weight, desc.d_model, shape.heads_width, weights});
  if (desc.has_output_bias) all.push_back({"out_proj.bias", &P::out_proj_bias, desc.d_model, 0, biases});
  return all;
}

AppendDesc quantise_desc(const ParameterShape& weight, DataType source) {
  // Rows are whole blocks, and lie side by side.
  const std::int64_t block = block_elements(weight.type);
  return quantise_desc({1, 1, weight.elements() / block, block}, {source}, {weight.type});
}

Result<void> check_parameter_name(std::string_view name) {
  if (name != "bias_k" && name != "bias_v") return {};
  return detail::without_exceptions([&]() -> Result<void> {
    return detail::unsupported(name,
                               " is a key or value that nn.MultiheadAttention(add_bias_kv=True) learns "
                               "beside those of the input, which is not supported; train the model "
                               "without add_bias_kv");
  });
}

Result<void> check_parameter(const MultiHeadAttentionDesc& desc, std::string_view name,
                             std::span<const std::int64_t> shape) {
  return detail::without_exceptions([&]() -> Result<void> {
    if (Result<void> s = check_parameter_name(name); !s) return s;
    std::string names;
    for (const ParameterShape& parameter : parameters(desc)) {
      names += detail::message(names.empty() ? "" : ", ", parameter.name);
      if (parameter.name != name) continue;
      std::vector<std::int64_t> own{parameter.rows};
      if (parameter.columns != 0) own.push_back(parameter.columns);
      if (std::equal(own.begin(), own.end(), shape.begin(), shape.end())) return {};
      return detail::invalid(name, " has the shape ", shape_text(shape), ", but the layer's is ",
                             shape_text(own));
    }
    return detail::invalid("the layer has no parameter ", name, "; it has ", names);
  });
}

std::vector<float> initial_values(const ParameterShape& parameter, Initialisation how, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(parameter.elements()));
  initial_values(parameter, how, seed, values);
  return values;
}

void initial_values(const ParameterShape& parameter, Initialisation how, std::uint64_t seed,
                    std::span<float> values) {
  if (parameter.columns == 0) {
    std::fill(values.begin(), values.end(), 0.0F);
  } else {
    initialise(values, parameter.columns, parameter.rows, how, seed_of(parameter.name, seed));
  }
}

}  // namespace vkattn
