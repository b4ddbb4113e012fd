// What an execution binds, as the tensors of each kind of plan.
#pragma once

#include <vkattn/vkattn.h>
#include <vkattn/attention_plan.hpp>
#include <vkattn/backward.hpp>
#include <vkattn/cache.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/merge.hpp>
#include <vkattn/multi_head_attention.hpp>

namespace vkattn::c {

/// Numbers of tensors are below it.
inline constexpr vkattn_tensor kTensorNumbers = VKATTN_TENSOR_GRAD_OUT_PROJ_BIAS + 1;

/// What messages call a kind of plan.
template <class Plan>
struct Kind;
template <>
struct Kind<AttentionPlan> {
  static constexpr const char* kName = "attention";
};
template <>
struct Kind<AppendPlan> {
  static constexpr const char* kName = "an append";
};
template <>
struct Kind<MergePlan> {
  static constexpr const char* kName = "a merge";
};
template <>
struct Kind<BackwardPlan> {
  static constexpr const char* kName = "gradients of attention";
};
template <>
struct Kind<MatmulPlan> {
  static constexpr const char* kName = "a matrix multiplication";
};
template <>
struct Kind<MultiHeadAttentionPlan> {
  static constexpr const char* kName = "a layer";
};
template <>
struct Kind<MultiHeadAttentionBackwardPlan> {
  static constexpr const char* kName = "gradients of a layer";
};

/// The place of a tensor; null where the kind of plan has none.
/// @{
[[nodiscard]] BufferRange* place(AttentionTensors& tensors, vkattn_tensor tensor);
[[nodiscard]] BufferRange* place(AppendTensors& tensors, vkattn_tensor tensor);
[[nodiscard]] BufferRange* place(MergeTensors& tensors, vkattn_tensor tensor);
[[nodiscard]] BufferRange* place(BackwardTensors& tensors, vkattn_tensor tensor);
[[nodiscard]] BufferRange* place(MatmulTensors& tensors, vkattn_tensor tensor);
[[nodiscard]] BufferRange* place(MultiHeadAttentionTensors& tensors, vkattn_tensor tensor);
[[nodiscard]] BufferRange* place(MultiHeadAttentionBackwardTensors& tensors, vkattn_tensor tensor);
/// @}

/// The numbers of a parameter of a layer and of its gradient.
struct ParameterNumbers {
  vkattn_tensor tensor = 0;
  vkattn_tensor gradient = 0;
};
[[nodiscard]] ParameterNumbers numbers_of(BufferRange MultiHeadAttentionParameters::*parameter);

/// Bytes of a tensor of a plan, as its range_bytes(); 0 where it has no use for it.
/// @{
[[nodiscard]] VkDeviceSize range_bytes(const AttentionPlan& plan, vkattn_tensor tensor, VkDeviceSize offset);
[[nodiscard]] VkDeviceSize range_bytes(const AppendPlan& plan, vkattn_tensor tensor, VkDeviceSize offset);
[[nodiscard]] VkDeviceSize range_bytes(const MergePlan& plan, vkattn_tensor tensor, VkDeviceSize offset);
[[nodiscard]] VkDeviceSize range_bytes(const BackwardPlan& plan, vkattn_tensor tensor, VkDeviceSize offset);
[[nodiscard]] VkDeviceSize range_bytes(const MatmulPlan& plan, vkattn_tensor tensor, VkDeviceSize offset);
[[nodiscard]] VkDeviceSize range_bytes(const MultiHeadAttentionPlan& plan, vkattn_tensor tensor,
                                       VkDeviceSize offset);
[[nodiscard]] VkDeviceSize range_bytes(const MultiHeadAttentionBackwardPlan& plan, vkattn_tensor tensor,
                                       VkDeviceSize offset);
/// @}

/// An execution as this version has it.
[[nodiscard]] Result<vkattn_execution> execution(const vkattn_execution* given);
/// What an execution binds of a kind of plan. An error names a tensor that the kind does not have, or that is
/// bound twice.
template <class Plan>
[[nodiscard]] Result<typename Plan::Tensors> tensors_of(const vkattn_execution& given);
extern template Result<AttentionTensors> tensors_of<AttentionPlan>(const vkattn_execution&);
extern template Result<AppendTensors> tensors_of<AppendPlan>(const vkattn_execution&);
extern template Result<MergeTensors> tensors_of<MergePlan>(const vkattn_execution&);
extern template Result<BackwardTensors> tensors_of<BackwardPlan>(const vkattn_execution&);
extern template Result<MatmulTensors> tensors_of<MatmulPlan>(const vkattn_execution&);
extern template Result<MultiHeadAttentionTensors> tensors_of<MultiHeadAttentionPlan>(const vkattn_execution&);
extern template Result<MultiHeadAttentionBackwardTensors> tensors_of<MultiHeadAttentionBackwardPlan>(
    const vkattn_execution&);

}  // namespace vkattn::c
