// Problems from C: see convert.hpp.
#include "c/convert.hpp"

#include <cmath>
#include <optional>

#include "c/handles.hpp"

namespace vkattn::c {

namespace {

std::optional<Strides> strides(const vkattn_strides* given) {
  if (given == nullptr) return std::nullopt;
  return Strides{given->batch, given->head, given->row, given->dim};
}

/// Reads enumerators that the caller may have set to any number; the first that does not exist is kept.
class Enums {
 public:
  template <class Enum>
  [[nodiscard]] Enum read(std::uint32_t number, Enum last, const char* name) {
    const auto most = static_cast<std::uint32_t>(last);
    if (number <= most) return static_cast<Enum>(number);
    if (!wrong_) wrong_ = invalid(detail::message(name, " is ", number, "; the largest there is is ", most));
    return Enum{};
  }
  [[nodiscard]] DataType type(vkattn_data_type given, const char* name) {
    return read(given, DataType::kFloat8E4m3, name);
  }
  [[nodiscard]] TensorDesc tensor(const vkattn_tensor_desc& given, const char* name) {
    return {type(given.type, name), strides(given.strides), given.alignment_bytes};
  }
  [[nodiscard]] CacheLayout cache(const vkattn_cache_layout& given) {
    return {read(given.mapping, KeyMapping::kPaged, "cache.mapping"), given.ring_length, given.page_size,
            given.page_count, given.page_table_stride};
  }

  [[nodiscard]] const std::optional<Error>& wrong() const { return wrong_; }

