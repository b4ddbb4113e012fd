// Converts problems and options of the C interface to those of C++.
#pragma once

#include <vkattn/vkattn.h>

#include "c/operations.hpp"

namespace vkattn::c {

/// Convert a problem: attention_desc(), append_desc() and so on.
/// @{
#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS) \
  [[nodiscard]] Result<DESC> NAME##_desc(const vkattn_##NAME##_desc* given);
#define VKATTN_EVERY_OPERATION
#include "common/operations.def"
/// @}

/// The options as this version has them. Null stands for all defaults.
[[nodiscard]] Result<vkattn_plan_options> plan_options(const vkattn_plan_options* given);
/// Convert options for a plan of the named operation, of a matrix multiplication, or of a layer. An option
/// that the plan does not use is an error.
/// @{
[[nodiscard]] Result<PlanOptions> options_for(const vkattn_plan_options& given, const char* operation);
[[nodiscard]] Result<PlanOptions> matmul_options(const vkattn_plan_options& given, const char* operation);
[[nodiscard]] Result<MultiHeadAttentionOptions> layer_options(const vkattn_plan_options& given,
                                                              const char* layer);
/// @}
/// Block sizes of a product, as matmul_options() reads them.
[[nodiscard]] vkattn_tile_sizes tile_sizes(const MatmulTile& tile);
[[nodiscard]] Result<RecordOptions> record_options(const vkattn_record_options* given);

}  // namespace vkattn::c
