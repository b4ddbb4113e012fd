// Tensors from C: see tensors.hpp.
#include "c/tensors.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "c/handles.hpp"

namespace vkattn::c {

namespace {

using A = AttentionTensors;
using P = AppendTensors;
using M = MergeTensors;
using B = BackwardTensors;
using T = MatmulTensors;
using L = MultiHeadAttentionTensors;
using G = MultiHeadAttentionBackwardTensors;
using W = MultiHeadAttentionParameters;

/// A tensor's number and its member.
template <class Tensors>
struct Member {
  vkattn_tensor tensor;
  BufferRange Tensors::*range;
};

/// The numbers of the members of a struct of tensors. Members of structs within it have tables of their own.
template <class Tensors>
constexpr std::array<Member<Tensors>, 0> kNumbers{};

template <>
constexpr std::array<Member<A>, 17> kNumbers<A>{{
    {VKATTN_TENSOR_QUERY, &A::query},
    {VKATTN_TENSOR_KEY, &A::key},
    {VKATTN_TENSOR_VALUE, &A::value},
    {VKATTN_TENSOR_OUTPUT, &A::output},
    {VKATTN_TENSOR_LSE, &A::lse},
    {VKATTN_TENSOR_KV_LENGTHS, &A::kv_lengths},
    {VKATTN_TENSOR_QUERY_LENGTHS, &A::query_lengths},
    {VKATTN_TENSOR_CUMULATIVE_QUERY_LENGTHS, &A::cumulative_query_lengths},
    {VKATTN_TENSOR_CUMULATIVE_KV_LENGTHS, &A::cumulative_kv_lengths},
    {VKATTN_TENSOR_PAGE_TABLE, &A::page_table},
    {VKATTN_TENSOR_KEY_SCALES, &A::key_scales},
    {VKATTN_TENSOR_VALUE_SCALES, &A::value_scales},
    {VKATTN_TENSOR_MASK, &A::mask},
    {VKATTN_TENSOR_ALIBI_SLOPES, &A::alibi_slopes},
    {VKATTN_TENSOR_SINKS, &A::sinks},
    {VKATTN_TENSOR_WEIGHTS, &A::weights},
    {VKATTN_TENSOR_BLOCK_MASK, &A::block_mask},
}};

template <>
constexpr std::array<Member<P>, 14> kNumbers<P>{{
    {VKATTN_TENSOR_QUERY, &P::query},
    {VKATTN_TENSOR_KEY, &P::key},
    {VKATTN_TENSOR_VALUE, &P::value},
    {VKATTN_TENSOR_KV_LENGTHS, &P::kv_lengths},
    {VKATTN_TENSOR_PAGE_TABLE, &P::page_table},
    {VKATTN_TENSOR_KEY_SCALES, &P::key_scales},
    {VKATTN_TENSOR_VALUE_SCALES, &P::value_scales},
    {VKATTN_TENSOR_QUERY_OUTPUT, &P::query_output},
    {VKATTN_TENSOR_CACHE_KEY, &P::cache_key},
    {VKATTN_TENSOR_CACHE_VALUE, &P::cache_value},
    {VKATTN_TENSOR_POSITIONS, &P::positions},
    {VKATTN_TENSOR_NEW_LENGTHS, &P::new_lengths},
    {VKATTN_TENSOR_CUMULATIVE_NEW_LENGTHS, &P::cumulative_new_lengths},
    {VKATTN_TENSOR_FREQUENCIES, &P::frequencies},
}};

template <>
constexpr std::array<Member<M>, 4> kNumbers<M>{{
    {VKATTN_TENSOR_PARTS, &M::parts},
    {VKATTN_TENSOR_PART_LSE, &M::part_lse},
    {VKATTN_TENSOR_OUTPUT, &M::output},
    {VKATTN_TENSOR_LSE, &M::lse},
}};

template <>
constexpr std::array<Member<B>, 8> kNumbers<B>{{
    {VKATTN_TENSOR_GRAD_OUTPUT, &B::grad_output},
    {VKATTN_TENSOR_GRAD_LSE, &B::grad_lse},
    {VKATTN_TENSOR_GRAD_QUERY, &B::grad_query},
    {VKATTN_TENSOR_GRAD_KEY, &B::grad_key},
    {VKATTN_TENSOR_GRAD_VALUE, &B::grad_value},
    {VKATTN_TENSOR_GRAD_MASK, &B::grad_mask},
    {VKATTN_TENSOR_GRAD_ALIBI_SLOPES, &B::grad_alibi_slopes},
    {VKATTN_TENSOR_GRAD_SINKS, &B::grad_sinks},
}};

template <>
constexpr std::array<Member<T>, 4> kNumbers<T>{{
    {VKATTN_TENSOR_A, &T::a},
    {VKATTN_TENSOR_B, &T::b},
    {VKATTN_TENSOR_BIAS, &T::bias},
    {VKATTN_TENSOR_OUTPUT, &T::output},
}};

template <>
constexpr std::array<Member<L>, 10> kNumbers<L>{{
    {VKATTN_TENSOR_QUERY, &L::query},
    {VKATTN_TENSOR_KEY, &L::key},
    {VKATTN_TENSOR_VALUE, &L::value},
    {VKATTN_TENSOR_OUTPUT, &L::output},
    {VKATTN_TENSOR_SAVED, &L::saved},
    {VKATTN_TENSOR_AVERAGED_WEIGHTS, &L::averaged_weights},
    {VKATTN_TENSOR_CACHE_KEY, &L::cache_key},
    {VKATTN_TENSOR_CACHE_VALUE, &L::cache_value},
    {VKATTN_TENSOR_POSITIONS, &L::positions},
    {VKATTN_TENSOR_FREQUENCIES, &L::frequencies},
}};

template <>
constexpr std::array<Member<W>, 7> kNumbers<W>{{
    {VKATTN_TENSOR_IN_PROJ_WEIGHT, &W::in_proj_weight},
    {VKATTN_TENSOR_Q_PROJ_WEIGHT, &W::q_proj_weight},
    {VKATTN_TENSOR_K_PROJ_WEIGHT, &W::k_proj_weight},
    {VKATTN_TENSOR_V_PROJ_WEIGHT, &W::v_proj_weight},
    {VKATTN_TENSOR_IN_PROJ_BIAS, &W::in_proj_bias},
    {VKATTN_TENSOR_OUT_PROJ_WEIGHT, &W::out_proj_weight},
    {VKATTN_TENSOR_OUT_PROJ_BIAS, &W::out_proj_bias},
}};
// From the number of a parameter to that of its gradient.
constexpr vkattn_tensor kToGradient = VKATTN_TENSOR_GRAD_IN_PROJ_WEIGHT - VKATTN_TENSOR_IN_PROJ_WEIGHT;

template <>
constexpr std::array<Member<G>, 4> kNumbers<G>{{
    {VKATTN_TENSOR_GRAD_OUTPUT, &G::grad_output},
    {VKATTN_TENSOR_GRAD_QUERY, &G::grad_query},
    {VKATTN_TENSOR_GRAD_KEY, &G::grad_key},
    {VKATTN_TENSOR_GRAD_VALUE, &G::grad_value},
}};

// Null if the struct has no member of this number.
template <class Tensors>
BufferRange Tensors::*find(vkattn_tensor tensor) {
  const auto found = std::ranges::find(kNumbers<Tensors>, tensor, &Member<Tensors>::tensor);
  return found != kNumbers<Tensors>.end() ? found->range : nullptr;
}

[[maybe_unused]] BufferRange W::*find_gradient(vkattn_tensor tensor) {
  return tensor < kToGradient ? nullptr : find<W>(tensor - kToGradient);
}

// The tensors of attention that a layer takes: not the heads' own, which lie in its workspace.
[[maybe_unused]] BufferRange A::*find_feature(vkattn_tensor tensor) {
  return tensor == VKATTN_TENSOR_LSE || find<L>(tensor) != nullptr ? nullptr : find<A>(tensor);
}

template <class Tensors>
BufferRange* member_of(Tensors& tensors, BufferRange Tensors::*range) {
  return range != nullptr ? &(tensors.*range) : nullptr;
}

/// The place of a tensor in structs within an operation's own, and its bytes in a plan.
/// @{
template <class Tensors>
BufferRange* place_within(Tensors& /*tensors*/, vkattn_tensor /*tensor*/) {
  return nullptr;
}
#ifndef VKATTN_WITHOUT_BACKWARD
BufferRange* place_within(B& tensors, vkattn_tensor tensor) {
  return member_of(tensors.forward, find<A>(tensor));
}
#endif
#ifndef VKATTN_WITHOUT_MATMUL
BufferRange* place_within(L& tensors, vkattn_tensor tensor) {
  if (BufferRange* const parameter = member_of(tensors.parameters, find<W>(tensor))) return parameter;
  return member_of(tensors.attention, find_feature(tensor));
}
BufferRange* place_within(G& tensors, vkattn_tensor tensor) {
  if (BufferRange* const parameter = member_of(tensors.grad_parameters, find_gradient(tensor)))
    return parameter;
  if (BufferRange* const feature = member_of(tensors.attention, find<B>(tensor))) return feature;
  return place(tensors.forward, tensor);
}
#endif

template <class Plan>
VkDeviceSize bytes_within(const Plan& /*plan*/, vkattn_tensor /*tensor*/, VkDeviceSize /*offset*/) {
  return 0;
}
#ifndef VKATTN_WITHOUT_BACKWARD
VkDeviceSize bytes_within(const BackwardPlan& plan, vkattn_tensor tensor, VkDeviceSize offset) {
  BufferRange A::*const forward = find<A>(tensor);
  return forward != nullptr ? plan.range_bytes(forward, offset) : 0;
}
#endif
#ifndef VKATTN_WITHOUT_MATMUL
VkDeviceSize bytes_within(const MultiHeadAttentionPlan& plan, vkattn_tensor tensor, VkDeviceSize offset) {
  if (BufferRange W::*const parameter = find<W>(tensor)) return plan.range_bytes(parameter, offset);
  BufferRange A::*const feature = find_feature(tensor);
  return feature != nullptr ? plan.range_bytes(feature, offset) : 0;
}
VkDeviceSize bytes_within(const MultiHeadAttentionBackwardPlan& plan, vkattn_tensor tensor,
                          VkDeviceSize offset) {
  if (BufferRange W::*const gradient = find_gradient(tensor)) return plan.range_bytes(gradient, offset);
  if (BufferRange B::*const gradient = find<B>(tensor)) return plan.range_bytes(gradient, offset);
  if (BufferRange L::*const forward = find<L>(tensor)) return plan.forward_range_bytes(forward, offset);
  if (BufferRange W::*const parameter = find<W>(tensor)) return plan.forward_range_bytes(parameter, offset);
  BufferRange A::*const feature = find_feature(tensor);
  return feature != nullptr ? plan.forward_range_bytes(feature, offset) : 0;
}
#endif
/// @}

/// The tensors of attention within those of a kind of plan, for the numbers beside tensors; null if it has no
/// attention.
/// @{
A* attention_in(A& tensors) {
  return &tensors;
}
[[maybe_unused]] A* attention_in(B& tensors) {
  return &tensors.forward;
}
[[maybe_unused]] A* attention_in(L& tensors) {
  return &tensors.attention;
}
[[maybe_unused]] A* attention_in(G& tensors) {
  return &tensors.forward.attention;
}
template <class Tensors>
A* attention_in(Tensors& /*others*/) {
  return nullptr;
}
/// @}

Result<void> read_attention(const vkattn_execution& given, A& tensors) {
  tensors.block_mask_complete = given.block_mask_complete != 0;
  tensors.dropout_seed = given.dropout_seed;
  tensors.dropout_offset = given.dropout_offset;
  if (given.score_buffer_count > kMaxScoreBuffers) {
    return invalid("vkattn_execution::score_buffer_count is ", given.score_buffer_count,
                   "; the most there can be is ", kMaxScoreBuffers);
  }
  if (Result<void> s =
          check_list(given.score_buffers, given.score_buffer_count, "vkattn_execution::score_buffers");
      !s)
    return s;
  for (std::uint32_t i = 0; i < given.score_buffer_count; ++i) {
    const vkattn_binding& binding = given.score_buffers[i];
    tensors.score_buffers[i] = {binding.buffer, binding.offset, binding.size};
  }
  return {};
}

}  // namespace

#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS)                                      \
  BufferRange* place(PLAN::Tensors& tensors, vkattn_tensor tensor) {                            \
    BufferRange* const own = member_of(tensors, find<PLAN::Tensors>(tensor));                   \
    return own != nullptr ? own : place_within(tensors, tensor);                                \
  }                                                                                             \
  VkDeviceSize range_bytes(const PLAN& plan, vkattn_tensor tensor, VkDeviceSize offset) {       \
    BufferRange PLAN::Tensors::*const own = find<PLAN::Tensors>(tensor);                        \
    return own != nullptr ? plan.range_bytes(own, offset) : bytes_within(plan, tensor, offset); \
  }
#include "common/operations.def"

ParameterNumbers numbers_of(BufferRange W::*parameter) {
  const auto row = std::ranges::find(kNumbers<W>, parameter, &Member<W>::range);
  return {row->tensor, row->tensor + kToGradient};
}

Result<vkattn_execution> execution(const vkattn_execution* given) {
  return read(given, vkattn_execution_init, "vkattn_execution");
}

template <class Plan>
Result<typename Plan::Tensors> tensors_of(const vkattn_execution& given) {
  typename Plan::Tensors tensors;
  std::array<bool, kTensorNumbers> seen{};
  if (Result<void> s = check_list(given.tensors, given.tensor_count, "vkattn_execution::tensors"); !s)
    return s.error();
  for (const vkattn_binding& binding : std::span(given.tensors, given.tensor_count)) {
    BufferRange* const target = place(tensors, binding.tensor);
    if (target == nullptr) {
      return invalid("there is no tensor ", binding.tensor, " of ", Kind<Plan>::kName,
                     ": vkattn_plan_tensor_range is above 0 for those that a plan takes");
    }
    if (seen[binding.tensor])
      return invalid("tensor ", binding.tensor, " is bound twice: leave out one of its bindings");
    seen[binding.tensor] = true;
    *target = {binding.buffer, binding.offset, binding.size};
  }
  if (A* const attention = attention_in(tensors)) {
    if (Result<void> s = read_attention(given, *attention); !s) return s.error();
  }
  return tensors;
}

#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS) \
  template Result<PLAN::Tensors> tensors_of<PLAN>(const vkattn_execution&);
#include "common/operations.def"

}  // namespace vkattn::c
