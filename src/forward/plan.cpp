// Plan assembly: validate -> select -> layout -> program.
#include <vkattn/plan.hpp>

#include <algorithm>

#include "common/message.hpp"
#include "forward/attention_program.hpp"
#include "forward/forward_program.hpp"
#include "forward/plan_state.hpp"
#include "kernels/next_kernel.hpp"
#include "kernels/tile_table.hpp"
#include "program/plan_log.hpp"

namespace vkattn {

namespace detail {

namespace {

Result<void> check_options(const PlanOptions& options, const Capabilities& capabilities) {
  if (options.tile && options.kernel.empty()) {
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                 "PlanOptions::tile needs PlanOptions::kernel, whose block sizes they are"};
  }
  if (options.arithmetic_type != DataType::kFloat32 && options.arithmetic_type != DataType::kFloat16) {
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                 message("PlanOptions::arithmetic_type is ", name(options.arithmetic_type),
                         "; it can be float32 or float16")};
  }
  // Here already, so that no kernel is refused for it.
  return check_statistics(options.capture_statistics, capabilities);
}

/// What is tried: a kernel with its configuration, and how often the keys are split.
struct Choice {
  Selection selection;
  std::uint32_t kv_splits = 0;
};

// What was measured for a problem like this one, where that can be used. Notes say what was found.
std::optional<Choice> tuned_choice(const PlanState& plan, std::vector<std::string>& notes) {
  const PlanOptions& options = plan.options;
  if (!options.tuning || options.tile) return std::nullopt;
  if (!options.tuning->warning.empty()) {
    notes.push_back(message("tuning: ", options.tuning->warning));
    return std::nullopt;
  }
  const TunedProblem* const tuned = options.tuning->nearest(plan.desc, options.arithmetic_type);
  if (tuned == nullptr || (!options.kernel.empty() && options.kernel != tuned->best.kernel))
    return std::nullopt;
  const std::string what = message(tuned->best.kernel, " (", to_string(tuned->best.tile), "), measured for '",
                                   tuned->problem, "' in ", options.tuning->source);
  const auto cannot = [&](const std::string& reason) {
    notes.push_back(message("tuning: cannot use ", what, ": ", reason));
    return std::nullopt;
  };
  // Of a file made by hand nothing is used that no test has seen.
  const std::vector<TileSizes> known = all_tiles(tuned->best.kernel, options.arithmetic_type);
  if (std::find(known.begin(), known.end(), tuned->best.tile) == known.end()) {
    return cannot("these block sizes are not in the tile table");
  }
  auto selection = select_kernel(plan.desc, plan.device->capabilities,
                                 {tuned->best.kernel, &tuned->best.tile, options.refusals,
                                  options.strict_nonfinite, options.arithmetic_type});
  if (!selection) return cannot(selection.error().message);
  notes.push_back(message("tuning: ", what));
  // What a window leaves of the keys decides how often to split them.
  const bool same_window = tuned->desc.window == plan.desc.window;
  const std::uint32_t splits = options.kv_splits == 0 && same_window ? tuned->kv_splits : options.kv_splits;
  return Choice{*std::move(selection), splits};
}

// Layout and program of a choice.
Result<ProgramDesc> lay_out_choice(const Choice& choice, const Capabilities& capabilities, PlanState& plan) {
  const LayoutRequest request{plan.desc,
                              capabilities,
                              choice.selection.config,
                              choice.kv_splits,
                              plan.options.push_descriptors,
                              plan.options.max_dispatch_ns};
  auto layout = lay_out(request);
  if (!layout) return layout.error();
  plan.layout = *std::move(layout);
  return forward_program(request, plan.layout, plan.options, plan.kernel_pass);
}

// Lays out and compiles what was chosen, and makes it the plan's.
Result<void> build_choice(Choice choice, PlanState& plan) {
  const PlanOptions& options = plan.options;
  auto desc = plan.desc.is_empty() ? Result<ProgramDesc>(ProgramDesc{})
                                   : lay_out_choice(choice, plan.device->capabilities, plan);
  if (!desc) return desc.error();
  auto program = Program::create(plan.device, *std::move(desc),
                                 {options.pipeline_cache, options.push_descriptors,
                                  options.capture_statistics, options.deferred_compilation});
  if (!program) return program.error();
  plan.program = *std::move(program);
  plan.selection = std::move(choice.selection);
  return {};
}

// What a kernel accepts may still not fit the device, as where it cannot cut the keys of one head, a score
// function may not compile in it, and a driver may not compile it.
bool is_of_kernel(const Error& error) {
  return error.code == ErrorCode::kLimitExceeded || error.code == ErrorCode::kUnsupported;
}

// By the tuning file, and whether it has worked out.
Result<bool> plan_tuned_kernel(PlanState& plan) {
  auto choice = tuned_choice(plan, plan.notes);
  if (!choice) return false;
  const std::string_view kernel = choice->selection.kernel.name;
  const Result<void> built = build_choice(*std::move(choice), plan);
  if (built) return true;
  const Error& error = built.error();
  if (!is_of_kernel(error)) return error;
  log_refused_kernel(plan.device->log, kernel, error);
  plan.notes.back() += message(": not used: ", error.message);
  return false;
}

// In the device's order of preference.
Result<void> plan_kernel(const PlanOptions& options, PlanState& plan, std::string_view& kernel) {
  const TileSizes* const tile = options.tile ? &*options.tile : nullptr;
  auto selection = select_kernel(
      plan.desc, plan.device->capabilities,
      {options.kernel, tile, options.refusals, options.strict_nonfinite, options.arithmetic_type});
  if (!selection) return selection.error();
  kernel = selection->kernel.name;
  return build_choice({*std::move(selection), options.kv_splits}, plan);
}

Result<Shared<const PlanState>> make_plan(const Device& device, const AttentionDesc& desc,
                                          const PlanOptions& options) {
  if (Result<void> s = validate(desc); !s) return s.error();
  if (Result<void> s = check_options(options, device.capabilities()); !s) return s.error();
  auto plan = std::make_shared<PlanState>();
  plan->device = device.share();
  plan->desc = desc.resolved();
  plan->options = options;
  const auto tuned = plan_tuned_kernel(*plan);
  if (!tuned) return tuned.error();
  if (!*tuned) {
    const Result<void> made = with_next_kernels(
        plan->device->log, options,
        [&](const PlanOptions& attempt, std::string_view& kernel) {
          return plan_kernel(attempt, *plan, kernel);
        },
        is_of_kernel);
    if (!made) return made.error();
  }
  return Shared<const PlanState>(std::move(plan));
}

Result<void> check_block_mask(const PlanState& plan, const AttentionTensors& tensors) {
  const bool missing = tensors.block_mask_complete && tensors.block_mask.buffer == VK_NULL_HANDLE;
  if (plan.layout.block_mask_bytes == 0 || !missing) return {};
  return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
               "the block mask is said to be complete but its buffer is null"};
}

