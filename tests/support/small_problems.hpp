// A small problem of each operation, for tests of behaviour that all plans share. A new operation adds one
// here.
#pragma once

#include <vkattn/operations.hpp>

#include <tuple>
#include <type_traits>

namespace vkattn::tests {

/// Attention with parameters, and with enough keys for several parts.
[[nodiscard]] inline AttentionDesc small_attention() {
  AttentionDesc desc;
  desc.query_heads = desc.kv_heads = 2;
  desc.query_length = 3;
  desc.kv_length = 200;
  desc.head_dim = 16;
  desc.softcap = 3;
  return desc;
}

[[nodiscard]] inline BackwardDesc gradients_of(const AttentionDesc& attention) {
  BackwardDesc desc;
  desc.attention = attention;
  desc.attention.has_lse = true;
  return desc;
}

/// Gradients with passes over rows, over keys and over heads, from those of output and lse.
[[nodiscard]] inline BackwardDesc small_gradients() {
  BackwardDesc desc = gradients_of(small_attention());
  desc.has_grad_lse = true;
  desc.attention.has_sinks = desc.has_grad_sinks = true;
  return desc;
}

/// A product whose inner dimension can be split into parts.
[[nodiscard]] inline MatmulDesc small_product() {
  MatmulDesc desc;
  desc.rows = desc.columns = 8;
  desc.inner = 200;
  desc.has_bias = true;
  return desc;
}

/// An append with every pass: it turns keys and queries, reads positions and writes lengths.
[[nodiscard]] inline AppendDesc small_append() {
  AppendDesc desc;
  desc.batch = desc.query_heads = desc.kv_heads = 2;
  desc.new_length = 3;
  desc.head_dim = 16;
  desc.cache_length = 8;
  desc.has_positions = desc.writes_kv_lengths = true;
  desc.rotary.style = RotaryStyle::kHalfSplit;
  desc.rotary.dims = 8;
  return desc;
}

[[nodiscard]] inline MergeDesc small_merge() {
  return {.rows = 4, .value_dim = 16};
}

/// A layer without biases. Gradients of biases would take two more multiplications.
[[nodiscard]] inline MultiHeadAttentionDesc small_layer() {
  MultiHeadAttentionDesc desc;
  desc.attention.query_heads = desc.attention.kv_heads = 2;
  desc.attention.query_length = 3;
  desc.attention.alibi = Alibi::kGiven;
  desc.d_model = 16;
  desc.has_input_bias = desc.has_output_bias = false;
  desc.saves_for_gradients = true;
  return desc;
}

[[nodiscard]] inline MultiHeadAttentionBackwardDesc small_layer_gradients() {
  MultiHeadAttentionBackwardDesc desc;
  desc.forward = small_layer();
  desc.attention.has_grad_alibi_slopes = true;
  return desc;
}

/// One problem of each operation.
[[nodiscard]] inline auto small_problems() {
  return std::tuple(small_attention(), small_append(), small_merge(), small_gradients(), small_product(),
                    small_layer(), small_layer_gradients());
}

template <class Desc>
[[nodiscard]] Desc small_problem() {
  return std::get<Desc>(small_problems());
}

/// Options for the kernel tile, and for two parts if the operation can be cut into parts.
template <class Desc>
[[nodiscard]] typename Desc::Plan::Options tiles_in_parts() {
  typename Desc::Plan::Options options;
  if constexpr (requires { options.matmul; }) {
    options.attention.kernel = options.matmul.kernel = options.backward.kernel = "tile";
  }
  if constexpr (std::is_same_v<Desc, AttentionDesc>) options = {.kernel = "tile", .kv_splits = 2};
  if constexpr (std::is_same_v<Desc, BackwardDesc>) options = {.kernel = "tile", .chunk_keys = 128};
  if constexpr (std::is_same_v<Desc, MatmulDesc>) options = {.kernel = "tile", .inner_splits = 2};
  return options;
}

}  // namespace vkattn::tests
