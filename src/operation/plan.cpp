// The common part of all plans: making, questions, recording, and the log of each plan that is made.
#include <vkattn/plan.hpp>

#include <cmath>
#include <utility>

#include "common/message.hpp"
#include "kernels/select.hpp"
#include "operation/plan_state.hpp"
#include "operation/try_kernels.hpp"
#include "program/dispatch_limits.hpp"
#include "vulkan/debug.hpp"
#include "vulkan/missed_form.hpp"

namespace vkattn {

namespace detail {

namespace {

/// Warns of the first dispatch that is estimated above the limit: one unit of work is never cut.
void warn_of_long_dispatches(const PlanState& plan) {
  const Log& log = plan.device->log;
  const std::string_view advice = plan.operation->way_to_shorten();
  if (advice.empty() || !is_logged(log, LogLevel::kWarning)) return;
  const std::uint64_t most = dispatch_limit_ns(plan.device->capabilities, plan.options.max_dispatch_ns);
  if (most == 0) return;
  const ProgramDesc& program = plan.program->desc();
  for (const ProgramStep& step : program.steps) {
    if (step.estimated_ns <= static_cast<double>(most)) continue;
    write_log(log, LogLevel::kWarning, "a dispatch of ", program.passes[step.pass].name,
              " is estimated to take ", std::llround(step.estimated_ns), " ns; max_dispatch_ns is ", most,
              ": ", advice);
    return;
  }
}

void log_plan(const PlanState& plan) {
  const Log& log = plan.device->log;
  warn_of_long_dispatches(plan);
  log_description(log, plan);
  // The description has the line of a missed form. If nobody listens to descriptions, the line is a warning.
  const bool is_told = is_logged(log, LogLevel::kDetail) || !is_logged(log, LogLevel::kWarning);
  if (is_told) return;
  const std::string hint = plan.missed_form();
  if (!hint.empty()) write_log(log, LogLevel::kWarning, hint);
}

/// Makes a program of the first kernel that is not refused.
Result<std::shared_ptr<const Program>> make_program(const Shared<const DeviceState>& device,
                                                    Operation& operation, const PlanOptions& options,
                                                    std::string_view& kernel) {
  auto desc = operation.build(options, device->capabilities, kernel);
  if (!desc) return desc.error();
  return Program::create(device, *std::move(desc),
                         {options.pipeline_cache, options.push_descriptors, options.capture_statistics,
                          options.deferred_compilation});
}

}  // namespace

Result<Shared<const PlanState>> make_plan(const Device& device, std::unique_ptr<Operation> operation,
                                          const PlanOptions& options) {
  TuningNote note;
  Shared<const DeviceState> state = device.share();
  auto program = try_kernels(*operation, options, device.capabilities(), state->log, note,
                             [&](const PlanOptions& attempt, std::string_view& kernel) {
                               return make_program(state, *operation, attempt, kernel);
                             });
  if (!program) return program.error();
  auto plan = Shared<const PlanState>::make(
      PlanState{std::move(state), options, std::move(operation), *std::move(program), std::move(note)});
  log_plan(*plan);
  return plan;
}

std::string PlanState::missed_form() const {
  if (!options.kernel.empty()) return {};
  return detail::missed_form(
      *device, [&](const Capabilities& capabilities) { return operation->form_on(options, capabilities); });
}

std::string PlanState::describe() const {
  std::string text = operation->problem_lines();
  if (const ChosenKernel chosen = operation->chosen(); !chosen.name.empty()) {
    text += message("device: ", device->capabilities.device_name, "\nkernel: ", chosen.name, " (",
                    chosen.summary, chosen.more_words, ")\n");
    text += describe_others(chosen.considered, chosen.name);
  }
  text += operation->kernel_lines();
  if (!tuning.line.empty()) text += tuning.line + "\n";
  for (const std::string& line : options.notes) text += line + "\n";
  if (const std::string hint = missed_form(); !hint.empty()) text += hint + "\n";
  return text + operation->program_lines(program->desc());
}

}  // namespace detail

Result<void> Plan::compile() const {
  return detail::without_exceptions([&]() -> Result<void> { return state_->program->compile(); });
}

bool Plan::is_compiled() const noexcept {
  return state_->program->is_compiled();
}

std::string_view Plan::kernel_name() const {
  return state_->operation->chosen().name;
}

std::string Plan::configuration() const {
  const detail::ChosenKernel chosen = state_->operation->chosen();
  if (chosen.name.empty()) return {};
  const auto passes = state_->operation->kernel_passes(state_->program->desc().passes);
  return detail::message(
      state_->operation->configuration(), ", ", chosen.summary, ", code ",
      detail::MessagePart::hex(detail::hash_of(passes, detail::offered_modes(state_->device->capabilities))));
}

bool Plan::uses_matrix_units() const {
  return state_->operation->chosen().uses_matrix_units;
}

std::string Plan::describe() const {
  return state_->describe();
}

std::vector<DispatchInfo> Plan::dispatches() const {
  return state_->program->dispatches();
}

std::vector<PipelineInfo> Plan::pipelines() const {
  return state_->program->pipelines();
}

Result<std::vector<PipelineStatistics>> Plan::statistics(bool listings) const {
  return detail::without_exceptions(
      [&]() -> Result<std::vector<PipelineStatistics>> { return state_->program->statistics(listings); });
}

Result<PlanMemory> Plan::memory() const {
  return detail::without_exceptions([&]() -> Result<PlanMemory> { return state_->program->memory(); });
}

PlanRequirements Plan::requirements() const {
  return state_->program->requirements();
}

VkDeviceSize Plan::workspace_bytes() const {
  return state_->program->requirements().workspace_bytes;
}

bool Plan::is_on(const Device& device) const noexcept {
  return device.handle() == state_->device->device;
}

bool Plan::has_made(const Bindings& bindings) const noexcept {
  return bindings.state().program == state_->program;
}

RecordStatus Plan::record(VkCommandBuffer commands, const Bindings& bindings,
                          const RecordOptions& options) const noexcept {
  return state_->program->record(commands, bindings.state(), options);
}

}  // namespace vkattn
