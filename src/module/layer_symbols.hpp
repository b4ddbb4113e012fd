// Symbols name the ranges of a call that a layer's steps work on, before there is a call.
//
// A symbol is a range whose buffer is the number of what it stands for: one of the caller's tensors, counted
// by for_each_range(), or memory of the layer's own. Steps are given symbols in the structures of tensors
// that callers give their plans, and LayerProgram reads the numbers from the places where plans put them.
#pragma once

#include <vkattn/multi_head_attention.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

#include "attention/tensor_table.hpp"
#include "backward/gradient_table.hpp"
#include "common/members.hpp"
#include "module/layer_shape.hpp"

namespace vkattn::detail {

inline constexpr std::array kParameterRanges{
    &MultiHeadAttentionParameters::in_proj_weight, &MultiHeadAttentionParameters::q_proj_weight,
    &MultiHeadAttentionParameters::k_proj_weight,  &MultiHeadAttentionParameters::v_proj_weight,
    &MultiHeadAttentionParameters::in_proj_bias,   &MultiHeadAttentionParameters::out_proj_weight,
    &MultiHeadAttentionParameters::out_proj_bias,
};
static_assert(sizeof(MultiHeadAttentionParameters) == kParameterRanges.size() * sizeof(BufferRange));

inline constexpr std::array kLayerRanges{
    &MultiHeadAttentionTensors::query,     &MultiHeadAttentionTensors::key,
    &MultiHeadAttentionTensors::value,     &MultiHeadAttentionTensors::output,
    &MultiHeadAttentionTensors::saved,     &MultiHeadAttentionTensors::averaged_weights,
    &MultiHeadAttentionTensors::cache_key, &MultiHeadAttentionTensors::cache_value,
    &MultiHeadAttentionTensors::positions, &MultiHeadAttentionTensors::frequencies,
};
static_assert(sizeof(MultiHeadAttentionTensors) == kLayerRanges.size() * sizeof(BufferRange) +
                                                       sizeof(MultiHeadAttentionParameters) +
                                                       sizeof(AttentionTensors));

inline constexpr std::array kGradientRanges{
    &MultiHeadAttentionBackwardTensors::grad_output,
    &MultiHeadAttentionBackwardTensors::grad_query,
    &MultiHeadAttentionBackwardTensors::grad_key,
    &MultiHeadAttentionBackwardTensors::grad_value,
};
static_assert(sizeof(MultiHeadAttentionBackwardTensors) ==
              kGradientRanges.size() * sizeof(BufferRange) + sizeof(MultiHeadAttentionParameters) +
                  sizeof(MultiHeadAttentionTensors) + sizeof(BackwardTensors));

/// Calls `use` with each range of a call, always in the same order.
/// @{
template <MaybeConst<MultiHeadAttentionTensors> Tensors, class Use>
void for_each_range(Tensors& tensors, const Use& use) {
  for (const auto range : kLayerRanges) use(tensors.*range);
  for (const auto range : kParameterRanges) use(tensors.parameters.*range);
  for (const TensorRow& row : tensor_table()) use(tensors.attention.*row.range);
  for (auto& range : tensors.attention.score_buffers) use(range);
  use(tensors.attention.block_mask);
}
template <MaybeConst<MultiHeadAttentionBackwardTensors> Tensors, class Use>
void for_each_range(Tensors& tensors, const Use& use) {
  for_each_range(tensors.forward, use);
  for (const auto range : kGradientRanges) use(tensors.*range);
  for (const auto range : kParameterRanges) use(tensors.grad_parameters.*range);
  for (const GradientRow& row : tensor_table<BackwardTensors>()) use(tensors.attention.*row.range);
}
/// @}

/// The symbol of a number.
[[nodiscard]] BufferRange symbol(std::uint64_t number);
/// The number of a symbol, or of a part of one.
[[nodiscard]] std::uint64_t number_of(const BufferRange& symbol);

inline constexpr std::uint64_t kWorkspaceNumber = 1000;
inline constexpr std::uint64_t kHeadSharesNumber = 1001;  ///< float32, 1 / query_heads for each query head

/// The tensors of a call, all of them symbols.
template <class Tensors>
[[nodiscard]] Tensors symbols() {
  Tensors tensors;
  std::uint64_t number = 0;
  for_each_range(tensors, [&](BufferRange& range) { range = symbol(number++); });
  return tensors;
}

/// The place so many bytes behind a symbol.
[[nodiscard]] BufferRange behind(const BufferRange& symbol, VkDeviceSize bytes);
/// A piece of the memory that a symbol stands for.
[[nodiscard]] BufferRange part_of(const BufferRange& symbol, const Piece& piece);
/// Whether a symbol is a piece, which has an end.
[[nodiscard]] bool has_end(const BufferRange& symbol);

}  // namespace vkattn::detail
