// Problems, options and tensors of the C interface as those of C++.
#pragma once

#include <vkattn/vkattn.h>
#include <vkattn/cache.hpp>
#include <vkattn/merge.hpp>
#include <vkattn/plan.hpp>

#include <span>

namespace vkattn::c {

[[nodiscard]] Result<AttentionDesc> attention_desc(const vkattn_attention_desc* given);
[[nodiscard]] Result<AppendDesc> append_desc(const vkattn_append_desc* given);
[[nodiscard]] Result<MergeDesc> merge_desc(const vkattn_merge_desc* given);

/// Null: all defaults.
[[nodiscard]] Result<vkattn_plan_options> plan_options(const vkattn_plan_options* given);
[[nodiscard]] PlanOptions attention_options(const vkattn_plan_options& given);
[[nodiscard]] AppendOptions append_options(const vkattn_plan_options& given);
[[nodiscard]] MergeOptions merge_options(const vkattn_plan_options& given);
[[nodiscard]] Result<RecordOptions> record_options(const vkattn_record_options* given);

/// A tensor of the interface and the members that it is; null where a kind of plan has none.
struct TensorMembers {
  vkattn_tensor tensor;
  BufferRange AttentionTensors::*attention;
  BufferRange AppendTensors::*append;
  BufferRange MergeTensors::*merge;
};
[[nodiscard]] std::span<const TensorMembers> tensor_members();

/// What an execution binds.
[[nodiscard]] Result<vkattn_execution> execution(const vkattn_execution* given);
[[nodiscard]] Result<AttentionTensors> attention_tensors(const vkattn_execution& given);
[[nodiscard]] Result<AppendTensors> append_tensors(const vkattn_execution& given);
[[nodiscard]] Result<MergeTensors> merge_tensors(const vkattn_execution& given);

}  // namespace vkattn::c
