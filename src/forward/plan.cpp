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

// Options with what was measured for a problem like this one, where that can be used.
std::optional<TunedOptions<PlanOptions>> measured_options(const AttentionDesc& desc, const PlanOptions& given,
                                                          std::string& note) {
  if (given.tile) return std::nullopt;
  return tuned_options(
      given, note, [&](const Tuning& tuning) { return tuning.nearest(desc, given.arithmetic_type); },
      [&](const TunedProblem& tuned, PlanOptions& options) -> Result<std::string> {
        options.kernel = tuned.best.kernel;
        options.tile = tuned.best.tile;
        // What a window leaves of the keys decides how often to split them.
        const bool same_window = tuned.desc.window == desc.window;
        if (options.kv_splits == 0 && same_window) options.kv_splits = tuned.kv_splits;
        // Of a file made by hand nothing is used that no test has seen.
        const std::vector<TileSizes> known = all_tiles(tuned.best.kernel, given.arithmetic_type);
        if (std::find(known.begin(), known.end(), tuned.best.tile) == known.end()) {
          return Error{ErrorCode::kUnsupported, VK_SUCCESS,
                       message("the block sizes ", to_string(tuned.best.tile), " are not in the tile table")};
        }
        return message(tuned.best.kernel, " (", to_string(tuned.best.tile), ")");
      });
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

// By what a tuning file or the caller says, else in the device's order of preference.
Result<void> plan_kernel(const PlanOptions& options, PlanState& plan, std::string_view& kernel) {
  const TileSizes* const tile = options.tile ? &*options.tile : nullptr;
  auto selection = select_kernel(plan.desc, plan.device->capabilities,
                                 {options.kernel, tile, options.refusals, options.strict_nonfinite,
                                  options.arithmetic_type, options.kv_splits});
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
  const auto tuned = measured_options(plan->desc, options, plan->tuning_note);
  const Result<void> made = with_tuned_kernel(
      plan->device->log, options, tuned, plan->tuning_note,
      [&](const PlanOptions& attempt, std::string_view& kernel) {
        return plan_kernel(attempt, *plan, kernel);
      },
      is_of_kernel);
  if (!made) return made.error();
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
