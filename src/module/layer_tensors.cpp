// The tensors that a layer checks by name and shape.
#include <array>
#include <string_view>

#include "common/message.hpp"
#include "module/layer_steps.hpp"

namespace vkattn::detail {

namespace {

constexpr std::array<std::string_view, kProjections> kInputNames{"query", "key", "value"};

std::vector<std::int64_t> input_shape(const MultiHeadAttentionDesc& desc, const ProjectionGroup& group) {
  const AttentionDesc& attention = desc.attention;
  const bool is_query = group.input == kQuery;
  if (is_query ? attention.has_packed_queries() : attention.has_packed_keys()) {
    return {group.rows, group.inner};
  }
  return {attention.batch, is_query ? attention.query_length : attention.kv_length, group.inner};
}

std::vector<std::int64_t> shape_of(const ParameterShape& parameter) {
  if (parameter.columns == 0) return {parameter.rows};
  return {parameter.rows, parameter.columns};
}

}  // namespace

void add_layer_tensors(const MultiHeadAttentionDesc& desc, const LayerShape& shape, VkDeviceSize saved_bytes,
                       ModuleProgram& program) {
  using T = MultiHeadAttentionTensors;
  for (const ProjectionGroup& group : shape.groups) {
    program.add_tensor({std::string(kInputNames[group.input]), input_place(group.input),
                        input_shape(desc, group), desc.type, desc.alignment_bytes});
  }
  for (const ParameterShape& parameter : parameters(desc)) {
    program.add_tensor({std::string(parameter.name), place_of(parameter.range), shape_of(parameter),
                        parameter.type, desc.alignment_bytes});
  }
  if (!desc.saves_for_gradients) return;
  program.add_tensor(
      {"saved", place_of(&T::saved), {static_cast<std::int64_t>(saved_bytes / 4)}, DataType::kFloat32, 16});
}

void add_output_tensors(const MultiHeadAttentionDesc& desc, const LayerShape& shape, ModuleProgram& program) {
  using T = MultiHeadAttentionTensors;
  const AttentionDesc& attention = desc.attention;
  program.add_tensor(
      {"output", place_of(&T::output), input_shape(desc, shape.groups[0]), desc.type, desc.alignment_bytes});
  if (!desc.has_averaged_weights) return;
  program.add_tensor({"averaged_weights",
                      place_of(&T::averaged_weights),
                      {attention.batch, attention.query_length, attention.kv_length},
                      DataType::kFloat32,
                      0});
}

void add_gradient_tensors(const MultiHeadAttentionBackwardDesc& desc, const LayerShape& shape,
                          ModuleProgram& program) {
  using G = MultiHeadAttentionBackwardTensors;
  const MultiHeadAttentionDesc& forward = desc.forward;
  const std::array wanted{desc.has_grad_query, desc.has_grad_key, desc.has_grad_value};
  constexpr std::array kGradients{&G::grad_query, &G::grad_key, &G::grad_value};
  program.add_tensor({"grad_output", place_of(&G::grad_output), input_shape(forward, shape.groups[0]),
                      forward.type, forward.alignment_bytes});
  for (const ProjectionGroup& group : shape.groups) {
    if (!wanted[group.input]) continue;
    program.add_tensor({message("grad_", kInputNames[group.input]), place_of(kGradients[group.input]),
                        input_shape(forward, group), forward.type, forward.alignment_bytes});
  }
  if (!desc.has_grad_parameters) return;
  for (const ParameterShape& parameter : parameters(forward)) {
    program.add_tensor({message("the gradient of ", parameter.name), gradient_of(parameter.range),
                        shape_of(parameter), *desc.grad_parameter_type, forward.alignment_bytes});
  }
}

}  // namespace vkattn::detail
