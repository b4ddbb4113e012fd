// What an execution binds, as the tensors of each kind of plan.
#pragma once

#include <vkattn/vkattn.h>

#include "c/operations.hpp"

namespace vkattn::c {

/// Numbers of tensors are below it.
inline constexpr vkattn_tensor kTensorNumbers = VKATTN_TENSOR_GRAD_OUT_PROJ_BIAS + 1;

/// Of each operation: the place of a tensor, null where it has none; and bytes of a tensor of a plan, as its
/// range_bytes(), 0 where it has no use for it.
/// @{
#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS)                        \
  [[nodiscard]] BufferRange* place(PLAN::Tensors& tensors, vkattn_tensor tensor); \
  [[nodiscard]] VkDeviceSize range_bytes(const PLAN& plan, vkattn_tensor tensor, VkDeviceSize offset);
#include "common/operations.def"
/// @}

/// The numbers of a parameter of a layer and of its gradient.
struct ParameterNumbers {
  vkattn_tensor tensor = 0;
  vkattn_tensor gradient = 0;
};
[[nodiscard]] ParameterNumbers numbers_of(BufferRange MultiHeadAttentionParameters::*parameter);

/// An execution as this version has it.
[[nodiscard]] Result<vkattn_execution> execution(const vkattn_execution* given);
/// What an execution binds of a kind of plan. An error names a tensor that the kind does not have, or that is
/// bound twice.
template <class Plan>
[[nodiscard]] Result<typename Plan::Tensors> tensors_of(const vkattn_execution& given);
#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS) \
  extern template Result<PLAN::Tensors> tensors_of<PLAN>(const vkattn_execution&);
#include "common/operations.def"

}  // namespace vkattn::c
