// Problems and options of the C interface as those of C++.
#pragma once

#include <vkattn/vkattn.h>
#include <vkattn/attention_plan.hpp>
#include <vkattn/backward.hpp>
#include <vkattn/cache.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/merge.hpp>
#include <vkattn/multi_head_attention.hpp>

namespace vkattn::c {

[[nodiscard]] Result<AttentionDesc> attention_desc(const vkattn_attention_desc* given);
[[nodiscard]] Result<AppendDesc> append_desc(const vkattn_append_desc* given);
[[nodiscard]] Result<MergeDesc> merge_desc(const vkattn_merge_desc* given);
[[nodiscard]] Result<BackwardDesc> backward_desc(const vkattn_backward_desc* given);
[[nodiscard]] Result<MatmulDesc> matmul_desc(const vkattn_matmul_desc* given);
[[nodiscard]] Result<MultiHeadAttentionDesc> multi_head_attention_desc(
    const vkattn_multi_head_attention_desc* given);
[[nodiscard]] Result<MultiHeadAttentionBackwardDesc> multi_head_attention_backward_desc(
    const vkattn_multi_head_attention_backward_desc* given);

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
