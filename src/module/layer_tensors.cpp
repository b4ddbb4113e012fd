// The tensors that a layer checks by name and shape.
#include <algorithm>
#include <array>
#include <string_view>

#include "attention/tensor_table.hpp"
#include "backward/gradient_table.hpp"
#include "cache/append_tensors.hpp"
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

/// For ModuleProgram::add_place().
ProgramTensor placed(std::string_view name, const TensorDesc& storage, const TensorExtents& extents) {
  ProgramTensor tensor;
  tensor.name = message(name, " tensor");
  tensor.layout = byte_layout(storage, extents);
  tensor.bytes = tensor.layout.span_bytes();
  return tensor;
}

std::vector<std::int64_t> shape_of(const ParameterShape& parameter) {
  if (parameter.columns == 0) return {parameter.rows};
  return {parameter.rows, parameter.columns};
}

}  // namespace

namespace {

// What features of attention take. Heads' own tensors lie in the layer's memory.
void add_features(const MultiHeadAttentionDesc& desc, bool is_forward, std::uint32_t positions,
                  ModuleProgram& program) {
  using A = AttentionTensors;
  constexpr std::array kOwn{&A::query, &A::key, &A::value, &A::output, &A::lse};
  const AttentionDesc& attention = desc.attention;
  for (const TensorRow& row : tensor_table()) {
    if (!row.is_used(attention) || std::find(kOwn.begin(), kOwn.end(), row.range) != kOwn.end()) continue;
    if (row.use.written && !is_forward) continue;  // gradients have no use for weights
    ProgramTensor tensor = placed(row.name, row.storage(attention), tensor_extents(row, attention));
    tensor.written = row.use.written;
    if (desc.has_cache && row.range == &A::kv_lengths) {
      tensor.written = true;
      tensor.in_place_of = positions;
    }
    program.add_place(std::move(tensor), place_of(row.range));
  }
  if (desc.rotary.style != RotaryStyle::kNone && desc.rotary.has_frequencies) {
    program.add_place(
        placed("frequencies", {DataType::kFloat32, Strides{0, 0, 0, 1}, 0}, {1, 1, 1, desc.rotary.dims / 2}),
        place_of(&MultiHeadAttentionTensors::frequencies));
  }
  if (!attention.score_function) return;
  for (std::size_t i = 0; i < attention.score_function->buffers().size(); ++i) {
    ProgramTensor table;
    table.name = message("score function's buffer ", attention.score_function->buffers()[i].name);
    table.bytes = 4;
    table.is_table = true;
    program.add_place(std::move(table), place_of_score_buffer(i));
  }
}

// The cache, of which new rows are written, and what it takes; the number of the positions.
std::uint32_t add_cache(const MultiHeadAttentionDesc& desc, ModuleProgram& program) {
  struct CacheRow {
    BufferRange AppendTensors::*append;
    BufferRange MultiHeadAttentionTensors::*layer;
  };
  using L = MultiHeadAttentionTensors;
  constexpr std::array<CacheRow, 3> kCache{{{&AppendTensors::cache_key, &L::cache_key},
                                            {&AppendTensors::cache_value, &L::cache_value},
                                            {&AppendTensors::positions, &L::positions}}};
  const AppendDesc append = append_desc(desc).resolved();
  std::uint32_t last = 0;
  for (const CacheRow& each : kCache) {
    const AppendTensorRow& row = append_tensor_table()[append_tensor_index(each.append)];
    ProgramTensor tensor = placed(row.name, row.storage(append), row.extents(append));
    tensor.written = row.use.written;
    last = program.add_place(std::move(tensor), place_of(each.layer));
  }
  return last;
}

}  // namespace

void add_layer_tensors(const MultiHeadAttentionDesc& desc, const LayerShape& shape, VkDeviceSize saved_bytes,
                       bool is_forward, ModuleProgram& program) {
  using T = MultiHeadAttentionTensors;
  for (const ProjectionGroup& group : shape.groups) {
    program.add_tensor({std::string(kInputNames[group.input]), input_place(group.input),
                        input_shape(desc, group), desc.type, desc.alignment_bytes});
  }
  for (const ParameterShape& parameter : parameters(desc)) {
    program.add_tensor({std::string(parameter.name), place_of(parameter.range), shape_of(parameter),
                        parameter.type, desc.alignment_bytes});
  }
  add_features(desc, is_forward, desc.has_cache ? add_cache(desc, program) : 0, program);
  if (!desc.saves_for_gradients) return;
  program.add_tensor({"saved",
                      place_of(&T::saved),
                      {static_cast<std::int64_t>(saved_bytes / 4)},
                      DataType::kFloat32,
                      16,
                      is_forward});
}

void add_output_tensors(const MultiHeadAttentionDesc& desc, const LayerShape& shape, ModuleProgram& program) {
  using T = MultiHeadAttentionTensors;
  const AttentionDesc& attention = desc.attention;
  program.add_tensor({"output", place_of(&T::output), input_shape(desc, shape.groups[0]), desc.type,
                      desc.alignment_bytes, true});
  if (!desc.has_averaged_weights) return;
  program.add_tensor({"averaged_weights",
                      place_of(&T::averaged_weights),
                      {attention.batch, attention.query_length, attention.kv_length},
                      DataType::kFloat32,
                      0,
                      true});
}

namespace {

// Gradients of what features of attention take.
void add_score_gradients(const MultiHeadAttentionBackwardDesc& desc, ModuleProgram& program) {
  const BackwardDesc backward = attention_gradients(desc).resolved();
  for (const ScoreGradient& each : kScoreGradients) {
    const GradientRow& row = gradient_table()[gradient_index(each.attention)];
    if (!row.is_used(backward)) continue;
    ProgramTensor tensor = placed(row.name, row.storage(backward), row.extents(backward));
    tensor.written = true;
    program.add_place(std::move(tensor), place_of(each.layer));
  }
}

}  // namespace

void add_gradient_tensors(const MultiHeadAttentionBackwardDesc& desc, const LayerShape& shape,
                          ModuleProgram& program) {
  using G = MultiHeadAttentionBackwardTensors;
  const MultiHeadAttentionDesc& forward = desc.forward;
  const std::array wanted{desc.has_grad_query, desc.has_grad_key, desc.has_grad_value};
  constexpr std::array kGradients{&G::grad_query, &G::grad_key, &G::grad_value};
  program.add_tensor({"grad_output", place_of(&G::grad_output), input_shape(forward, shape.groups[0]),
                      forward.type, forward.alignment_bytes});
  for (const ProjectionGroup& group : shape.groups) {
    // Of groups that read one input, those after the first add to its gradient.
    if (!wanted[group.input] || group.first != group.input) continue;
    program.add_tensor({message("grad_", kInputNames[group.input]), place_of(kGradients[group.input]),
                        input_shape(forward, group), forward.type, forward.alignment_bytes, true});
  }
  add_score_gradients(desc, program);
  if (!desc.has_grad_parameters) return;
  for (const ParameterShape& parameter : parameters(forward)) {
    program.add_tensor({message("the gradient of ", parameter.name), gradient_of(parameter.range),
                        shape_of(parameter), *desc.grad_parameter_type, forward.alignment_bytes, true});
  }
}

}  // namespace vkattn::detail
