// What a plan tells of itself.
#include <vkattn/plan.hpp>

#include <span>

#include "attention/tensor_table.hpp"
#include "common/message.hpp"
#include "forward/params.hpp"
#include "forward/plan_state.hpp"
#include "vulkan/missed_form.hpp"

namespace vkattn {

namespace detail {

std::string missed_form_of(const PlanState& plan) {
  const PlanOptions& options = plan.options;
  if (!options.kernel.empty() || plan.desc.is_empty()) return {};
  return missed_form(*plan.device, [&](const Capabilities& capabilities) -> std::string {
    auto selection = select_kernel(plan.desc, capabilities,
                                   {{},
                                    nullptr,
                                    options.refusals,
                                    options.strict_nonfinite,
                                    options.arithmetic_type,
                                    options.kv_splits});
    if (!selection) return {};
    return message(selection->kernel.name, " (", selection->config.shader, ")");
  });
}

}  // namespace detail

const AttentionDesc& AttentionPlan::desc() const {
  return state_->desc;
}
std::string_view AttentionPlan::kernel_name() const {
  return state_->selection.kernel.name;
}
const TileSizes& AttentionPlan::tile() const {
  return state_->selection.config.tile;
}
std::uint32_t AttentionPlan::shared_memory_bytes() const {
  return state_->selection.config.shared_bytes;
}
DataType AttentionPlan::arithmetic_type() const {
  return state_->selection.config.arithmetic_type;
}

DataType AttentionPlan::probability_type() const {
  return state_->selection.config.probability_type;
}
bool AttentionPlan::uses_matrix_units() const {
  return state_->selection.config.uses_matrix_units;
}

std::string AttentionPlan::configuration() const {
  const detail::PlanState& plan = *state_;
  const AttentionDesc& desc = plan.desc;
  std::span<const detail::ProgramPass> passes = plan.program->desc().passes;
  if (!passes.empty()) passes = passes.subspan(plan.kernel_pass, 1);
  return detail::message(
      kernel_name(), ", ", name(desc.query.type), " ", name(desc.key.type), " ", name(desc.value.type), " ",
      name(desc.output.type), ", d", desc.head_dim, " dv", desc.value_dim, ", ",
      plan.selection.config.summary, ", code ",
      detail::MessagePart::hex(detail::hash_of(passes, detail::offered_modes(plan.device->capabilities))));
}

VkDeviceSize AttentionPlan::workspace_bytes() const {
  return state_->layout.workspace_bytes;
}

PlanRequirements AttentionPlan::requirements() const {
  return state_->program->requirements();
}

VkDeviceSize AttentionPlan::range_bytes(BufferRange AttentionTensors::*tensor, VkDeviceSize offset) const {
  if (tensor == &AttentionTensors::block_mask) return block_mask_bytes();
  const auto& tensors = state_->program->desc().tensors;
  const std::size_t index = detail::tensor_index(tensor);
  return index < tensors.size() ? detail::Program::range_bytes(tensors[index], offset) : 0;
}

VkDeviceSize AttentionPlan::block_mask_bytes() const {
  return state_->layout.block_mask_bytes;
}

std::optional<BlockMaskLayout> AttentionPlan::block_mask_layout() const {
  const detail::PlanState& plan = *state_;
  if (plan.layout.block_mask_bytes == 0 || plan.layout.windows.size() != 1) return std::nullopt;
  const detail::FeatureParams params = detail::window_feature_params(plan.desc, plan.layout.windows.front());
  const detail::KernelConfig& config = plan.selection.config;
  return BlockMaskLayout{config.rows_per_workgroup, config.block_mask_keys, params.block_batch_stride,
                         params.block_head_stride, params.block_row_stride};
}

std::vector<DispatchInfo> AttentionPlan::dispatches() const {
  return state_->program->dispatches();
}

std::vector<PipelineInfo> AttentionPlan::pipelines() const {
  return state_->program->pipelines();
}

std::string AttentionPlan::describe() const {
  const detail::PlanState& plan = *state_;
  const AttentionDesc& desc = plan.desc;
  const detail::ForwardLayout& layout = plan.layout;
  std::string text = detail::message("attention: batch ", desc.batch, ", query_heads ", desc.query_heads,
                                     ", kv_heads ", desc.kv_heads, ", query_length ", desc.query_length,
                                     ", kv_length ", desc.kv_length, ", head_dim ", desc.head_dim,
                                     ", value_dim ", desc.value_dim, desc.causal ? ", causal" : "", "\n");
  text += detail::message("device: ", plan.device->capabilities.device_name, "\n");
  text += detail::message("kernel: ", kernel_name(), " (", plan.selection.config.summary, ")\n");
  text += detail::describe_others(plan.selection.considered, kernel_name());
  if (desc.score_function) {
    text += detail::message("score function: ", desc.score_function->name(),
                            desc.score_function->hides_keys() ? ", hides keys" : "", "\n");
  }
  if (!plan.tuning_note.empty()) text += plan.tuning_note + "\n";
  for (const std::string& note : plan.options.notes) text += note + "\n";
  if (const std::string hint = detail::missed_form_of(plan); !hint.empty()) text += hint + "\n";
  text += detail::message("dispatches: ", plan.program->desc().steps.size(), " over ", layout.windows.size(),
                          layout.windows.size() == 1 ? " window" : " windows",
                          " of the tensors; workspace: ", layout.workspace_bytes, " bytes\n");
  if (layout.splits_keys()) {
    text += detail::message("split over keys: ", layout.split.splits, " parts of ", layout.split.keys,
                            ", merged by the combine pass\n");
  } else if (layout.sums_in_workspace) {
    text += "sums: kept as float32 in the workspace\n";
  }
  return text;
}

}  // namespace vkattn
