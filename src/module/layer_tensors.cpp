// Names and shapes of a layer's own tensors.
#include <array>
#include <string_view>

#include "common/checked.hpp"
#include "common/message.hpp"
#include "module/layer_steps.hpp"

namespace vkattn::detail {

namespace {

constexpr std::array<std::string_view, kProjections> kInputNames{"query", "key", "value"};

using Shape = std::vector<std::int64_t>;

Shape input_shape(const MultiHeadAttentionDesc& desc, const ProjectionGroup& group) {
  const AttentionDesc& attention = desc.attention;
  const bool is_query = group.input == kQuery;
  if (is_query ? attention.has_packed_queries() : attention.has_packed_keys()) {
    return {group.rows, group.inner};
  }
  return {attention.batch, is_query ? attention.query_length : attention.kv_length, group.inner};
}

Shape shape_of(const ParameterShape& parameter) {
  if (parameter.columns == 0) return {parameter.rows};
  return {parameter.rows, parameter.columns};
}

/// A tensor without padding. `alignment_bytes` of 0: that of an element.
ProgramTensor named(std::string name, const Shape& shape, DataType type, std::uint32_t alignment_bytes,
                    bool written) {
  ProgramTensor tensor;
  tensor.name = std::move(name);
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    tensor.shape += message(tensor.shape.empty() ? "(" : ", ", size);
    elements = saturating_multiply(elements, size);
  }
  tensor.shape += message(") ", vkattn::name(type));
  tensor.bytes = static_cast<std::uint64_t>(elements) / block_elements(type) * block_bytes(type);
  tensor.alignment_bytes = std::max(alignment_bytes, element_bytes(type));
  tensor.written = written;
  return tensor;
}

}  // namespace

void name_layer_tensors(const MultiHeadAttentionDesc& desc, const LayerShape& shape,
                        const MultiHeadAttentionTensors& call, VkDeviceSize saved_bytes, bool is_forward,
                        LayerProgram& program) {
  for (const ProjectionGroup& group : shape.groups) {
    program.name_tensor(call.*kInputRanges[group.input],
                        named(message(kInputNames[group.input], " tensor"), input_shape(desc, group),
                              desc.type, desc.alignment_bytes, false));
  }
  for (const ParameterShape& parameter : parameters(desc)) {
    program.name_tensor(call.parameters.*parameter.range,
                        named(message(parameter.name, " tensor"), shape_of(parameter), parameter.type,
                              desc.alignment_bytes, false));
  }
  if (!desc.saves_for_gradients) return;
  program.name_tensor(call.saved, named("saved tensor", {static_cast<std::int64_t>(saved_bytes / 4)},
                                        DataType::kFloat32, 16, is_forward));
}

void name_output_tensors(const MultiHeadAttentionDesc& desc, const LayerShape& shape,
                         const MultiHeadAttentionTensors& call, LayerProgram& program) {
  const AttentionDesc& attention = desc.attention;
  program.name_tensor(call.output, named("output tensor", input_shape(desc, shape.groups[0]), desc.type,
                                         desc.alignment_bytes, true));
  if (!desc.has_averaged_weights) return;
  program.name_tensor(
      call.averaged_weights,
      named("averaged_weights tensor", {attention.batch, attention.query_length, attention.kv_length},
            DataType::kFloat32, 0, true));
}

void name_gradient_tensors(const MultiHeadAttentionBackwardDesc& desc, const LayerShape& shape,
                           const MultiHeadAttentionBackwardTensors& call, LayerProgram& program) {
  const MultiHeadAttentionDesc& forward = desc.forward;
  const std::array wanted{desc.has_grad_query, desc.has_grad_key, desc.has_grad_value};
  program.name_tensor(call.grad_output, named("grad_output tensor", input_shape(forward, shape.groups[0]),
                                              forward.type, forward.alignment_bytes, false));
  for (const ProjectionGroup& group : shape.groups) {
    // If several groups read one input, those after the first add to its gradient.
    if (!wanted[group.input] || group.first != group.input) continue;
    program.name_tensor(call.*kInputGradients[group.input],
                        named(message("grad_", kInputNames[group.input], " tensor"),
                              input_shape(forward, group), forward.type, forward.alignment_bytes, true));
  }
  if (!desc.has_grad_parameters) return;
  for (const ParameterShape& parameter : parameters(forward)) {
    program.name_tensor(call.grad_parameters.*parameter.range,
                        named(message("gradient of ", parameter.name), shape_of(parameter),
                              *desc.grad_parameter_type, forward.alignment_bytes, true));
  }
}

}  // namespace vkattn::detail
