// The plan of an append.
#include <array>
#include <span>

#include "attention/tensor_rules.hpp"
#include "cache/append_sizes.hpp"
#include "cache/append_state.hpp"
#include "cache/append_tasks.hpp"
#include "cache/append_tensors.hpp"
#include "common/message.hpp"
#include "program/plan_log.hpp"
#include "vulkan/missed_form.hpp"

namespace vkattn {

namespace detail {

namespace {

Result<Shared<const AppendState>> make_plan(const Device& device, const AppendDesc& given,
                                            const AppendOptions& options) {
  if (Result<void> s = validate(given); !s) return s.error();
  const AppendDesc desc = given.resolved();
  if (Result<void> s = detail::check_built({desc.cache_key.type, desc.cache_value.type}); !s)
    return s.error();
  auto tasks = append_program(desc, device.capabilities());
  if (!tasks) return tasks.error();
  auto program = Program::create(
      device.share(), *std::move(tasks),
      {options.pipeline_cache, options.push_descriptors, false, options.deferred_compilation});
  if (!program) return program.error();
  return Shared<const AppendState>::make(AppendState{device.share(), desc, *std::move(program)});
}

std::string_view words_for(const CacheLayout& cache) {
  switch (cache.mapping) {
    case KeyMapping::kRing:
      return "ring";
    case KeyMapping::kPaged:
      return "pages";
    case KeyMapping::kContiguous:
      break;
  }
  return "contiguous rows";
}

std::string missed_form_of(const AppendState& plan) {
  return missed_form(*plan.device, [&](const Capabilities& capabilities) {
    std::string forms;
    const auto program = append_program(plan.desc, capabilities);
    if (!program) return forms;
    for (const ProgramPass& pass : program->passes) {
      forms += message(forms.empty() ? "" : ", ", pass.name, " (", pass.shader, ")");
    }
    return forms;
  });
}

/// The ranges of a call in the order of the program's tensors. It refers to itself.
struct AppendCall {
  std::array<BufferRange, kAppendTensorCount> ranges;

  explicit AppendCall(const AppendTensors& tensors) noexcept {
    const auto table = append_tensor_table();
    for (std::size_t i = 0; i < table.size(); ++i) ranges[i] = tensors.*table[i].range;
  }
  [[nodiscard]] ProgramCall call() const noexcept { return {ranges, {}, {}, 0}; }
};

}  // namespace

}  // namespace detail

Result<AppendPlan> AppendPlan::create(const Device& device, const AppendDesc& desc,
                                      const AppendOptions& options) {
  return detail::without_exceptions([&]() -> Result<AppendPlan> {
    auto state = detail::make_plan(device, desc, options);
    if (!state) return state.error();
    const AppendPlan plan(*std::move(state));
    detail::log_plan(device.state(), plan,
                     {.missed_form = [&] { return detail::missed_form_of(*plan.state_); }});
    return plan;
  });
}

Result<void> AppendPlan::compile() const {
  return detail::without_exceptions([&]() -> Result<void> { return state_->program->compile(); });
}

bool AppendPlan::is_compiled() const noexcept {
  return state_->program->is_compiled();
}

const AppendDesc& AppendPlan::desc() const {
  return state_->desc;
}

VkDeviceSize AppendPlan::range_bytes(BufferRange AppendTensors::*tensor, VkDeviceSize offset) const {
  const auto& tensors = state_->program->desc().tensors;
  const std::size_t index = detail::append_tensor_index(tensor);
  return index < tensors.size() ? detail::Program::range_bytes(tensors[index], offset) : 0;
}

std::vector<DispatchInfo> AppendPlan::dispatches() const {
  return state_->program->dispatches();
}

PlanRequirements AppendPlan::requirements() const {
  return state_->program->requirements();
}

std::string AppendPlan::describe() const {
  const AppendDesc& desc = state_->desc;
  std::string text = detail::message(
      "append: batch ", desc.batch, ", query_heads ", desc.query_heads, ", kv_heads ", desc.kv_heads,
      ", new_length ", desc.new_length, ", head_dim ", desc.head_dim, ", value_dim ", desc.value_dim,
      desc.new_lengths == Lengths::kPacked ? detail::message(", ", desc.total_new_length, " packed rows")
                                           : "",
      "\n", "cache: ", detail::words_for(desc.cache), ", keys ", name(desc.cache_key.type), ", values ",
      name(desc.cache_value.type), ", room for ", detail::append_capacity(desc), " keys\n");
  if (desc.rotary.style != RotaryStyle::kNone) {
    text += detail::message("rotary: ", desc.rotary.dims, " dims, ",
                            desc.rotary.style == RotaryStyle::kInterleaved ? "interleaved" : "half-split",
                            desc.rotary.has_frequencies ? ", frequencies given\n" : "\n");
  }
  for (const detail::ProgramStep& step : state_->program->desc().steps) {
    const detail::ProgramPass& pass = state_->program->desc().passes[step.pass];
    text += detail::message("dispatch: ", pass.name, ", ", step.unit_count, " invocations, ", pass.shader,
                            pass.barrier ? ", after all others" : "", "\n");
  }
  if (const std::string hint = detail::missed_form_of(*state_); !hint.empty()) text += hint + "\n";
  return text;
}

Result<Bindings> AppendPlan::make_bindings(const AppendTensors& tensors, VkDescriptorPool pool) const {
  return detail::without_exceptions([&]() -> Result<Bindings> {
    auto bindings = state_->program->bind(detail::AppendCall(tensors).call(), pool);
    if (!bindings) return bindings.error();
    return Bindings(*std::move(bindings));
  });
}

Result<void> AppendPlan::rewrite(Bindings& bindings, const AppendTensors& tensors) const {
  return detail::without_exceptions([&]() -> Result<void> {
    return state_->program->rewrite(bindings.state(), detail::AppendCall(tensors).call());
  });
}

bool AppendPlan::has_made(const Bindings& bindings) const noexcept {
  return bindings.state().program == state_->program;
}

void AppendPlan::record(VkCommandBuffer commands, const Bindings& bindings,
                        const RecordOptions& options) const noexcept {
  state_->program->record(commands, bindings.state(), options);
}

Result<void> AppendPlan::record(VkCommandBuffer commands, const AppendTensors& tensors,
                                const RecordOptions& options) const {
  return detail::without_exceptions([&]() -> Result<void> {
    return state_->program->record(commands, detail::AppendCall(tensors).call(), options);
  });
}

}  // namespace vkattn
