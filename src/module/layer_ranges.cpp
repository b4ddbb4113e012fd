// Bytes of a layer's tensors: its own by their shapes, others by the steps that use them.
#include <algorithm>
#include <array>
#include <type_traits>
#include <variant>

#include "module/layer_steps.hpp"

namespace vkattn {

namespace detail {

namespace {

using Features = AttentionTensors;
using Layer = MultiHeadAttentionTensors;

// What the steps of one kind of plan take of a tensor; the largest counts, as all are given the same range.
template <class Plan, class Tensors>
VkDeviceSize bytes_in_steps(const ModuleProgram& program, BufferRange Tensors::*tensor, VkDeviceSize offset) {
  VkDeviceSize most = 0;
  for (const ModuleStep& step : program.steps()) {
    std::visit(
        [&](const auto& of) {
          if constexpr (std::is_same_v<std::decay_t<decltype(of.plan)>, Plan>) {
            most = std::max(most, of.plan.range_bytes(tensor, offset));
          }
        },
        step.of);
  }
  return most;
}

// Q, K, V, O and lse of the heads are the layer's own.
VkDeviceSize feature_bytes(const ModuleProgram& program, BufferRange Features::*tensor, VkDeviceSize offset) {
  constexpr std::array kOwn{&Features::query, &Features::key, &Features::value, &Features::output,
                            &Features::lse};
  if (std::find(kOwn.begin(), kOwn.end(), tensor) != kOwn.end()) return 0;
  VkDeviceSize most = std::max(bytes_in_steps<AttentionPlan>(program, tensor, offset),
                               bytes_in_steps<BackwardPlan>(program, tensor, offset));
  // An attention of no rows takes nothing, while the append or rotation before it does.
  struct AppendRow {
    BufferRange Features::*tensor;
    BufferRange AppendTensors::*append;
  };
  constexpr std::array<AppendRow, 6> kAppended{
      {{&Features::kv_lengths, &AppendTensors::kv_lengths},
       {&Features::query_lengths, &AppendTensors::new_lengths},
       {&Features::cumulative_query_lengths, &AppendTensors::cumulative_new_lengths},
       {&Features::page_table, &AppendTensors::page_table},
       {&Features::key_scales, &AppendTensors::key_scales},
       {&Features::value_scales, &AppendTensors::value_scales}}};
  for (const AppendRow& row : kAppended) {
    if (row.tensor == tensor) most = std::max(most, bytes_in_steps<AppendPlan>(program, row.append, offset));
  }
  return most;
}

VkDeviceSize layer_bytes(const ModuleProgram& program, BufferRange Layer::*tensor, VkDeviceSize offset) {
  struct CacheRow {
    BufferRange Layer::*tensor;
    BufferRange AppendTensors::*append;
  };
  constexpr std::array<CacheRow, 4> kCache{{{&Layer::cache_key, &AppendTensors::cache_key},
                                            {&Layer::cache_value, &AppendTensors::cache_value},
                                            {&Layer::positions, &AppendTensors::positions},
                                            {&Layer::frequencies, &AppendTensors::frequencies}}};
  for (const CacheRow& row : kCache) {
    if (row.tensor == tensor) return bytes_in_steps<AppendPlan>(program, row.append, offset);
  }
  return program.range_bytes(place_of(tensor), offset);
}

}  // namespace

}  // namespace detail

VkDeviceSize MultiHeadAttentionPlan::range_bytes(BufferRange MultiHeadAttentionTensors::*tensor,
                                                 VkDeviceSize offset) const {
  return detail::layer_bytes(state_->program, tensor, offset);
}

VkDeviceSize MultiHeadAttentionPlan::range_bytes(BufferRange MultiHeadAttentionParameters::*tensor,
                                                 VkDeviceSize offset) const {
  return state_->program.range_bytes(detail::place_of(tensor), offset);
}

VkDeviceSize MultiHeadAttentionPlan::range_bytes(BufferRange AttentionTensors::*tensor,
                                                 VkDeviceSize offset) const {
  return detail::feature_bytes(state_->program, tensor, offset);
}

VkDeviceSize MultiHeadAttentionBackwardPlan::range_bytes(
    BufferRange MultiHeadAttentionBackwardTensors::*tensor, VkDeviceSize offset) const {
  for (const detail::ScoreGradient& each : detail::kScoreGradients) {
    if (each.layer == tensor)
      return detail::bytes_in_steps<BackwardPlan>(state_->program, each.attention, offset);
  }
  return state_->program.range_bytes(detail::place_of(tensor), offset);
}

VkDeviceSize MultiHeadAttentionBackwardPlan::range_bytes(BufferRange MultiHeadAttentionParameters::*gradient,
                                                         VkDeviceSize offset) const {
  return state_->program.range_bytes(detail::gradient_of(gradient), offset);
}

VkDeviceSize MultiHeadAttentionBackwardPlan::forward_range_bytes(
    BufferRange MultiHeadAttentionTensors::*tensor, VkDeviceSize offset) const {
  return detail::layer_bytes(state_->program, tensor, offset);
}

VkDeviceSize MultiHeadAttentionBackwardPlan::forward_range_bytes(
    BufferRange MultiHeadAttentionParameters::*tensor, VkDeviceSize offset) const {
  return state_->program.range_bytes(detail::place_of(tensor), offset);
}

VkDeviceSize MultiHeadAttentionBackwardPlan::forward_range_bytes(BufferRange AttentionTensors::*tensor,
                                                                 VkDeviceSize offset) const {
  return detail::feature_bytes(state_->program, tensor, offset);
}

}  // namespace vkattn
