// Problems and options of the C interface as those of C++.
#pragma once

#include <vkattn/vkattn.h>
#include <vkattn/backward.hpp>
#include <vkattn/cache.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/merge.hpp>
#include <vkattn/multi_head_attention.hpp>
#include <vkattn/plan.hpp>

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
/// What a kind of plan takes of them.
/// @{
[[nodiscard]] Result<PlanOptions> attention_options(const vkattn_plan_options& given);
[[nodiscard]] Result<AppendOptions> append_options(const vkattn_plan_options& given);
[[nodiscard]] Result<MergeOptions> merge_options(const vkattn_plan_options& given);
[[nodiscard]] Result<BackwardOptions> backward_options(const vkattn_plan_options& given);
[[nodiscard]] Result<MatmulOptions> matmul_options(const vkattn_plan_options& given);
[[nodiscard]] Result<MultiHeadAttentionOptions> layer_options(const vkattn_plan_options& given);
/// @}
[[nodiscard]] Result<RecordOptions> record_options(const vkattn_record_options* given);

}  // namespace vkattn::c
