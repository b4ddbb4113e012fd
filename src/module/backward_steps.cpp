// The steps of a layer's gradients.
#include <array>

#include "module/layer_steps.hpp"

namespace vkattn::detail {

namespace {

using ParameterRanges = MultiHeadAttentionParameters;
using GradientRanges = MultiHeadAttentionBackwardTensors;

/// Adds the steps of one layer's gradients.
class BackwardSteps {
 public:
  BackwardSteps(const MultiHeadAttentionBackwardDesc& desc, ModuleProgram& program)
      : desc_(desc), forward_(desc.forward), program_(program), shape_(layer_shape(desc.forward)) {
    const LayerMemory memory = layer_memory(forward_, shape_);
    saved_ = between_steps(memory, saved);
    // The gradients of what was saved lie in the workspace as that does; lse has none.
    (void)program.take(memory.bytes);
    gradients_ = between_steps(memory, in_workspace);
  }

  [[nodiscard]] Result<void> add_output_gradients();
  [[nodiscard]] Result<void> add_attention();
  [[nodiscard]] Result<void> add_rotation() {
    return add_rotation_steps(forward_, gradients_, true, program_);
  }
  [[nodiscard]] Result<void> add_groups() {
    for (std::size_t g = 0; g < shape_.groups.size(); ++g) {
      if (Result<void> s = add_group(g); !s) return s;
    }
    return {};
  }

 private:
  [[nodiscard]] Result<void> add_group(std::size_t g);
  [[nodiscard]] Result<void> add_input(std::size_t g);
  [[nodiscard]] Result<void> add_weight(std::string name, const MatrixDesc& rows, const Place& grad_output,
                                        const MatrixDesc& input, const Place& input_place, std::int64_t count,
                                        const StoredWeight& weight, std::int64_t outputs);
  [[nodiscard]] Result<void> add_bias(std::string name, const MatrixDesc& rows, const Place& grad_output,
                                      std::int64_t count, std::int64_t outputs, const Place& bias);
  [[nodiscard]] bool has_gradient(std::size_t input) const {
    return std::array{desc_.has_grad_query, desc_.has_grad_key, desc_.has_grad_value}[input];
  }