 private:
  std::optional<Error> wrong_;
};

MatrixDesc matrix(const vkattn_matrix_desc& given, const char* name, Enums& enums) {
  MatrixDesc desc{enums.type(given.type, name), std::nullopt, given.alignment_bytes};
  if (given.strides != nullptr) {
    desc.strides = MatrixStrides{given.strides->batch, given.strides->row, given.strides->column};
  }
  return desc;
}

// Appends and layers have the same members.
template <class Struct>
RotaryDesc rotary(const Struct& c, Enums& enums) {
  return {enums.read(c.rotary_style, RotaryStyle::kHalfSplit, "rotary_style"),
          c.rotary_dims,
          c.rotary_base,
          c.rotary_position_scale,
          c.rotary_has_frequencies != 0,
          c.rotary_magnitude,
          c.rotary_inverse != 0};
}

}  // namespace

Result<AttentionDesc> attention_desc(const vkattn_attention_desc* given) {
  const auto read_desc = read(given, vkattn_attention_desc_init, "vkattn_attention_desc");
  if (!read_desc) return read_desc.error();
  const vkattn_attention_desc& c = *read_desc;
  Enums enums;
  AttentionDesc desc;
  desc.batch = c.batch;
  desc.query_heads = c.query_heads;
  desc.kv_heads = c.kv_heads;
  desc.query_length = c.query_length;
  desc.kv_length = c.kv_length;
  desc.head_dim = c.head_dim;
  desc.value_dim = c.value_dim;
  desc.layout = enums.read(c.layout, Layout::kPackedQkv, "layout");
  desc.query = enums.tensor(c.query, "query.type");
  desc.key = enums.tensor(c.key, "key.type");
  desc.value = enums.tensor(c.value, "value.type");
  desc.output = enums.tensor(c.output, "output.type");
  if (!std::isnan(c.scale)) desc.scale = c.scale;
  desc.causal = c.causal != 0;
  desc.align = enums.read(c.align, Align::kOffset, "align");
  desc.offset = c.offset;
  desc.query_lengths = enums.read(c.query_lengths, Lengths::kPacked, "query_lengths");
  desc.kv_lengths = enums.read(c.kv_lengths, Lengths::kPacked, "kv_lengths");
  desc.total_query_length = c.total_query_length;
  desc.total_kv_length = c.total_kv_length;
  desc.cache = enums.cache(c.cache);
  desc.softcap = c.softcap;
  desc.mask = {enums.read(c.mask, MaskType::kBits, "mask"), strides(c.mask_strides)};
  desc.window = {c.window_left, c.window_right};
  desc.alibi = enums.read(c.alibi, Alibi::kGiven, "alibi");
  desc.has_sinks = c.has_sinks != 0;
  desc.dropout = c.dropout;
  desc.has_lse = c.has_lse != 0;
  desc.lse_strides = strides(c.lse_strides);
  desc.weights = enums.read(c.weights, WeightsStage::kProbabilities, "weights");
  desc.weights_strides = strides(c.weights_strides);
  if (c.score_function != nullptr) {
    if (!is_alive(c.score_function)) return not_alive("score_function");
    desc.score_function = c.score_function->shaders;
  }
  if (enums.wrong()) return *enums.wrong();
  return desc;
}

Result<AppendDesc> append_desc(const vkattn_append_desc* given) {
  const auto read_desc = read(given, vkattn_append_desc_init, "vkattn_append_desc");
  if (!read_desc) return read_desc.error();
  const vkattn_append_desc& c = *read_desc;
  Enums enums;
  AppendDesc desc;
  desc.batch = c.batch;
  desc.query_heads = c.query_heads;
  desc.kv_heads = c.kv_heads;
  desc.new_length = c.new_length;
  desc.head_dim = c.head_dim;
  desc.value_dim = c.value_dim;
  desc.layout = enums.read(c.layout, Layout::kPackedQkv, "layout");
  desc.query = enums.tensor(c.query, "query.type");
  desc.key = enums.tensor(c.key, "key.type");
  desc.value = enums.tensor(c.value, "value.type");
  desc.query_output = enums.tensor(c.query_output, "query_output.type");
  desc.cache_key = enums.tensor(c.cache_key, "cache_key.type");
  desc.cache_value = enums.tensor(c.cache_value, "cache_value.type");
  desc.cache = enums.cache(c.cache);
  desc.cache_length = c.cache_length;
  desc.has_positions = c.has_positions != 0;
  desc.position = c.position;
  desc.new_lengths = enums.read(c.new_lengths, Lengths::kPacked, "new_lengths");
  desc.total_new_length = c.total_new_length;
  desc.writes_kv_lengths = c.writes_kv_lengths != 0;
  desc.rotary = rotary(c, enums);
  if (enums.wrong()) return *enums.wrong();
  return desc;
}

Result<MergeDesc> merge_desc(const vkattn_merge_desc* given) {
  const auto c = read(given, vkattn_merge_desc_init, "vkattn_merge_desc");
  if (!c) return c.error();
  Enums enums;
  MergeDesc desc;
  desc.rows = c->rows;
  desc.value_dim = c->value_dim;
  desc.parts = c->parts;
  desc.part_type = enums.type(c->part_type, "part_type");
  desc.output_type = enums.type(c->output_type, "output_type");
  desc.has_lse = c->has_lse != 0;
  if (enums.wrong()) return *enums.wrong();
  return desc;
}

Result<BackwardDesc> backward_desc(const vkattn_backward_desc* given) {
  const auto c = read(given, vkattn_backward_desc_init, "vkattn_backward_desc");
  if (!c) return c.error();
  const auto attention = attention_desc(c->attention);
  if (!attention) return attention.error();
  Enums enums;
  BackwardDesc desc;
  desc.attention = *attention;
  desc.has_grad_query = c->has_grad_query != 0;
  desc.has_grad_key = c->has_grad_key != 0;
  desc.has_grad_value = c->has_grad_value != 0;
  desc.has_grad_mask = c->has_grad_mask != 0;
  desc.has_grad_alibi_slopes = c->has_grad_alibi_slopes != 0;
  desc.has_grad_sinks = c->has_grad_sinks != 0;
  const auto tensor = [&](const vkattn_tensor_desc* of, const char* name) -> std::optional<TensorDesc> {
    return of != nullptr ? std::optional(enums.tensor(*of, name)) : std::nullopt;
  };
  desc.grad_output = tensor(c->grad_output, "grad_output.type");
  desc.grad_query = tensor(c->grad_query, "grad_query.type");
  desc.grad_key = tensor(c->grad_key, "grad_key.type");
  desc.grad_value = tensor(c->grad_value, "grad_value.type");
  desc.grad_mask = tensor(c->grad_mask, "grad_mask.type");
  if (enums.wrong()) return *enums.wrong();
  return desc;
}

Result<MatmulDesc> matmul_desc(const vkattn_matmul_desc* given) {
  const auto c = read(given, vkattn_matmul_desc_init, "vkattn_matmul_desc");
  if (!c) return c.error();
  Enums enums;
  MatmulDesc desc;
  desc.batch = c->batch;
  desc.rows = c->rows;
  desc.columns = c->columns;
  desc.inner = c->inner;
  desc.a = matrix(c->a, "a.type", enums);
  desc.b = matrix(c->b, "b.type", enums);
  desc.output = matrix(c->output, "output.type", enums);
  desc.has_bias = c->has_bias != 0;
  desc.bias_type = enums.type(c->bias_type, "bias_type");
  desc.accumulates = c->accumulates != 0;
  desc.a_is_ones = c->a_is_ones != 0;
  if (enums.wrong()) return *enums.wrong();
  return desc;
}

Result<MultiHeadAttentionDesc> multi_head_attention_desc(const vkattn_multi_head_attention_desc* given) {
  const auto read_desc =
      read(given, vkattn_multi_head_attention_desc_init, "vkattn_multi_head_attention_desc");
  if (!read_desc) return read_desc.error();
  const vkattn_multi_head_attention_desc& c = *read_desc;
  const auto attention = attention_desc(c.attention);
  if (!attention) return attention.error();
  Enums enums;
  MultiHeadAttentionDesc desc;
  desc.attention = *attention;
  desc.d_model = c.d_model;
  desc.inputs = enums.read(c.inputs, LayerInputs::kSeparate, "inputs");
  desc.key_input_dim = c.key_input_dim;
  desc.value_input_dim = c.value_input_dim;
  desc.packed_weights = c.packed_weights != 0;
  desc.has_input_bias = c.has_input_bias != 0;
  desc.has_output_bias = c.has_output_bias != 0;
  desc.type = enums.type(c.type, "type");
  if (c.parameter_type != nullptr) desc.parameter_type = enums.type(*c.parameter_type, "parameter_type");
  if (c.weight_type != nullptr) desc.weight_type = enums.type(*c.weight_type, "weight_type");
  desc.alignment_bytes = c.alignment_bytes;
  desc.rotary = rotary(c, enums);
  desc.has_cache = c.has_cache != 0;
  desc.has_averaged_weights = c.has_averaged_weights != 0;
  desc.adds_to_output = c.adds_to_output != 0;
  desc.saves_for_gradients = c.saves_for_gradients != 0;
  if (enums.wrong()) return *enums.wrong();
  return desc;
}

Result<MultiHeadAttentionBackwardDesc> multi_head_attention_backward_desc(
    const vkattn_multi_head_attention_backward_desc* given) {
  const auto c = read(given, vkattn_multi_head_attention_backward_desc_init,
                      "vkattn_multi_head_attention_backward_desc");
  if (!c) return c.error();
  const auto forward = multi_head_attention_desc(c->forward);
  if (!forward) return forward.error();
  Enums enums;
  MultiHeadAttentionBackwardDesc desc;
  desc.forward = *forward;
  desc.has_grad_query = c->has_grad_query != 0;
  desc.has_grad_key = c->has_grad_key != 0;
  desc.has_grad_value = c->has_grad_value != 0;
  desc.has_grad_parameters = c->has_grad_parameters != 0;
  desc.has_grad_mask = c->has_grad_mask != 0;
  desc.has_grad_alibi_slopes = c->has_grad_alibi_slopes != 0;
  desc.has_grad_sinks = c->has_grad_sinks != 0;
  desc.adds_to_inputs = c->adds_to_inputs != 0;
  desc.adds_to_parameters = c->adds_to_parameters != 0;
  if (c->grad_parameter_type != nullptr) {
    desc.grad_parameter_type = enums.type(*c->grad_parameter_type, "grad_parameter_type");
  }
  if (c->grad_mask != nullptr) desc.grad_mask = enums.tensor(*c->grad_mask, "grad_mask.type");
  if (enums.wrong()) return *enums.wrong();
  return desc;
}

}  // namespace vkattn::c
