// The steps of a layer's gradients.
#include <array>

#include "module/layer_steps.hpp"

namespace vkattn::detail {

namespace {

/// Adds the steps of one layer's gradients.
class BackwardSteps {
 public:
  BackwardSteps(const MultiHeadAttentionBackwardDesc& desc, const MultiHeadAttentionBackwardTensors& call,
                LayerProgram& program)
      : desc_(desc),
        forward_(desc.forward),
        call_(call),
        program_(program),
        shape_(layer_shape(desc.forward)) {
    const LayerMemory memory = layer_memory(forward_, shape_);
    saved_ = between_steps(memory, call.forward.saved);
    // The gradients of saved tensors lie in the workspace, in the same order; lse has none.
    gradients_ = between_steps(memory, program.take(memory.bytes));
  }

  [[nodiscard]] Result<void> add_output_gradients();
  [[nodiscard]] Result<void> add_attention();
  [[nodiscard]] Result<void> add_rotation() {
    return add_rotation_steps(forward_, call_.forward, gradients_, true, program_);
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
  [[nodiscard]] Result<void> add_weight(std::string name, const MatrixDesc& rows,
                                        const BufferRange& grad_output, const MatrixDesc& input,
                                        const BufferRange& input_at, std::int64_t count,
                                        const StoredWeight& weight, std::int64_t outputs);
  [[nodiscard]] Result<void> add_bias(std::string name, const MatrixDesc& rows,
                                      const BufferRange& grad_output, std::int64_t count,
                                      std::int64_t outputs, const BufferRange& bias);
  [[nodiscard]] bool has_gradient(std::size_t input) const {
    return std::array{desc_.has_grad_query, desc_.has_grad_key, desc_.has_grad_value}[input];
  }

  const MultiHeadAttentionBackwardDesc& desc_;
  const MultiHeadAttentionDesc& forward_;
  const MultiHeadAttentionBackwardTensors& call_;
  LayerProgram& program_;
  LayerShape shape_;
  BetweenSteps saved_, gradients_;
};

// dW = dY^T X, which is stored as W is.
Result<void> BackwardSteps::add_weight(std::string name, const MatrixDesc& rows,
                                       const BufferRange& grad_output, const MatrixDesc& input,
                                       const BufferRange& input_at, std::int64_t count,
                                       const StoredWeight& weight, std::int64_t outputs) {
  const DataType type = *desc_.grad_parameter_type;
  MatmulDesc matmul;
  matmul.rows = outputs;
  matmul.columns = weight.inputs;
  matmul.inner = count;
  matmul.a = {rows.type, MatrixStrides{0, 1, rows.strides->row}, rows.alignment_bytes};
  matmul.b = input;
  const VkDeviceSize byte = weight.byte / element_bytes(weight.type) * element_bytes(type);
  matmul.output = {type, std::nullopt, alignment_behind(forward_.alignment_bytes, byte)};
  matmul.accumulates = desc_.adds_to_parameters;
  return program_.add(
      std::move(name), matmul,
      MatmulTensors{grad_output, input_at, {}, behind(call_.grad_parameters.*weight.parameter, byte)});
}

// db = 1^T dY.
Result<void> BackwardSteps::add_bias(std::string name, const MatrixDesc& rows, const BufferRange& grad_output,
                                     std::int64_t count, std::int64_t outputs, const BufferRange& bias) {
  const DataType type = *desc_.grad_parameter_type;
  MatmulDesc matmul = MatmulDesc::sum_columns(count, outputs, type);
  matmul.b = rows;
  matmul.output = {type, std::nullopt, alignment_behind(forward_.alignment_bytes, bias.offset)};
  matmul.accumulates = desc_.adds_to_parameters;
  return program_.add(std::move(name), matmul, MatmulTensors{{}, grad_output, {}, bias});
}

Result<void> BackwardSteps::add_output_gradients() {
  const StoredWeight weight = output_weight(forward_, shape_);
  const MatrixDesc rows{forward_.type, MatrixStrides{0, forward_.d_model, 1}, forward_.alignment_bytes};
  MatmulDesc matmul;
  matmul.rows = shape_.query_rows;
  matmul.columns = shape_.heads_width;
  matmul.inner = forward_.d_model;
  matmul.a = rows;
  matmul.b = weight.as_stored();
  matmul.output.type = forward_.type;
  if (Result<void> s = program_.add(
          "gradient of the heads' output", matmul,
          MatmulTensors{call_.grad_output, weight.in(call_.forward.parameters), {}, gradients_.heads});
      !s) {
    return s;
  }
  if (!desc_.has_grad_parameters) return {};
  const MatrixDesc heads{forward_.type, MatrixStrides{0, shape_.heads_width, 1}, 16};
  if (Result<void> s = add_weight("gradient of out_proj.weight", rows, call_.grad_output, heads, saved_.heads,
                                  shape_.query_rows, weight, forward_.d_model);
      !s) {
    return s;
  }
  if (!forward_.has_output_bias) return {};
  return add_bias("gradient of out_proj.bias", rows, call_.grad_output, shape_.query_rows, forward_.d_model,
                  call_.grad_parameters.out_proj_bias);
}

Result<void> BackwardSteps::add_attention() {
  program_.begin_phase();
  BackwardTensors tensors = call_.attention;
  tensors.forward = attention_tensors(call_.forward, saved_, forward_, shape_);
  tensors.grad_output = gradients_.heads;
  tensors.grad_query = gradients_.projection(kQuery, shape_, forward_.type);
  tensors.grad_key = gradients_.projection(kKey, shape_, forward_.type);
  tensors.grad_value = gradients_.projection(kValue, shape_, forward_.type);
  return program_.add("gradients of attention", attention_gradients(desc_), tensors);
}

// Groups run one after the other: their gradients may be parts of one tensor, and descriptors of neighbours
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
                       input, call_.forward.*kInputRanges[group.input], group.rows, weight, group.width);
        !s) {
      return s;
    }
    if (forward_.has_input_bias) {
      const auto first = static_cast<VkDeviceSize>(shape_.projections[group.first].first_row);
      const BufferRange bias =
          behind(call_.grad_parameters.in_proj_bias, first * element_bytes(*desc_.grad_parameter_type));
      if (Result<void> s = add_bias("gradient of the biases of the " + name_of(group), rows,
                                    gradients_.projected[g], group.rows, group.width, bias);
          !s) {
        return s;
      }
    }
  }
  return has_gradient(group.input) ? add_input(g) : Result<void>();
}

// dX = dY W. If several groups read one input, each after the first adds to the gradient.
Result<void> BackwardSteps::add_input(std::size_t g) {
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
                      MatmulTensors{gradients_.projected[g],
                                    weight.in(call_.forward.parameters),
                                    {},
                                    call_.*kInputGradients[group.input]});
}

}  // namespace

BackwardDesc attention_gradients(const MultiHeadAttentionBackwardDesc& desc) {
  BackwardDesc backward = desc.attention;
  backward.attention = desc.forward.attention;
  backward.has_grad_query = backward.has_grad_key = backward.has_grad_value = true;
  return backward;
}

Result<void> add_backward_steps(const MultiHeadAttentionBackwardDesc& desc,
                                const MultiHeadAttentionBackwardTensors& call, LayerProgram& program) {
  BackwardSteps steps(desc, call, program);
  if (Result<void> s = steps.add_output_gradients(); !s) return s;
  if (Result<void> s = steps.add_attention(); !s) return s;
  if (desc.forward.rotary.style != RotaryStyle::kNone) {
    if (Result<void> s = steps.add_rotation(); !s) return s;
  }
  return steps.add_groups();
}

}  // namespace vkattn::detail