  const MultiHeadAttentionBackwardDesc& desc_;
  const MultiHeadAttentionDesc& forward_;
  ModuleProgram& program_;
  LayerShape shape_;
  BetweenSteps saved_, gradients_;
};

/// The gradient's place is the weight's among the gradients.
Place as_gradient(const StoredWeight& weight) {
  return gradient_of(weight.place.parameter).behind(weight.place.byte);
}

// dW = dY^T X, which is stored as W is.
Result<void> BackwardSteps::add_weight(std::string name, const MatrixDesc& rows, const Place& grad_output,
                                       const MatrixDesc& input, const Place& input_at, std::int64_t count,
                                       const StoredWeight& weight, std::int64_t outputs) {
  const DataType type = *desc_.grad_parameter_type;
  MatmulDesc matmul;
  matmul.rows = outputs;
  matmul.columns = weight.inputs;
  matmul.inner = count;
  matmul.a = {rows.type, MatrixStrides{0, 1, rows.strides->row}, rows.alignment_bytes};
  matmul.b = input;
  const Place place = as_gradient(weight);
  const VkDeviceSize byte = place.byte / element_bytes(weight.type) * element_bytes(type);
  matmul.output = {type, std::nullopt, alignment_behind(forward_.alignment_bytes, byte)};
  matmul.accumulates = desc_.adds_to_parameters;
  return program_.add(std::move(name), matmul,
                      {grad_output, input_at, {}, gradient_of(place.parameter).behind(byte)});
}

// db = 1^T dY.
Result<void> BackwardSteps::add_bias(std::string name, const MatrixDesc& rows, const Place& grad_output,
                                     std::int64_t count, std::int64_t outputs, const Place& bias) {
  const DataType type = *desc_.grad_parameter_type;
  MatmulDesc matmul = MatmulDesc::sum_columns(count, outputs, type);
  matmul.b = rows;
  matmul.output = {type, std::nullopt, alignment_behind(forward_.alignment_bytes, bias.byte)};
  matmul.accumulates = desc_.adds_to_parameters;
  return program_.add(std::move(name), matmul, {{}, grad_output, {}, bias});
}

Result<void> BackwardSteps::add_output_gradients() {
  const StoredWeight weight = output_weight(forward_, shape_);
  const MatrixDesc rows{forward_.type, MatrixStrides{0, forward_.d_model, 1}, forward_.alignment_bytes};
  const Place grad_output = place_of(&GradientRanges::grad_output);
  MatmulDesc matmul;
  matmul.rows = shape_.query_rows;
  matmul.columns = shape_.heads_width;
  matmul.inner = forward_.d_model;
  matmul.a = rows;
  matmul.b = weight.as_stored();
  matmul.output.type = forward_.type;
  if (Result<void> s = program_.add("gradient of the heads' output", matmul,
                                    {grad_output, weight.place, {}, gradients_.heads});
      !s) {
    return s;
  }
  if (!desc_.has_grad_parameters) return {};
  const MatrixDesc heads{forward_.type, MatrixStrides{0, shape_.heads_width, 1}, 16};
  if (Result<void> s = add_weight("gradient of out_proj.weight", rows, grad_output, heads, saved_.heads,
                                  shape_.query_rows, weight, forward_.d_model);
      !s) {
    return s;
  }
  if (!forward_.has_output_bias) return {};
  return add_bias("gradient of out_proj.bias", rows, grad_output, shape_.query_rows, forward_.d_model,
                  gradient_of(&ParameterRanges::out_proj_bias));
}

Result<void> BackwardSteps::add_attention() {
  program_.begin_phase();
  return program_.add(
      "gradients of attention", attention_gradients(desc_),
      [values = saved_, gradients = gradients_, desc = forward_, shape = shape_](const ModuleCall& call) {
        BackwardTensors tensors;
        tensors.forward = attention_tensors(call, values, desc, shape);
        tensors.grad_output = gradients.heads.in(call);
        tensors.grad_query = gradients.projection(kQuery, shape, desc.type).in(call);
        tensors.grad_key = gradients.projection(kKey, shape, desc.type).in(call);
        tensors.grad_value = gradients.projection(kValue, shape, desc.type).in(call);
        for (const ScoreGradient& each : kScoreGradients)
          tensors.*each.attention = call.backward->*each.layer;
        return tensors;
      });
}

// Groups come one after the other: their gradients may be parts of one tensor, and descriptors of neighbours
// overlap, as they begin at multiples of an alignment.
Result<void> BackwardSteps::add_group(std::size_t g) {
  program_.begin_phase();
  const ProjectionGroup& group = shape_.groups[g];
  if (desc_.has_grad_parameters) {
    const StoredWeight weight = projection_weight(forward_, shape_, group.first);
    const MatrixDesc rows{forward_.type, MatrixStrides{0, group.width, 1}, 16};
    const MatrixDesc input{forward_.type, MatrixStrides{0, group.inner, 1}, forward_.alignment_bytes};
    if (Result<void> s =
            add_weight("gradient of the weights of the " + name_of(group), rows, gradients_.projected[g],
                       input, input_place(group.input), group.rows, weight, group.width);
        !s) {
      return s;
    }
    if (forward_.has_input_bias) {
      const auto first = static_cast<VkDeviceSize>(shape_.projections[group.first].first_row);
      const Place bias = gradient_of(&ParameterRanges::in_proj_bias)
                             .behind(first * element_bytes(*desc_.grad_parameter_type));
      if (Result<void> s = add_bias("gradient of the biases of the " + name_of(group), rows,
                                    gradients_.projected[g], group.rows, group.width, bias);
          !s) {
        return s;
      }
    }
  }
  return has_gradient(group.input) ? add_input(g) : Result<void>();
}

// dX = dY W. Of groups that read one input, each after the first adds to what the others gave.
Result<void> BackwardSteps::add_input(std::size_t g) {
  constexpr std::array kGradients{&GradientRanges::grad_query, &GradientRanges::grad_key,
                                  &GradientRanges::grad_value};
  const ProjectionGroup& group = shape_.groups[g];
  const StoredWeight weight = projection_weight(forward_, shape_, group.first);
  MatmulDesc matmul;
  matmul.rows = group.rows;
  matmul.columns = group.inner;
  matmul.inner = group.width;
  matmul.a.type = forward_.type;
  matmul.b = weight.as_stored();
  matmul.output = {forward_.type, std::nullopt, forward_.alignment_bytes};
  matmul.accumulates = desc_.adds_to_inputs || group.first != group.input;
  return program_.add("gradient of the input of the " + name_of(group), matmul,
                      {gradients_.projected[g], weight.place, {}, place_of(kGradients[group.input])});
}

}  // namespace

BackwardDesc attention_gradients(const MultiHeadAttentionBackwardDesc& desc) {
  BackwardDesc backward;
  backward.attention = desc.forward.attention;
  backward.has_grad_mask = desc.has_grad_mask;
  backward.has_grad_alibi_slopes = desc.has_grad_alibi_slopes;
  backward.has_grad_sinks = desc.has_grad_sinks;
  backward.grad_mask = desc.grad_mask;
  return backward;
}

Result<void> add_backward_steps(const MultiHeadAttentionBackwardDesc& desc, ModuleProgram& program) {
  BackwardSteps steps(desc, program);
  if (Result<void> s = steps.add_output_gradients(); !s) return s;
  if (Result<void> s = steps.add_attention(); !s) return s;
  if (desc.forward.rotary.style != RotaryStyle::kNone) {
    if (Result<void> s = steps.add_rotation(); !s) return s;
  }
  if (Result<void> s = steps.add_groups(); !s) return s;
  program.finish();
  return {};
}

}  // namespace vkattn::detail