// A block mask that is complete is not computed: it is all that comes before the kernel.
std::uint32_t first_pass(const PlanState& plan, const AttentionTensors& tensors) {
  return plan.layout.block_mask_bytes != 0 && tensors.block_mask_complete ? plan.kernel_pass : 0;
}

}  // namespace

}  // namespace detail

Result<AttentionPlan> AttentionPlan::create(const Device& device, const AttentionDesc& desc,
                                            const PlanOptions& options) {
  return detail::without_exceptions([&]() -> Result<AttentionPlan> {
    auto state = detail::make_plan(device, desc, options);
    if (!state) return state.error();
    const AttentionPlan plan(*std::move(state));
    detail::log_plan(device.state(), plan,
                     {&plan.state_->program->desc(), options.max_dispatch_ns, "cut the keys with kv_splits",
                      [&] { return detail::missed_form_of(*plan.state_); }});
    return plan;
  });
}

Result<void> AttentionPlan::compile() const {
  return detail::without_exceptions([&]() -> Result<void> { return state_->program->compile(); });
}

bool AttentionPlan::is_compiled() const noexcept {
  return state_->program->is_compiled();
}

Result<Bindings> AttentionPlan::make_bindings(const AttentionTensors& tensors, const BufferRange& workspace,
                                              VkDescriptorPool pool) const {
  return detail::without_exceptions([&]() -> Result<Bindings> {
    if (Result<void> s = detail::check_block_mask(*state_, tensors); !s) return s.error();
    const detail::ForwardCall call(tensors);
    auto bindings = state_->program->bind(call.call(workspace, detail::first_pass(*state_, tensors)), pool);
    if (!bindings) return bindings.error();
    return Bindings(*std::move(bindings));
  });
}

Result<void> AttentionPlan::rewrite(Bindings& bindings, const AttentionTensors& tensors,
                                    const BufferRange& workspace) const {
  return detail::without_exceptions([&]() -> Result<void> {
    if (Result<void> s = detail::check_block_mask(*state_, tensors); !s) return s;
    const detail::ForwardCall call(tensors);
    return state_->program->rewrite(bindings.state(),
                                    call.call(workspace, detail::first_pass(*state_, tensors)));
  });
}

bool AttentionPlan::is_on(const Device& device) const noexcept {
  return device.handle() == state_->device->device;
}

bool AttentionPlan::has_made(const Bindings& bindings) const noexcept {
  return bindings.state().program == state_->program;
}

void AttentionPlan::record(VkCommandBuffer commands, const Bindings& bindings,
                           const RecordOptions& options) const noexcept {
  state_->program->record(commands, bindings.state(), options);
}

Result<void> AttentionPlan::record(VkCommandBuffer commands, const AttentionTensors& tensors,
                                   const BufferRange& workspace, const RecordOptions& options) const {
  return detail::without_exceptions([&]() -> Result<void> {
    if (Result<void> s = detail::check_block_mask(*state_, tensors); !s) return s;
    const detail::ForwardCall call(tensors);
    return state_->program->record(commands, call.call(workspace, detail::first_pass(*state_, tensors)),
                                   options);
  });
}

Result<std::vector<PipelineStatistics>> AttentionPlan::statistics(bool listings) const {
  return detail::without_exceptions(
      [&]() -> Result<std::vector<PipelineStatistics>> { return state_->program->statistics(listings); });
}

}  // namespace vkattn
