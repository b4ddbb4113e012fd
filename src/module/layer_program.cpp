// The program of a layer: see layer_program.hpp.
#include "module/layer_program.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <variant>

#include "module/layer_symbols.hpp"
#include "program/join.hpp"

namespace vkattn::detail {

namespace {

/// Makes a plan by the function of the option `name`, or by create() if the option is not set. Plans on
/// another device or of another problem are refused.
template <class Plan, class Desc, class Make>
Result<Plan> made_by(const Make& make, std::string_view name, const Device& device, const Desc& desc,
                     const PlanOptions& options) {
  if (!make) return Plan::create(device, desc, options);
  auto plan = make(desc, options);
  if (!plan) return plan;
  if (!plan->is_on(device)) {
    return invalid("MultiHeadAttentionOptions::", name,
                   " made a plan on another VkDevice: make it on the one that the layer is planned on");
  }
  if (plan->desc() != desc.resolved()) {
    return invalid("MultiHeadAttentionOptions::", name,
                   " made a plan of another problem: make it of the descriptor that it is called with");
  }
  return plan;
}

Error of_step(std::string_view name, const Error& error) {
  return {error.code, error.vk_result, message(name, ": ", error.message)};
}

JoinedTensor joined(const BufferRange& symbol) {
  using In = JoinedTensor::In;
  if (symbol.buffer == VkBuffer{}) return {};
  const std::uint64_t number = number_of(symbol);
  if (number == kHeadSharesNumber) return {In::kNumbers, 0, 0};
  const std::uint64_t bytes = has_end(symbol) ? symbol.size : 0;
  if (number == kWorkspaceNumber) return {In::kWorkspace, 0, symbol.offset, bytes};
  return {In::kTensor, static_cast<std::uint32_t>(number), symbol.offset, bytes};
}

}  // namespace

const Plan& plan_of(const LayerStep& step) {
  return std::visit([](const auto& plan) -> const Plan& { return plan; }, step.plan);
}

LayerProgram::LayerProgram(const Device& device, const MultiHeadAttentionOptions& options,
                           std::size_t tensors)
    : device_(device), options_(options) {
  whole_.layouts.clear();
  whole_.tensors.resize(tensors);
}

BufferRange LayerProgram::take(VkDeviceSize bytes) {
  return part_of(symbol(kWorkspaceNumber), pieces_.take(bytes));
}

PlanOptions LayerProgram::options_of(const PlanOptions& step) const {
  PlanOptions how = step;
  how.pipeline_cache = options_.pipeline_cache;
  if (how.max_dispatch_ns == 0) how.max_dispatch_ns = options_.max_dispatch_ns;
  how.deferred_compilation = options_.deferred_compilation;
  how.push_descriptors = options_.push_descriptors;
  how.capture_statistics = options_.capture_statistics;
  return how;
}

template <class Plan>
Result<void> LayerProgram::push(std::string name, const Result<Plan>& plan,
                                const typename Plan::Tensors& tensors) {
  if (!plan) return of_step(name, plan.error());
  if (plan->state().options.push_descriptors != options_.push_descriptors) {
    return invalid("the plan of the step ", name, " was made ",
                   options_.push_descriptors ? "without" : "with",
                   " push_descriptors: make it as the layer is made");
  }
  PlacedStep step{{std::move(name), *plan}, {}, phase_};
  if (Result<void> s = typed_operation<Plan>(plan->state()).add_tensors(tensors, step.tensors); !s) return s;
  steps_.push_back(std::move(step));
  return {};
}

Result<void> LayerProgram::add(std::string name, const MatmulDesc& desc, const MatmulTensors& tensors) {
  return push(
      std::move(name),
      made_by<MatmulPlan>(options_.make_matmul, "make_matmul", device_, desc, options_of(options_.matmul)),
      tensors);
}

Result<void> LayerProgram::add(std::string name, const AppendDesc& desc, const AppendTensors& tensors) {
  return push(std::move(name), AppendPlan::create(device_, desc, options_of({})), tensors);
}

Result<void> LayerProgram::add(std::string name, const BackwardDesc& desc, const BackwardTensors& tensors) {
  return push(std::move(name),
              made_by<BackwardPlan>(options_.make_backward, "make_backward", device_, desc,
                                    options_of(options_.backward)),
              tensors);
}

Result<void> LayerProgram::add(std::string name, const AttentionDesc& desc, const AttentionTensors& tensors) {
  const std::optional<AttentionPlan>& given = options_.attention_plan;
  if (!given) {
    return push(std::move(name),
                made_by<AttentionPlan>(options_.make_attention, "make_attention", device_, desc,
                                       options_of(options_.attention)),
                tensors);
  }
  if (!given->is_on(device_) || given->desc() != desc) {
    return invalid("MultiHeadAttentionOptions::attention_plan is of another problem or device; make it of ",
                   "MultiHeadAttentionDesc::resolved().attention");
  }
  return push(std::move(name), Result<AttentionPlan>(*given), tensors);
}

void LayerProgram::name_tensor(const BufferRange& symbol, ProgramTensor tensor) {
  whole_.tensors[number_of(symbol)] = std::move(tensor);
}

void LayerProgram::set_head_shares(std::int64_t query_heads) {
  head_shares_.assign(static_cast<std::size_t>(query_heads), 1.0F / static_cast<float>(query_heads));
  if (options_.push_descriptors) head_shares_byte_ = pieces_.take(head_shares_.size() * sizeof(float)).byte;
}

void LayerProgram::join_step(PlacedStep& step, VkDeviceSize workspace_byte) {
  const PlanState& plan = plan_of(step.step).state();
  const ProgramDesc& part = plan.program->desc();
  std::vector<JoinedTensor> tensors;
  for (std::size_t i = 0; i < part.tensors.size(); ++i) tensors.push_back(joined(step.tensors.ranges[i]));
  step.first_pass = join(
      {part, tensors, workspace_byte, step.waits, std::as_bytes(std::span(head_shares_)), head_shares_byte_},
      whole_);
  // Pipelines with statistics differ from those without.
  if (plan.options.capture_statistics != options_.capture_statistics) return;
  for (std::size_t i = step.first_pass; i < whole_.passes.size(); ++i) {
    whole_.passes[i].pipeline = plan.program->pipeline_of(i - step.first_pass);
  }
}

ProgramDesc LayerProgram::finish() {
  // Steps of one phase use their workspaces at the same time; workspaces of different phases share one place.
  const VkDeviceSize shared = pieces_.bytes();
  VkDeviceSize bytes = shared;
  std::optional<std::uint32_t> recorded;  // the last phase that records something
  PieceList own;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    PlacedStep& step = steps_[i];
    const PlanRequirements needs = plan_of(step.step).requirements();
    if (i == 0 || steps_[i - 1].phase != step.phase) own = {};
    const VkDeviceSize byte = shared + own.take(needs.workspace_bytes).byte;
    bytes = std::max(bytes, shared + own.bytes());
    if (needs.dispatches != 0) {
      step.waits = recorded && *recorded != step.phase;
      recorded = step.phase;
    }
    join_step(step, byte);
  }
  if (!whole_.steps.empty()) whole_.workspace_bytes = bytes;
  return std::move(whole_);
}

}  // namespace vkattn::detail
