// The steps of a layer's forward pass.
#include "module/layer_steps.hpp"

namespace vkattn::detail {

namespace {

/// Adds the forward steps of one layer.
class ForwardSteps {
 public:
  ForwardSteps(const MultiHeadAttentionDesc& desc, const MultiHeadAttentionTensors& call,
               LayerProgram& program)
      : desc_(desc), call_(call), program_(program), shape_(layer_shape(desc)) {
    const LayerMemory memory = layer_memory(desc, shape_);
    between_ = between_steps(memory, desc.saves_for_gradients ? call.saved : program.take(memory.bytes));
  }

  [[nodiscard]] Result<void> add_projections();
  [[nodiscard]] Result<void> add_append();
  [[nodiscard]] Result<void> add_attention();
  [[nodiscard]] Result<void> add_output();
  [[nodiscard]] Result<void> add_average();
  [[nodiscard]] const BetweenSteps& between() const { return between_; }

 private:
  const MultiHeadAttentionDesc& desc_;
  const MultiHeadAttentionTensors& call_;
  LayerProgram& program_;
  LayerShape shape_;
  BetweenSteps between_;
};

Result<void> ForwardSteps::add_projections() {
  for (std::size_t g = 0; g < shape_.groups.size(); ++g) {
    const ProjectionGroup& group = shape_.groups[g];
    const StoredWeight weight = projection_weight(desc_, shape_, group.first);
    MatmulDesc matmul;
    matmul.rows = group.rows;
    matmul.columns = group.width;
    matmul.inner = group.inner;
    matmul.a = {desc_.type, std::nullopt, desc_.alignment_bytes};
    matmul.b = weight.transposed();
    matmul.output.type = desc_.type;
    MatmulTensors tensors{
        call_.*kInputRanges[group.input], weight.in(call_.parameters), {}, between_.projected[g]};
    if (desc_.has_input_bias) {
      matmul.has_bias = true;
      matmul.bias_type = *desc_.parameter_type;
      const auto first = static_cast<VkDeviceSize>(shape_.projections[group.first].first_row);
      tensors.bias = behind(call_.parameters.in_proj_bias, first * element_bytes(matmul.bias_type));
    }
    if (Result<void> s = program_.add(name_of(group), matmul, tensors); !s) return s;
  }
  return {};
}

Result<void> ForwardSteps::add_append() {
  program_.begin_phase();
  const AttentionTensors& given = call_.attention;
  AppendTensors tensors;
  tensors.query = between_.projection(kQuery, shape_, desc_.type);
  tensors.query_output = between_.turned;
  tensors.key = between_.projection(kKey, shape_, desc_.type);
  tensors.value = between_.projection(kValue, shape_, desc_.type);
  tensors.cache_key = call_.cache_key;
  tensors.cache_value = call_.cache_value;
  tensors.positions = call_.positions;
  tensors.new_lengths = given.query_lengths;
  tensors.cumulative_new_lengths = given.cumulative_query_lengths;
  tensors.page_table = given.page_table;
  tensors.key_scales = given.key_scales;
  tensors.value_scales = given.value_scales;
  tensors.frequencies = call_.frequencies;
  tensors.kv_lengths = given.kv_lengths;
  return program_.add("append", append_desc(desc_), tensors);
}

Result<void> ForwardSteps::add_attention() {
  program_.begin_phase();
  return program_.add("attention", desc_.attention, attention_tensors(call_, between_, desc_, shape_));
}

Result<void> ForwardSteps::add_output() {
  program_.begin_phase();
  const StoredWeight weight = output_weight(desc_, shape_);
  MatmulDesc matmul;
  matmul.rows = shape_.query_rows;
  matmul.columns = desc_.d_model;
  matmul.inner = shape_.heads_width;
  matmul.a.type = desc_.type;
  matmul.b = weight.transposed();
  matmul.output = {desc_.type, std::nullopt, desc_.alignment_bytes};
  matmul.accumulates = desc_.adds_to_output;
  MatmulTensors tensors{between_.heads, weight.in(call_.parameters), {}, call_.output};
  if (desc_.has_output_bias) {
    matmul.has_bias = true;
    matmul.bias_type = *desc_.parameter_type;
    tensors.bias = call_.parameters.out_proj_bias;
  }
  return program_.add("output projection", matmul, tensors);
}

// The mean over heads is a product with a row of 1 / query_heads. It is in the phase of the output
// projection.
Result<void> ForwardSteps::add_average() {
  const AttentionDesc& attention = desc_.attention;
  const Strides& strides = *attention.weights_strides;
  MatmulDesc matmul;
  matmul.batch = attention.batch;
  matmul.rows = 1;
  matmul.columns = attention.query_length * attention.kv_length;
  matmul.inner = attention.query_heads;
  matmul.a = {DataType::kFloat32, MatrixStrides{0, 0, 1}, 0};
  matmul.b = {DataType::kFloat32, MatrixStrides{strides.batch, strides.head, 1}, 0};
  matmul.output.alignment_bytes = 0;
  program_.set_head_shares(attention.query_heads);
  return program_.add(
      "averaged weights", matmul,
      MatmulTensors{symbol(kHeadSharesNumber), call_.attention.weights, {}, call_.averaged_weights});
}

}  // namespace

Result<void> add_forward_steps(const MultiHeadAttentionDesc& desc, const MultiHeadAttentionTensors& call,
                               LayerProgram& program) {
  ForwardSteps steps(desc, call, program);
  if (Result<void> s = steps.add_projections(); !s) return s;
  if (desc.has_cache) {
    if (Result<void> s = steps.add_append(); !s) return s;
  } else if (desc.rotary.style != RotaryStyle::kNone) {
    if (Result<void> s = add_rotation_steps(desc, call, steps.between(), false, program); !s) return s;
  }
  if (Result<void> s = steps.add_attention(); !s) return s;
  if (Result<void> s = steps.add_output(); !s) return s;
  if (desc.has_averaged_weights) {
    if (Result<void> s = steps.add_average(); !s) return s;
  }
  return {};
}

}  // namespace vkattn::detail
