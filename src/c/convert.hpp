// Problems and options of the C interface as those of C++.
#pragma once

#include <vkattn/vkattn.h>

#include "c/operations.hpp"

namespace vkattn::c {

/// A problem as that of C++: attention_desc(), append_desc() and so on.
/// @{
#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS) \
  [[nodiscard]] Result<DESC> NAME##_desc(const vkattn_##NAME##_desc* given);
#include "common/operations.def"
/// @}

/// Null: all defaults.
[[nodiscard]] Result<vkattn_plan_options> plan_options(const vkattn_plan_options* given);
/// The same for a plan of an operation that is called so, of a matrix multiplication, or of a layer: an error
/// where one is set that it has no use for.
/// @{
[[nodiscard]] Result<PlanOptions> options_for(const vkattn_plan_options& given, const char* operation);
[[nodiscard]] Result<PlanOptions> matmul_options(const vkattn_plan_options& given, const char* operation);
[[nodiscard]] Result<MultiHeadAttentionOptions> layer_options(const vkattn_plan_options& given,
                                                              const char* layer);
/// @}
[[nodiscard]] Result<RecordOptions> record_options(const vkattn_record_options* given);

}  // namespace vkattn::c
