// The steps of a layer's forward pass.
#include "module/layer_steps.hpp"

namespace vkattn::detail {

namespace {

/// Adds the forward steps of one layer.
class ForwardSteps {
 public:
  ForwardSteps(const MultiHeadAttentionDesc& desc, ModuleProgram& program)
      : desc_(desc), program_(program), shape_(layer_shape(desc)) {
    LayerMemory memory = layer_memory(desc, shape_);
    if (desc.saves_for_gradients) {
      between_ = between_steps(memory, saved);
      return;
    }
    // The memory is one piece of the workspace, which begins where nothing was taken before.
    (void)program.take(memory.bytes);
    between_ = between_steps(memory, in_workspace);
  }

  [[nodiscard]] Result<void> add_projections();
  [[nodiscard]] Result<void> add_append();
  void add_attention(const AttentionPlan& plan);
  [[nodiscard]] Result<void> add_output();
  [[nodiscard]] Result<void> add_average();
  [[nodiscard]] const BetweenSteps& between() const { return between_; }

 private:
  const MultiHeadAttentionDesc& desc_;
  ModuleProgram& program_;
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
    MatmulPlaces places{input_place(group.input), weight.place, {}, between_.projected[g]};
    if (desc_.has_input_bias) {
      matmul.has_bias = true;
      matmul.bias_type = *desc_.parameter_type;
      const auto first = static_cast<VkDeviceSize>(shape_.projections[group.first].first_row);
      places.bias = place_of(&MultiHeadAttentionParameters::in_proj_bias)
                        .behind(first * element_bytes(matmul.bias_type));
    }
    if (Result<void> s = program_.add(name_of(group), matmul, places); !s) return s;
  }
  return {};
}

Result<void> ForwardSteps::add_append() {
  program_.begin_phase();
  const Place query = between_.projection(kQuery, shape_, desc_.type);
  const Place key = between_.projection(kKey, shape_, desc_.type);
  const Place value = between_.projection(kValue, shape_, desc_.type);
  return program_.add("append", append_desc(desc_),
                      [query, turned = between_.turned, key, value](const ModuleCall& call) {
                        const AttentionTensors& given = call.forward.attention;
                        AppendTensors tensors;
                        tensors.query = query.in(call);
                        tensors.query_output = turned.in(call);
                        tensors.key = key.in(call);
                        tensors.value = value.in(call);
                        tensors.cache_key = call.forward.cache_key;
                        tensors.cache_value = call.forward.cache_value;
                        tensors.positions = call.forward.positions;
                        tensors.new_lengths = given.query_lengths;
                        tensors.cumulative_new_lengths = given.cumulative_query_lengths;
                        tensors.page_table = given.page_table;
                        tensors.key_scales = given.key_scales;
                        tensors.value_scales = given.value_scales;
                        tensors.frequencies = call.forward.frequencies;
                        tensors.kv_lengths = given.kv_lengths;
                        return tensors;
                      });
}

void ForwardSteps::add_attention(const AttentionPlan& plan) {
  program_.begin_phase();
  program_.add("attention", plan, [between = between_, desc = desc_, shape = shape_](const ModuleCall& call) {
    return attention_tensors(call, between, desc, shape);
  });
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
  MatmulPlaces places{between_.heads, weight.place, {}, place_of(&MultiHeadAttentionTensors::output)};
  if (desc_.has_output_bias) {
    matmul.has_bias = true;
    matmul.bias_type = *desc_.parameter_type;
    places.bias = place_of(&MultiHeadAttentionParameters::out_proj_bias);
  }
  return program_.add("output projection", matmul, places);
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
  Place weights{[](const ModuleCall& call, const Place&) -> const BufferRange& {
    return call.forward.attention.weights;
  }};
  return program_.add("averaged weights", matmul,
                      {head_shares(), weights, {}, place_of(&MultiHeadAttentionTensors::averaged_weights)});
}

}  // namespace

Result<void> add_forward_steps(const MultiHeadAttentionDesc& desc, const AttentionPlan& attention,
                               ModuleProgram& program) {
  ForwardSteps steps(desc, program);
  if (Result<void> s = steps.add_projections(); !s) return s;
  if (desc.has_cache) {
    if (Result<void> s = steps.add_append(); !s) return s;
  } else if (desc.rotary.style != RotaryStyle::kNone) {
    if (Result<void> s = add_rotation_steps(desc, steps.between(), false, program); !s) return s;
  }
  steps.add_attention(attention);
  if (Result<void> s = steps.add_output(); !s) return s;
  if (desc.has_averaged_weights) {
    if (Result<void> s = steps.add_average(); !s) return s;
  }
  program.finish();
  return {};
}

}  // namespace vkattn::detail
