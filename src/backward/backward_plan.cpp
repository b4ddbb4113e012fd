// The plan of a backward pass.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "attention/tensor_table.hpp"
#include "backward/backward_program.hpp"
#include "common/message.hpp"
#include "kernels/next_kernel.hpp"
#include "kernels/select.hpp"
#include "program/plan_log.hpp"
#include "vulkan/missed_form.hpp"

namespace vkattn {

namespace detail {

struct BackwardState {
  Shared<const DeviceState> device;
  BackwardDesc desc;
  BackwardOptions options;  ///< as they were given
  BackwardSelection selection;
  BackwardLayout layout;
  std::shared_ptr<const Program> program;
  std::string note;  ///< what became of the tuning file; may be empty
};

namespace {

/// With the first kernel that is not refused.
Result<BackwardState> plan_kernel(const Device& device, const BackwardDesc& desc,
                                  const BackwardOptions& options, std::string_view& kernel) {
  const Capabilities& capabilities = device.capabilities();
  auto selection = select_backward_kernel(desc, capabilities, options.kernel, options.refusals);
  if (!selection) return selection.error();
  kernel = selection->kernel.name;
  auto layout = lay_out_backward(desc, capabilities, selection->kernel, options);
  if (!layout) return layout.error();
  auto passes = backward_program(desc, capabilities, selection->kernel, *layout, options);
  if (!passes) return passes.error();
  auto program = Program::create(device.share(), *std::move(passes),
                                 {options.pipeline_cache, options.push_descriptors,
                                  options.capture_statistics, options.deferred_compilation});
  if (!program) return program.error();
  return BackwardState{device.share(),      desc, options, *std::move(selection), *layout,
                       *std::move(program), {}};
}

/// What was measured for gradients like these.
std::optional<TunedOptions<BackwardOptions>> measured_options(const BackwardDesc& desc,
                                                              const BackwardOptions& given,
                                                              std::string& note) {
  return tuned_options(
      given, note, [&](const Tuning& tuning) { return tuning.nearest_backward(desc.attention); },
      [&](const TunedBackward& tuned, BackwardOptions& options) -> Result<std::string> {
        options.kernel = tuned.kernel;
        if (options.chunk_keys == 0) options.chunk_keys = tuned.chunk_keys;
        return message(tuned.kernel, options.chunk_keys == 0
                                         ? std::string()
                                         : message(" (chunks of ", options.chunk_keys, " keys)"));
      });
}

Result<Shared<const BackwardState>> make_plan(const Device& device, const BackwardDesc& given,
                                              const BackwardOptions& options) {
  if (Result<void> s = validate(given); !s) return s.error();
  const BackwardDesc desc = given.resolved();
  std::string note;
  const auto tuned = measured_options(desc, options, note);
  auto plan = with_tuned_kernel(
      device.state().log, options, tuned, note,
      [&](const BackwardOptions& attempt, std::string_view& kernel) {
        return plan_kernel(device, desc, attempt, kernel);
      },
      is_not_compiled);
  if (!plan) return plan.error();
  plan->note = std::move(note);
  return Shared<const BackwardState>::make(*std::move(plan));
}

std::string gradient_names(const BackwardDesc& desc) {
  std::string names;
  for (const GradientRow& row : gradient_table()) {
    if (!row.use.written || !row.is_used(desc)) continue;
    names += message(names.empty() ? "" : ", ", row.name, " ", name(row.storage(desc).type));
  }
  return names;
}

std::string missed_form_of(const BackwardState& plan) {
  if (!plan.options.kernel.empty()) return {};
  return missed_form(*plan.device, [&](const Capabilities& capabilities) -> std::string {
    const auto selection = select_backward_kernel(plan.desc, capabilities, {}, plan.options.refusals);
    if (!selection) return {};
    return message(selection->kernel.name, " (", selection->kernel.rows.shader, ")");
  });
}

}  // namespace

}  // namespace detail

Result<BackwardPlan> BackwardPlan::create(const Device& device, const BackwardDesc& desc,
                                          const BackwardOptions& options) {
  return detail::without_exceptions([&]() -> Result<BackwardPlan> {
    auto state = detail::make_plan(device, desc, options);
    if (!state) return state.error();
    const BackwardPlan plan(*std::move(state));
    detail::log_plan(device.state(), plan,
                     {&plan.state_->program->desc(), options.max_dispatch_ns,
                      "cut the keys with chunk_keys, or take fewer rows at once",
                      [&] { return detail::missed_form_of(*plan.state_); }});
    return plan;
  });
}

Result<void> BackwardPlan::compile() const {
  return detail::without_exceptions([&]() -> Result<void> { return state_->program->compile(); });
}

bool BackwardPlan::is_compiled() const noexcept {
  return state_->program->is_compiled();
}

const BackwardDesc& BackwardPlan::desc() const {
  return state_->desc;
}

std::string_view BackwardPlan::kernel_name() const {
  return state_->selection.kernel.name;
}

DataType BackwardPlan::probability_type() const {
  return state_->selection.kernel.probability_type;
}

std::string BackwardPlan::configuration() const {
  const BackwardDesc& desc = state_->desc;
  const AttentionDesc& attention = desc.attention;
  // Those of other chunks are the same, and other passes are no kernel of its own.
  const detail::BackwardKernel& kernel = state_->selection.kernel;
  const std::size_t kernel_passes = (detail::runs_numbers(kernel) ? 1U : 0U) +
                                    (detail::runs_rows(desc, kernel) ? 1U : 0U) +
                                    (desc.has_grad_key || desc.has_grad_value ? 1U : 0U);
  std::span<const detail::ProgramPass> passes = state_->program->desc().passes;
  passes = passes.first(std::min(passes.size(), kernel_passes));
  return detail::message(
      "backward ", kernel_name(), ", ", name(attention.query.type), " ", name(attention.key.type), " ",
      name(attention.value.type), " ", name(desc.grad_output->type), ", d", attention.head_dim, " dv",
      attention.value_dim, ", ", state_->selection.kernel.summary, ", code ",
      detail::MessagePart::hex(detail::hash_of(passes, detail::offered_modes(state_->device->capabilities))));
}

bool BackwardPlan::uses_matrix_units() const {
  return state_->selection.kernel.uses_matrix_units;
}

std::uint32_t BackwardPlan::chunk_keys() const {
  return state_->layout.chunk_keys;
}

std::string BackwardPlan::describe() const {
  const AttentionDesc& desc = state_->desc.attention;
  const detail::BackwardLayout& layout = state_->layout;
  std::string text =
      detail::message("backward: batch ", desc.batch, ", query_heads ", desc.query_heads, ", kv_heads ",
                      desc.kv_heads, ", query_length ", desc.query_length, ", kv_length ", desc.kv_length,
                      ", head_dim ", desc.head_dim, ", value_dim ", desc.value_dim,
                      desc.causal ? ", causal" : "", "\ngradients: ", detail::gradient_names(state_->desc),
                      "\ndevice: ", state_->device->capabilities.device_name, "\nkernel: ", kernel_name(),
                      " (", state_->selection.kernel.summary, ")\n");
  text += detail::describe_others(state_->selection.considered, kernel_name());
  if (!state_->note.empty()) text += state_->note + "\n";
  if (const std::string hint = detail::missed_form_of(*state_); !hint.empty()) text += hint + "\n";
  return text + detail::message("dispatches: ", state_->program->desc().steps.size(), " over ", layout.chunks,
                                layout.chunks == 1 ? " chunk of " : " chunks of ", layout.chunk_keys,
                                " keys; workspace: ", layout.workspace_bytes, " bytes\n");
}

std::vector<DispatchInfo> BackwardPlan::dispatches() const {
  return state_->program->dispatches();
}

std::vector<PipelineInfo> BackwardPlan::pipelines() const {
  return state_->program->pipelines();
}

Result<std::vector<PipelineStatistics>> BackwardPlan::statistics(bool listings) const {
  return detail::without_exceptions(
      [&]() -> Result<std::vector<PipelineStatistics>> { return state_->program->statistics(listings); });
}

PlanRequirements BackwardPlan::requirements() const {
  return state_->program->requirements();
}

VkDeviceSize BackwardPlan::workspace_bytes() const {
  return state_->program->requirements().workspace_bytes;
}

VkDeviceSize BackwardPlan::range_bytes(BufferRange AttentionTensors::*tensor, VkDeviceSize offset) const {
  if (tensor == &AttentionTensors::block_mask) return 0;
  return detail::Program::range_bytes(state_->program->desc().tensors[detail::tensor_index(tensor)], offset);
}

VkDeviceSize BackwardPlan::range_bytes(BufferRange BackwardTensors::*tensor, VkDeviceSize offset) const {
  const std::size_t index = detail::kTensorCount + detail::gradient_index(tensor);
  return detail::Program::range_bytes(state_->program->desc().tensors[index], offset);
}

Result<Bindings> BackwardPlan::make_bindings(const BackwardTensors& tensors, const BufferRange& workspace,
                                             VkDescriptorPool pool) const {
  return detail::without_exceptions([&]() -> Result<Bindings> {
    auto bindings = state_->program->bind(detail::BackwardCall(tensors).call(workspace), pool);
    if (!bindings) return bindings.error();
    return Bindings(*std::move(bindings));
  });
}

Result<void> BackwardPlan::rewrite(Bindings& bindings, const BackwardTensors& tensors,
                                   const BufferRange& workspace) const {
  return detail::without_exceptions([&]() -> Result<void> {
    return state_->program->rewrite(bindings.state(), detail::BackwardCall(tensors).call(workspace));
  });
}

bool BackwardPlan::is_on(const Device& device) const noexcept {
  return device.handle() == state_->device->device;
}

bool BackwardPlan::has_made(const Bindings& bindings) const noexcept {
  return bindings.state().program == state_->program;
}

void BackwardPlan::record(VkCommandBuffer commands, const Bindings& bindings,
                          const RecordOptions& options) const noexcept {
  state_->program->record(commands, bindings.state(), options);
}

Result<void> BackwardPlan::record(VkCommandBuffer commands, const BackwardTensors& tensors,
                                  const BufferRange& workspace, const RecordOptions& options) const {
  return detail::without_exceptions([&]() -> Result<void> {
    return state_->program->record(commands, detail::BackwardCall(tensors).call(workspace), options);
  });
}

}  // namespace vkattn
