// The descriptor of a layer: members that are not given, and every rule that needs no device.
#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "attention/tensor_rules.hpp"
#include "backward/gradient_table.hpp"
#include "common/message.hpp"
#include "module/layer_shape.hpp"
#include "module/layer_steps.hpp"

namespace vkattn {

namespace detail {

namespace {

constexpr std::int64_t kMaxDims = std::int64_t{1} << 30;
constexpr std::array<std::string_view, kProjections> kNames{"query", "key", "value"};

bool has_positions_in_scores(const AttentionDesc& attention) {
  const bool has_distances = attention.alibi != Alibi::kNone && attention.alibi != Alibi::kTimesMask;
  return attention.causal || attention.window != SlidingWindow{} || has_distances;
}

/// Sets the storage of Q, K, V and O, through which attention reads the projections and writes for the output
/// projection.
void set_storage(MultiHeadAttentionDesc& desc) {
  AttentionDesc& attention = desc.attention;
  const LayerShape shape = layer_shape(desc);
  const std::uint64_t element = element_bytes(desc.type);
  const auto projected = [&](std::size_t which, std::int64_t length, std::int64_t dims) {
    const Projection& projection = shape.projections[which];
    const auto behind = static_cast<std::uint64_t>(projection.first_column) * element;
    return TensorDesc{desc.type, head_strides(shape.groups[projection.group], length, dims),
                      alignment_behind(16, behind)};
  };
  attention.query = projected(kQuery, attention.query_length, attention.head_dim);
  const auto rows_of = [&](std::int64_t width, std::int64_t dims) {
    ProjectionGroup rows;
    rows.width = width;
    return TensorDesc{desc.type, head_strides(rows, attention.query_length, dims), 16};
  };
  if (has_turned_queries(desc)) {
    attention.query = rows_of(shape.projections[kQuery].width, attention.head_dim);
  }
  if (!desc.has_cache) {
    attention.key = projected(kKey, attention.kv_length, attention.head_dim);
    attention.value = projected(kValue, attention.kv_length, attention.value_dim);
  }
  attention.output = rows_of(shape.heads_width, attention.value_dim);
}

Result<void> check_weight_type(const MultiHeadAttentionDesc& desc) {
  const DataType type = *desc.weight_type;
  if (is_float(type)) return {};
  if (block_elements(type) == 1) {
    return invalid("MultiHeadAttentionDesc::weight_type is ", name(type),
                   " but must be f32, f16, bf16, q8_0 or q4_0");
  }
  if (!desc.saves_for_gradients) return {};
  return invalid("MultiHeadAttentionDesc::weight_type is ", name(type),
                 ", which has no gradients, but saves_for_gradients is set; train float weights and quantise "
                 "them afterwards");
}

Result<void> check_types(const MultiHeadAttentionDesc& desc) {
  if (Result<void> s =
          check_enum("MultiHeadAttentionDesc::inputs", desc.inputs, LayerInputs::kSeparate, "inputs");
      !s) {
    return s;
  }
  for (const auto& [what, type] :
       {std::pair{"type", desc.type}, std::pair{"parameter_type", *desc.parameter_type}}) {
    if (!is_float(type)) {
      return invalid("MultiHeadAttentionDesc::", what, " is ", name(type), " but must be f32, f16 or bf16");
    }
  }
  if (Result<void> s = check_weight_type(desc); !s) return s;
  const std::uint32_t least = std::max(
      {element_bytes(desc.type), element_bytes(*desc.parameter_type), element_bytes(*desc.weight_type)});
  const std::uint32_t alignment = desc.alignment_bytes;
  if (alignment == 0 || (std::has_single_bit(alignment) && alignment >= least)) return {};
  return invalid("MultiHeadAttentionDesc::alignment_bytes is ", alignment,
                 " but must be a power of two of at least ", least,
                 ", the size of an element, or 0 for that size");
}

Result<void> check_dims(const MultiHeadAttentionDesc& given, const MultiHeadAttentionDesc& desc) {
  const std::array<std::int64_t, kProjections> dims{desc.d_model, desc.key_input_dim, desc.value_input_dim};
  constexpr std::array kMembers{"d_model", "key_input_dim", "value_input_dim"};
  if (desc.d_model == kUnset) return invalid("MultiHeadAttentionDesc::d_model is not set; it must be given");
  for (std::size_t i = 0; i < kProjections; ++i) {
    if (dims[i] < 1 || dims[i] > kMaxDims) {
      return invalid("MultiHeadAttentionDesc::", kMembers[i], " is ", dims[i], " but must be from 1 to ",
                     kMaxDims);
    }
  }
  for (const ProjectionGroup& group : layer_shape(desc).groups) {
    for (std::size_t i = group.first; i < group.first + group.count; ++i) {
      if (dims[i] == dims[group.input]) continue;
      return invalid("the ", kNames[i], " projection reads ", kNames[group.input], ", whose rows have ",
                     dims[group.input], " elements, but ", kMembers[i], " is ", dims[i]);
    }
  }
  if (desc.packed_weights && (dims[kKey] != dims[kQuery] || dims[kValue] != dims[kQuery])) {
    return invalid("packed_weights need inputs with rows of one length, but d_model is ", dims[kQuery],
                   ", key_input_dim ", dims[kKey], " and value_input_dim ", dims[kValue],
                   "; set packed_weights to false");
  }
  const std::int64_t heads = desc.attention.query_heads;
  if (heads < 1) return invalid("attention.query_heads is ", heads, ", but a layer has heads");
  if (given.attention.head_dim == kUnset && desc.d_model % heads != 0) {
    return invalid("d_model is ", desc.d_model, ", which is no multiple of query_heads, ", heads,
                   "; give attention.head_dim");
  }
  return {};
}

Result<void> check_blocks(const MultiHeadAttentionDesc& desc) {
  for (const ParameterShape& parameter : parameters(desc)) {
    const std::int64_t block = block_elements(parameter.type);
    if (parameter.columns % block == 0) continue;
    return invalid(parameter.name, " is ", name(parameter.type), ", blocks of ", block,
                   " along its inputs, but it has ", parameter.columns, " of them; take another weight_type");
  }
  return {};
}

Result<void> check_self(const MultiHeadAttentionDesc& desc) {
  const AttentionDesc& attention = desc.attention;
  if (desc.inputs != LayerInputs::kSelf || desc.has_cache) return {};
  if (attention.has_packed_queries() != attention.has_packed_keys()) {
    return invalid(
        "K and V are projections of `query`, so attention.query_lengths and attention.kv_lengths are "
        "both packed or neither is");
  }
  const bool same = attention.has_packed_queries() ? attention.total_kv_length == attention.total_query_length
                                                   : attention.kv_length == attention.query_length;
  if (same) return {};
  return invalid("K and V are projections of `query`, which has ",
                 attention.has_packed_queries() ? attention.total_query_length : attention.query_length,
                 " rows, but attention asks for ",
                 attention.has_packed_queries() ? attention.total_kv_length : attention.kv_length,
                 " keys; leave kv_length out, or take LayerInputs::kCross");
}

/// Checks that storage which the layer decides was left alone, or is as resolved() gave it.
Result<void> check_storage(const MultiHeadAttentionDesc& given, const MultiHeadAttentionDesc& desc) {
  struct Stored {
    std::string_view name;
    const TensorDesc &given, &own;
  };
  const AttentionDesc &before = given.attention, &after = desc.attention;
  for (const Stored& tensor : {Stored{"query", before.query, after.query},
                               {"key", before.key, after.key},
                               {"value", before.value, after.value},
                               {"output", before.output, after.output}}) {
    const bool has_strides = tensor.given.strides && *tensor.given.strides != *tensor.own.strides;
    const bool has_type = tensor.given.type != DataType::kFloat32 && tensor.given.type != tensor.own.type;
    if (!has_strides && !has_type) continue;
    return invalid("attention.", tensor.name, " has ", has_strides ? "strides" : "a type",
                   " of its own, but lies where the layer puts it; leave it out",
                   has_type ? ", and set MultiHeadAttentionDesc::type" : "");
  }
  const bool contiguous =
      before.layout == Layout::kBhsd || (desc.has_cache && before.layout == Layout::kBshd);
  if (contiguous) return {};
  return invalid("attention.layout is not kBhsd, but K and V lie where the layer puts them; leave it out",
                 desc.has_cache ? ", or take kBshd for the cache" : "");
}

Result<void> check_cache(const MultiHeadAttentionDesc& desc) {
  const AttentionDesc& attention = desc.attention;
  if (!desc.has_cache) {
    if (attention.cache.mapping == KeyMapping::kContiguous) return {};
    return invalid("attention.cache is a ring or pages, but has_cache is not set");
  }
  if (desc.inputs != LayerInputs::kSelf) {
    return invalid("has_cache needs LayerInputs::kSelf: what is appended are projections of `query`");
  }
  if (desc.saves_for_gradients) {
    return invalid("has_cache and saves_for_gradients are both set, but a cache has no gradients");
  }
  if (has_positions_in_scores(attention) && attention.align != Align::kBottomRight) {
    return invalid(
        "the new rows are the last of the cache: causality, windows and ALiBi need "
        "attention.align = Align::kBottomRight");
  }
  return validate(append_desc(desc));
}

Result<void> check_rotary(const MultiHeadAttentionDesc& desc) {
  if (desc.rotary.style == RotaryStyle::kNone || desc.has_cache) return {};
  if (desc.inputs != LayerInputs::kSelf) {
    return invalid("rotary embedding needs LayerInputs::kSelf: positions of other inputs are not queries'");
  }
  return validate(rotation_desc(desc, kQuery, false));
}

Result<void> check_averaged(const MultiHeadAttentionDesc& desc) {
  if (!desc.has_averaged_weights) return {};
  const AttentionDesc& attention = desc.attention;
  if (attention.weights != WeightsStage::kProbabilities) {
    return invalid("has_averaged_weights needs those of each head: set attention.weights to kProbabilities");
  }
  const Strides& strides = *attention.weights_strides;
  if (strides.dim == 1 && strides.row == attention.kv_length) return {};
  return invalid(
      "averaged weights need attention.weights whose rows lie side by side, but the strides of "
      "queries and keys are ",
      strides.row, " and ", strides.dim, " where kv_length is ", attention.kv_length);
}

Result<void> check_all(const MultiHeadAttentionDesc& given) {
  const MultiHeadAttentionDesc desc = given.resolved();
  if (Result<void> s = check_types(desc); !s) return s;
  if (Result<void> s = check_dims(given, desc); !s) return s;
  if (Result<void> s = validate(desc.attention); !s) return s;
  if (Result<void> s = check_blocks(desc); !s) return s;
  if (Result<void> s = check_self(desc); !s) return s;
  if (Result<void> s = check_storage(given, desc); !s) return s;
  if (Result<void> s = check_cache(desc); !s) return s;
  if (Result<void> s = check_rotary(desc); !s) return s;
  return check_averaged(desc);
}

Result<void> check_backward(const MultiHeadAttentionBackwardDesc& desc) {
  if (!desc.forward.saves_for_gradients) {
    return invalid("gradients need what the forward pass saves: plan it with saves_for_gradients");
  }
  if (Result<void> s = check_all(desc.forward); !s) return s;
  if (!is_float(*desc.grad_parameter_type)) {
    return invalid("grad_parameter_type is ", name(*desc.grad_parameter_type),
                   " but must be f32, f16 or bf16");
  }
  if (desc.forward.attention.query_lengths == Lengths::kPerEntry) {
    return invalid(
        "attention.query_lengths is kPerEntry, but gradients of weights are sums over all rows; take "
        "packed sequences, or whole rows with a gradient of 0");
  }
  if (desc.attention.has_grad_lse) {
    return invalid("attention.has_grad_lse is set, but a layer gives no lse that a loss could depend on");
  }
  BackwardDesc of_features = desc.attention;
  of_features.has_grad_query = of_features.has_grad_key = of_features.has_grad_value = false;
  const bool any = desc.has_grad_query || desc.has_grad_key || desc.has_grad_value ||
                   desc.has_grad_parameters || any_gradient(of_features);
  if (!any) return invalid("no gradient is asked for; set has_grad_query or another of them");
  return validate(attention_gradients(desc));
}

}  // namespace

}  // namespace detail

MultiHeadAttentionDesc MultiHeadAttentionDesc::resolved() const {
  MultiHeadAttentionDesc full = *this;
  AttentionDesc& heads = full.attention;
  if (key_input_dim == kUnset) full.key_input_dim = d_model;
  if (value_input_dim == kUnset) {
    full.value_input_dim = inputs == LayerInputs::kCross ? full.key_input_dim : d_model;
  }
  if (!parameter_type) full.parameter_type = type;
  if (!weight_type) full.weight_type = full.parameter_type;
  if (heads.kv_heads == kUnset) heads.kv_heads = heads.query_heads;
  if (heads.head_dim == kUnset && heads.query_heads > 0 && d_model > 0) {
    heads.head_dim = d_model / heads.query_heads;
  }
  if (heads.value_dim == kUnset) heads.value_dim = heads.head_dim;
  if (inputs == LayerInputs::kSelf && !has_cache) {
    if (heads.kv_length == kUnset) heads.kv_length = heads.query_length;
    if (heads.total_kv_length == kUnset) heads.total_kv_length = heads.total_query_length;
  }
  if (has_cache) heads.kv_lengths = Lengths::kPerEntry;
  heads.has_lse = saves_for_gradients;
  detail::set_storage(full);
  heads = heads.resolved();
  return full;
}

MultiHeadAttentionBackwardDesc MultiHeadAttentionBackwardDesc::resolved() const {
  MultiHeadAttentionBackwardDesc full = *this;
  full.forward = forward.resolved();
  if (!grad_parameter_type) full.grad_parameter_type = full.forward.parameter_type;
  full.attention.grad_mask = detail::attention_gradients(full).resolved().grad_mask;
  return full;
}

Result<void> validate(const MultiHeadAttentionDesc& desc) {
  return detail::without_exceptions([&] { return detail::check_all(desc); });
}

Result<void> validate(const MultiHeadAttentionBackwardDesc& given) {
  return detail::without_exceptions([&]() -> Result<void> {
    if (Result<void> s = validate(given.forward); !s) return s;
    return detail::check_backward(given.resolved());
  });
}

}  // namespace vkattn
