// Keys of descriptors: see vkattn/plan_key.hpp.
#include <vkattn/plan_key.hpp>

#include <bit>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

namespace vkattn {

namespace {

/// Numbers one after the other, each with an end of its own. Descriptors are taken apart by structured
/// bindings, which do not compile where one has another number of members.
class KeyText {
 public:
  explicit KeyText(const char* kind) : text_(kind) {}

  [[nodiscard]] std::string take() { return std::move(text_); }

  void add(bool value) { text_ += value ? '1' : '0'; }
  void add(std::integral auto value) { add_number(static_cast<std::uint64_t>(value)); }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void add(Enum value) { add(static_cast<std::underlying_type_t<Enum>>(value)); }
  // Zeros are equal whatever their sign.
  void add(float value) { add_number(value == 0 ? 0 : std::bit_cast<std::uint32_t>(value)); }
  void add(double value) { add_number(value == 0 ? 0 : std::bit_cast<std::uint64_t>(value)); }
  template <class T>
  void add(const std::optional<T>& value) {
    text_ += value ? '+' : '-';
    if (value) add(*value);
  }

  void add(const Strides& of) {
    const auto& [batch, head, row, dim] = of;
    all(batch, head, row, dim);
  }
  void add(const MatrixStrides& of) {
    const auto& [batch, row, column] = of;
    all(batch, row, column);
  }
  void add(const TensorDesc& of) {
    const auto& [type, strides, alignment_bytes] = of;
    all(type, strides, alignment_bytes);
  }
  void add(const MatrixDesc& of) {
    const auto& [type, strides, alignment_bytes] = of;
    all(type, strides, alignment_bytes);
  }
  void add(const CacheLayout& of) {
    const auto& [mapping, ring_length, page_size, page_count, page_table_stride] = of;
    all(mapping, ring_length, page_size, page_count, page_table_stride);
  }
  void add(const MaskDesc& of) {
    const auto& [type, strides] = of;
    all(type, strides);
  }
  void add(const SlidingWindow& of) {
    const auto& [left, right] = of;
    all(left, right);
  }
  void add(const RotaryDesc& of) {
    const auto& [style, dims, base, position_scale, has_frequencies, magnitude, inverse] = of;
    all(style, dims, base, position_scale, has_frequencies, magnitude, inverse);
  }
  void add(const Shared<const ScoreShaders>& of) {
    add_number(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(of.get())));
  }

  void add(const AttentionDesc& of) {
    const auto& [batch, query_heads, kv_heads, query_length, kv_length, head_dim, value_dim, layout, query,
                 key, value, output, scale, causal, align, offset, query_lengths, kv_lengths,
                 total_query_length, total_kv_length, cache, softcap, mask, window, alibi, has_sinks, dropout,
                 score_function, has_lse, lse_strides, weights, weights_strides] = of;
    all(batch, query_heads, kv_heads, query_length, kv_length, head_dim, value_dim, layout, query, key, value,
        output, scale, causal, align, offset, query_lengths, kv_lengths, total_query_length, total_kv_length,
        cache, softcap, mask, window, alibi, has_sinks, dropout, score_function, has_lse, lse_strides,
        weights, weights_strides);
  }
  void add(const AppendDesc& of) {
    const auto& [batch, query_heads, kv_heads, new_length, head_dim, value_dim, layout, query, key, value,
                 query_output, cache_key, cache_value, cache, cache_length, has_positions, position,
                 new_lengths, total_new_length, writes_kv_lengths, rotary] = of;
    all(batch, query_heads, kv_heads, new_length, head_dim, value_dim, layout, query, key, value,
        query_output, cache_key, cache_value, cache, cache_length, has_positions, position, new_lengths,
        total_new_length, writes_kv_lengths, rotary);
  }
  void add(const MergeDesc& of) {
    const auto& [rows, value_dim, parts, part_type, output_type, has_lse] = of;
    all(rows, value_dim, parts, part_type, output_type, has_lse);
  }
  void add(const BackwardDesc& of) {
    const auto& [attention, has_grad_query, has_grad_key, has_grad_value, has_grad_mask,
                 has_grad_alibi_slopes, has_grad_sinks, grad_output, grad_query, grad_key, grad_value,
                 grad_mask] = of;
    all(attention, has_grad_query, has_grad_key, has_grad_value, has_grad_mask, has_grad_alibi_slopes,
        has_grad_sinks, grad_output, grad_query, grad_key, grad_value, grad_mask);
  }
  void add(const MatmulDesc& of) {
    const auto& [batch, rows, columns, inner, a, b, output, has_bias, bias_type, accumulates, a_is_ones] = of;
    all(batch, rows, columns, inner, a, b, output, has_bias, bias_type, accumulates, a_is_ones);
  }
  void add(const MultiHeadAttentionDesc& of) {
    const auto& [attention, d_model, inputs, key_input_dim, value_input_dim, packed_weights, has_input_bias,
                 has_output_bias, type, parameter_type, weight_type, alignment_bytes, rotary, has_cache,
                 has_averaged_weights, adds_to_output, saves_for_gradients] = of;
    all(attention, d_model, inputs, key_input_dim, value_input_dim, packed_weights, has_input_bias,
        has_output_bias, type, parameter_type, weight_type, alignment_bytes, rotary, has_cache,
        has_averaged_weights, adds_to_output, saves_for_gradients);
  }
  void add(const MultiHeadAttentionBackwardDesc& of) {
    const auto& [forward, has_grad_query, has_grad_key, has_grad_value, has_grad_parameters, has_grad_mask,
                 has_grad_alibi_slopes, has_grad_sinks, adds_to_inputs, adds_to_parameters,
                 grad_parameter_type, grad_mask] = of;
    all(forward, has_grad_query, has_grad_key, has_grad_value, has_grad_parameters, has_grad_mask,
        has_grad_alibi_slopes, has_grad_sinks, adds_to_inputs, adds_to_parameters, grad_parameter_type,
        grad_mask);
  }

 private:
  template <class... Members>
  void all(const Members&... members) {
    (add(members), ...);
  }
  void add_number(std::uint64_t value) {
    char digits[17];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value, 16);
    text_.append(digits, end.ptr);
    text_ += ',';
  }

  std::string text_;
};

template <class Desc>
std::string key_of(const char* kind, const Desc& desc) {
  KeyText text(kind);
  text.add(desc);
  return text.take();
}

}  // namespace

std::string plan_key(const AttentionDesc& desc) {
  return key_of("attention ", desc);
}
std::string plan_key(const AppendDesc& desc) {
  return key_of("append ", desc);
}
std::string plan_key(const MergeDesc& desc) {
  return key_of("merge ", desc);
}
std::string plan_key(const BackwardDesc& desc) {
  return key_of("backward ", desc);
}
std::string plan_key(const MatmulDesc& desc) {
  return key_of("matmul ", desc);
}
std::string plan_key(const MultiHeadAttentionDesc& desc) {
  return key_of("multi_head_attention ", desc);
}
std::string plan_key(const MultiHeadAttentionBackwardDesc& desc) {
  return key_of("multi_head_attention_backward ", desc);
}

}  // namespace vkattn
