// The common part of both passes of a layer: weights as matrices, the tensors between the steps, rotation.
#include "module/layer_steps.hpp"

#include <array>
#include <string_view>

namespace vkattn::detail {

AppendDesc append_desc(const MultiHeadAttentionDesc& desc) {
  const AttentionDesc& attention = desc.attention;
  const LayerShape shape = layer_shape(desc);
  AppendDesc append;
  append.batch = attention.batch;
  append.query_heads = desc.rotary.style == RotaryStyle::kNone ? 0 : attention.query_heads;
  append.kv_heads = attention.kv_heads;
  append.new_length = attention.query_length;
  append.head_dim = attention.head_dim;
  append.value_dim = attention.value_dim;
  append.layout = attention.layout;
  const auto rows = [&](std::size_t which, std::int64_t dims) {
    const auto behind =
        static_cast<std::uint64_t>(shape.projections[which].first_column) * element_bytes(desc.type);
    return TensorDesc{desc.type, head_strides(shape.groups[0], attention.query_length, dims),
                      alignment_behind(16, behind)};
  };
  append.query = rows(kQuery, attention.head_dim);
  append.query_output = attention.query;
  append.key = rows(kKey, attention.head_dim);
  append.value = rows(kValue, attention.value_dim);
  append.cache_key = attention.key;
  append.cache_value = attention.value;
  append.cache = attention.cache;
  append.cache_length = attention.kv_length;
  append.has_positions = true;
  append.new_lengths = attention.query_lengths;
  append.total_new_length = attention.total_query_length;
  append.writes_kv_lengths = true;
  append.rotary = desc.rotary;
  return append;
}

AppendDesc rotation_desc(const MultiHeadAttentionDesc& desc, std::size_t first, bool back) {
  const AttentionDesc& attention = desc.attention;
  const LayerShape shape = layer_shape(desc);
  const bool has_both = shape.projections[kQuery].group == shape.projections[kKey].group;
  AppendDesc append;
  append.batch = attention.batch;
  append.query_heads = first == kKey ? attention.kv_heads : attention.query_heads;
  if (has_both) append.query_heads += attention.kv_heads;
  append.kv_heads = 0;
  append.new_length = attention.query_length;
  append.head_dim = attention.head_dim;
  append.query = append.query_output = first == kKey ? attention.key : attention.query;
  append.new_lengths = attention.query_lengths;
  append.total_new_length = attention.total_query_length;
  append.rotary = desc.rotary;
  append.rotary.inverse = back != desc.rotary.inverse;
  return append;
}

Result<void> add_rotation_steps(const MultiHeadAttentionDesc& desc, const MultiHeadAttentionTensors& call,
                                const BetweenSteps& rows, bool back, LayerProgram& program) {
  const LayerShape shape = layer_shape(desc);
  program.begin_phase();
  for (const std::size_t first : {kQuery, kKey}) {
    if (shape.groups[shape.projections[first].group].first != first) continue;
    AppendTensors tensors;
    tensors.query = tensors.query_output = rows.projection(first, shape, desc.type);
    tensors.new_lengths = call.attention.query_lengths;
    tensors.cumulative_new_lengths = call.attention.cumulative_query_lengths;
    tensors.frequencies = call.frequencies;
    if (Result<void> s =
            program.add(back ? "rotation back" : "rotation", rotation_desc(desc, first, back), tensors);
        !s) {
      return s;
    }
  }
  return {};
}

StoredWeight projection_weight(const MultiHeadAttentionDesc& desc, const LayerShape& shape,
                               std::size_t which) {
  using P = MultiHeadAttentionParameters;
  StoredWeight weight;
  weight.type = *desc.weight_type;
  weight.inputs = shape.groups[shape.projections[which].group].inner;
  weight.alignment_bytes = desc.alignment_bytes;
  if (!desc.packed_weights) {
    weight.parameter = std::array{&P::q_proj_weight, &P::k_proj_weight, &P::v_proj_weight}[which];
    return weight;
  }
  const auto elements = static_cast<std::uint64_t>(shape.projections[which].first_row * weight.inputs);
  weight.parameter = &P::in_proj_weight;
  weight.byte = elements / block_elements(weight.type) * block_bytes(weight.type);
  weight.alignment_bytes = alignment_behind(desc.alignment_bytes, weight.byte);
  return weight;
}

StoredWeight output_weight(const MultiHeadAttentionDesc& desc, const LayerShape& shape) {
  return {&MultiHeadAttentionParameters::out_proj_weight, 0, shape.heads_width, *desc.weight_type,
          desc.alignment_bytes};
}

std::string name_of(const ProjectionGroup& group) {
  constexpr std::array<std::string_view, kProjections> kLetters{" Q", " K", " V"};
  std::string name = "projection to";
  for (std::size_t i = group.first; i < group.first + group.count; ++i) name += kLetters[i];
  return name;
}

BufferRange BetweenSteps::projection(std::size_t which, const LayerShape& shape, DataType type) const {
  const Projection& of = shape.projections[which];
  return behind(projected[of.group], static_cast<VkDeviceSize>(of.first_column) * element_bytes(type));
}

BetweenSteps between_steps(const LayerMemory& memory, const BufferRange& base) {
  BetweenSteps between;
  for (const Piece& piece : memory.projected) between.projected.push_back(part_of(base, piece));
  between.turned = part_of(base, memory.turned);
  between.heads = part_of(base, memory.heads);
  between.lse = part_of(base, memory.lse);
  return between;
}

AttentionTensors attention_tensors(const MultiHeadAttentionTensors& call, const BetweenSteps& between,
                                   const MultiHeadAttentionDesc& desc, const LayerShape& shape) {
  AttentionTensors tensors = call.attention;
  tensors.query = has_turned_queries(desc) ? between.turned : between.projection(kQuery, shape, desc.type);
  tensors.key = desc.has_cache ? call.cache_key : between.projection(kKey, shape, desc.type);
  tensors.value = desc.has_cache ? call.cache_value : between.projection(kValue, shape, desc.type);
  tensors.output = between.heads;
  tensors.lse = desc.attention.has_lse ? between.lse : BufferRange{};
  return tensors;
}

}  // namespace vkattn::detail
