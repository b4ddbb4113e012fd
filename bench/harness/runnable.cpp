// Plans of either kind.
#include "harness/runnable.hpp"

namespace vkattn::harness {

Result<Runnable> Runnable::create(const Runtime& runtime, const AttentionDesc& desc,
                                  const PlanOptions& options) {
  const auto runnable = [](auto&& plan) -> Result<Runnable> {
    if (!plan.ok()) return plan.error();
    return Runnable(*std::move(plan));
  };
  if (options.kernel != kUnfused) return runnable(runtime.make_plan(desc, options));
  PlanOptions with_cache = options;
  with_cache.pipeline_cache = runtime.pipeline_cache();
  return runnable(UnfusedPlan::create(runtime.device(), desc, with_cache));
}

std::string_view Runnable::kernel_name() const {
  const auto* const plan = std::get_if<AttentionPlan>(&plan_);
  return plan != nullptr ? plan->kernel_name() : kUnfused;
}

DataType Runnable::probability_type() const {
  const auto* const plan = std::get_if<AttentionPlan>(&plan_);
  return plan != nullptr ? plan->probability_type() : DataType::kFloat32;
}

Result<Buffer> Runnable::create_workspace(const Runtime& runtime) const {
  const VkDeviceSize bytes = std::visit([](const auto& plan) { return plan.workspace_bytes(); }, plan_);
  return bytes == 0 ? Result<Buffer>(Buffer()) : runtime.create_buffer(bytes);
}

Result<Bindings> Runnable::make_bindings(const AttentionTensors& tensors,
                                         const BufferRange& workspace) const {
  return std::visit([&](const auto& plan) { return plan.make_bindings(tensors, workspace); }, plan_);
}

void Runnable::record(VkCommandBuffer commands, const Bindings& bindings) const noexcept {
  if (const auto* const plan = std::get_if<AttentionPlan>(&plan_)) return plan->record(commands, bindings);
  std::get_if<UnfusedPlan>(&plan_)->record(commands, bindings);
}

}  // namespace vkattn::harness
