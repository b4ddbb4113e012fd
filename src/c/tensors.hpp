// Converts the bindings of an execution to the tensors of each kind of plan.
#pragma once

#include <vkattn/vkattn.h>

#include "c/operations.hpp"

namespace vkattn::c {

/// Numbers of tensors are below it.
inline constexpr vkattn_tensor kTensorNumbers = VKATTN_TENSOR_GRAD_LSE + 1;

/// For each operation: the place of a tensor, null if it has none; and the bytes of a plan's tensor as
/// range_bytes() gives them, 0 if it does not use the tensor.
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

/// An execution structure as this version has it.
[[nodiscard]] Result<vkattn_execution> execution(const vkattn_execution* given);
/// The tensors that an execution binds for a kind of plan. The error names a tensor that the kind does not
/// have, or that is bound twice.
template <class Plan>
[[nodiscard]] Result<typename Plan::Tensors> tensors_of(const vkattn_execution& given);
#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS) \
  extern template Result<PLAN::Tensors> tensors_of<PLAN>(const vkattn_execution&);
#include "common/operations.def"

}  // namespace vkattn::c
