// The plan of a matrix multiplication.
#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "attention/tensor_rules.hpp"
#include "common/message.hpp"
#include "kernels/next_kernel.hpp"
#include "kernels/select.hpp"
#include "matmul/matmul_copies.hpp"
#include "matmul/matmul_program.hpp"
#include "matmul/matmul_tensors.hpp"
#include "program/plan_log.hpp"
#include "vulkan/missed_form.hpp"

namespace vkattn {

namespace detail {

struct MatmulState {
  Shared<const DeviceState> device;
  MatmulDesc desc;
  MatmulOptions options;  ///< as they were given
  MatmulSelection selection;
  InnerSplit split;
  std::shared_ptr<const Program> program;
  std::string note;  ///< what became of the tuning file; may be empty
};

namespace {

/// The ranges of a call in the order of the program's tensors. It refers to itself.
struct MatmulCall {
  std::array<BufferRange, kMatmulTensorCount> ranges;
  BufferRange workspace;

  MatmulCall(const MatmulTensors& tensors, const BufferRange& given) noexcept
      : ranges{tensors.a, tensors.b, tensors.bias, tensors.output}, workspace(given) {}
  [[nodiscard]] ProgramCall call() const noexcept { return {ranges, workspace, {}, 0}; }
};

/// With the first kernel that is not refused.
Result<MatmulState> plan_kernel(const Device& device, const MatmulDesc& desc, const MatmulOptions& options,
                                std::string_view& kernel) {
  const Capabilities& capabilities = device.capabilities();
  auto selection = select_matmul_kernel(desc, capabilities, options);
  if (!selection) return selection.error();
  kernel = selection->config.name;
  const auto split = choose_inner_split(selection->config, capabilities, options.inner_splits);
  if (!split) return split.error();
  auto passes = matmul_program(desc, selection->config, *split, options, capabilities);
  if (!passes) return passes.error();
  auto program = Program::create(device.share(), *std::move(passes),
                                 {options.pipeline_cache, options.push_descriptors,
                                  options.capture_statistics, options.deferred_compilation});
  if (!program) return program.error();
  return MatmulState{device.share(), desc, options, *std::move(selection), *split, *std::move(program), {}};
}

/// What was measured for a product like this one.
std::optional<TunedOptions<MatmulOptions>> measured_options(const MatmulDesc& desc,
                                                            const Capabilities& capabilities,
                                                            const MatmulOptions& given, std::string& note) {
  if (given.tile) return std::nullopt;
  return tuned_options(
      given, note, [&](const Tuning& tuning) { return tuning.nearest_matmul(desc); },
      [&](const TunedMatmul& tuned, MatmulOptions& options) -> Result<std::string> {
        options.kernel = tuned.best.kernel;
        options.tile = tuned.best.tile;
        if (options.inner_splits == 0) options.inner_splits = tuned.inner_splits;
        // Of a file made by hand nothing is used that no test has seen.
        const std::vector<MatmulTile> known = matmul_tiles(tuned.best.kernel, capabilities);
        if (std::find(known.begin(), known.end(), tuned.best.tile) == known.end()) {
          return Error{ErrorCode::kUnsupported, VK_SUCCESS,
                       message("the block sizes ", to_string(tuned.best.tile), " are not in the tile table")};
        }
        return message(tuned.best.kernel, " (", to_string(tuned.best.tile), ")");
      });
}

Result<Shared<const MatmulState>> make_plan(const Device& device, const MatmulDesc& given,
                                            const MatmulOptions& options) {
  if (Result<void> s = validate(given); !s) return s.error();
  const MatmulDesc desc = given.resolved();
  if (Result<void> s = check_built({desc.b.type}); !s) return s.error();
  std::string note;
  const auto tuned = measured_options(desc, device.capabilities(), options, note);
  auto plan = with_tuned_kernel(
      device.state().log, options, tuned, note,
      [&](const MatmulOptions& attempt, std::string_view& kernel) {
        return plan_kernel(device, desc, attempt, kernel);
      },
      is_not_compiled);
  if (!plan) return plan.error();
  plan->note = std::move(note);
  return Shared<const MatmulState>::make(*std::move(plan));
}

std::string missed_form_of(const MatmulState& plan) {
  if (!plan.options.kernel.empty()) return {};
  return missed_form(*plan.device, [&](const Capabilities& capabilities) -> std::string {
    const auto selection = select_matmul_kernel(plan.desc, capabilities, plan.options);
    if (!selection) return {};
    return message(selection->config.name, " (", selection->config.shader, ")");
  });
}

}  // namespace

}  // namespace detail

Result<MatmulPlan> MatmulPlan::create(const Device& device, const MatmulDesc& desc,
                                      const MatmulOptions& options) {
  return detail::without_exceptions([&]() -> Result<MatmulPlan> {
    auto state = detail::make_plan(device, desc, options);
    if (!state) return state.error();
    const MatmulPlan plan(*std::move(state));
    detail::log_plan(device.state(), plan,
                     {&plan.state_->program->desc(), options.max_dispatch_ns, "cut inner with inner_splits",
                      [&] { return detail::missed_form_of(*plan.state_); }});
    return plan;
  });
}

Result<void> MatmulPlan::compile() const {
  return detail::without_exceptions([&]() -> Result<void> { return state_->program->compile(); });
}

bool MatmulPlan::is_compiled() const noexcept {
  return state_->program->is_compiled();
}

const MatmulDesc& MatmulPlan::desc() const {
  return state_->desc;
}

std::string_view MatmulPlan::kernel_name() const {
  return state_->selection.config.name;
}

MatmulTile MatmulPlan::tile() const {
  return state_->selection.config.tile;
}

MatmulCopies MatmulPlan::copies() const {
  const detail::MatmulView& view = state_->selection.config.view;
  MatmulCopies copies;
  for (const detail::MatmulOperand* operand : {&view.a, &view.b})
    (operand->tensor == 0 ? copies.a : copies.b) = operand->is_copied;
  return copies;
}

std::string MatmulPlan::configuration() const {
  const MatmulDesc& desc = state_->desc;
  std::span<const detail::ProgramPass> passes = state_->program->desc().passes;
  // Copies and the combine pass are no kernels of their own.
  const auto is_kernel = [&](const detail::ProgramPass& pass) { return pass.name == kernel_name(); };
  const auto kernel = std::find_if(passes.begin(), passes.end(), is_kernel);
  passes = passes.subspan(static_cast<std::size_t>(kernel - passes.begin()), kernel == passes.end() ? 0 : 1);
  return detail::message(
      "matmul ", kernel_name(), ", ", desc.a_is_ones ? "ones" : name(desc.a.type), " ", name(desc.b.type),
      " ", name(desc.output.type), ", ", state_->selection.config.summary, ", code ",
      detail::MessagePart::hex(detail::hash_of(passes, detail::offered_modes(state_->device->capabilities))));
}

bool MatmulPlan::uses_matrix_units() const {
  return state_->selection.config.uses_matrix_units;
}

std::vector<DispatchInfo> MatmulPlan::dispatches() const {
  return state_->program->dispatches();
}

std::vector<PipelineInfo> MatmulPlan::pipelines() const {
  return state_->program->pipelines();
}

PlanRequirements MatmulPlan::requirements() const {
  return state_->program->requirements();
}

VkDeviceSize MatmulPlan::range_bytes(BufferRange MatmulTensors::*tensor, VkDeviceSize offset) const {
  const auto& tensors = state_->program->desc().tensors;
  return detail::Program::range_bytes(tensors[detail::matmul_tensor_index(tensor)], offset);
}

std::string MatmulPlan::describe() const {
  const MatmulDesc& desc = state_->desc;
  const detail::MatmulConfig& config = state_->selection.config;
  const detail::ProgramDesc& program = state_->program->desc();
  std::string text = detail::message(
      "matmul: batch ", desc.batch, ", rows ", desc.rows, ", columns ", desc.columns, ", inner ", desc.inner,
      ", ", desc.a_is_ones ? "ones" : name(desc.a.type), " x ", name(desc.b.type), " to ",
      name(desc.output.type), desc.has_bias ? ", bias" : "", desc.accumulates ? ", accumulates" : "",
      "\ndevice: ", state_->device->capabilities.device_name, "\nkernel: ", config.name, " (", config.summary,
      config.view.bias_by_row ? ", rows and columns exchanged" : "", ")\n");
  text += detail::describe_others(state_->selection.considered, config.name);
  if (!state_->note.empty()) text += state_->note + "\n";
  if (const std::string hint = detail::missed_form_of(*state_); !hint.empty()) text += hint + "\n";
  text += detail::message("dispatches: ", program.steps.size(), "; workspace: ", program.workspace_bytes,
                          " bytes\n");
  for (const detail::MatmulOperand& operand : {config.view.a, config.view.b}) {
    if (!operand.is_copied || program.steps.empty()) continue;
    text +=
        detail::message(operand.tensor == 0 ? "a" : "b", " is copied first, as float32 in rows of inner: ",
                        detail::copy_bytes(operand, config.view), " bytes of workspace\n");
  }
  if (state_->split.parts > 1) {
    text += detail::message("split over inner: ", state_->split.parts, " parts of ", state_->split.inner,
                            ", added by the combine pass\n");
  }
  return text;
}

Result<std::vector<PipelineStatistics>> MatmulPlan::statistics(bool listings) const {
  return detail::without_exceptions(
      [&]() -> Result<std::vector<PipelineStatistics>> { return state_->program->statistics(listings); });
}

Result<Bindings> MatmulPlan::make_bindings(const MatmulTensors& tensors, const BufferRange& workspace,
                                           VkDescriptorPool pool) const {
  return detail::without_exceptions([&]() -> Result<Bindings> {
    auto bindings = state_->program->bind(detail::MatmulCall(tensors, workspace).call(), pool);
    if (!bindings) return bindings.error();
    return Bindings(*std::move(bindings));
  });
}

Result<void> MatmulPlan::rewrite(Bindings& bindings, const MatmulTensors& tensors,
                                 const BufferRange& workspace) const {
  return detail::without_exceptions([&]() -> Result<void> {
    return state_->program->rewrite(bindings.state(), detail::MatmulCall(tensors, workspace).call());
  });
}

bool MatmulPlan::is_on(const Device& device) const noexcept {
  return device.handle() == state_->device->device;
}

bool MatmulPlan::has_made(const Bindings& bindings) const noexcept {
  return bindings.state().program == state_->program;
}

void MatmulPlan::record(VkCommandBuffer commands, const Bindings& bindings,
                        const RecordOptions& options) const noexcept {
  state_->program->record(commands, bindings.state(), options);
}

Result<void> MatmulPlan::record(VkCommandBuffer commands, const MatmulTensors& tensors,
                                const BufferRange& workspace, const RecordOptions& options) const {
  return detail::without_exceptions([&]() -> Result<void> {
    return state_->program->record(commands, detail::MatmulCall(tensors, workspace).call(), options);
  });
}

}  // namespace vkattn
