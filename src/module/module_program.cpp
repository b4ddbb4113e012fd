// Steps of a layer: see module_program.hpp.
#include "module/module_program.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "common/checked.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "vulkan/debug.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::detail {

namespace {

std::string text_of(const LayerTensor& tensor) {
  std::string text = tensor.name;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    text += message(i == 0 ? " is (" : ", ", tensor.shape[i]);
  }
  return message(text, ") ", name(tensor.type));
}

VkDeviceSize bytes_of(const LayerTensor& tensor) {
  std::int64_t elements = 1;
  for (const std::int64_t size : tensor.shape) elements = saturating_multiply(elements, size);
  return static_cast<VkDeviceSize>(elements) / block_elements(tensor.type) * block_bytes(tensor.type);
}

Result<void> check_range(const LayerTensor& tensor, const BufferRange& range) {
  const VkDeviceSize needed = tensor.range_bytes(range.offset);
  if (needed == 0) return {};
  if (range.buffer == VkBuffer{}) {
    return invalid(text_of(tensor), ", ", bytes_of(tensor), " bytes, but its buffer is null");
  }
  if (range.size < needed) {
    return invalid(text_of(tensor), ", which takes a range of ", needed, " bytes, but its range has ",
                   range.size);
  }
  const VkDeviceSize alignment = std::max(tensor.alignment_bytes, element_bytes(tensor.type));
  if (range.offset % alignment == 0) return {};
  return invalid(tensor.name, " begins at byte ", range.offset, ", which is no multiple of ", alignment);
}

Result<void> check_workspace(const PlanRequirements& needs, const BufferRange& workspace) {
  if (needs.workspace_bytes == 0) return {};
  if (workspace.buffer == VkBuffer{} || workspace.size < needs.workspace_bytes) {
    return invalid("the workspace takes ", needs.workspace_bytes, " bytes, but its range has ",
                   workspace.buffer == VkBuffer{} ? 0 : workspace.size);
  }
  if (workspace.offset % needs.workspace_alignment == 0) return {};
  return invalid("the workspace begins at byte ", workspace.offset, ", which is no multiple of ",
                 needs.workspace_alignment);
}

Error of_step(std::string_view name, const Error& error) {
  return {error.code, error.vk_result, message(name, ": ", error.message)};
}

BufferRange part_of_range(const BufferRange& range, VkDeviceSize byte, VkDeviceSize bytes) {
  if (range.buffer == VkBuffer{}) return {};
  const VkDeviceSize rest = range.size < byte ? 0 : range.size - byte;
  return {range.buffer, range.offset + byte, bytes == 0 ? rest : std::min(rest, bytes)};
}

BufferRange workspace_of(const ModuleStep& step, const ModuleCall& call) {
  return step.workspace.bytes == 0 ? BufferRange{}
                                   : part_of_range(call.workspace, step.workspace.byte, step.workspace.bytes);
}

}  // namespace

Place Place::behind(VkDeviceSize more) const {
  Place place = *this;
  place.byte += more;
  return place;
}

BufferRange Place::in(const ModuleCall& call) const {
  return find == nullptr ? BufferRange{} : part_of_range(find(call, *this), byte, bytes);
}

Place place_of(BufferRange MultiHeadAttentionTensors::*tensor) {
  Place place{
      [](const ModuleCall& call, const Place& of) -> const BufferRange& { return call.forward.*of.tensor; }};
  place.tensor = tensor;
  return place;
}

Place place_of(BufferRange MultiHeadAttentionBackwardTensors::*gradient) {
  Place place{[](const ModuleCall& call, const Place& of) -> const BufferRange& {
    return call.backward->*of.gradient;
  }};
  place.gradient = gradient;
  return place;
}

Place place_of(BufferRange MultiHeadAttentionParameters::*parameter) {
  Place place{[](const ModuleCall& call, const Place& of) -> const BufferRange& {
    return call.forward.parameters.*of.parameter;
  }};
  place.parameter = parameter;
  return place;
}

Place place_of(BufferRange AttentionTensors::*feature) {
  Place place{[](const ModuleCall& call, const Place& of) -> const BufferRange& {
    return call.forward.attention.*of.feature;
  }};
  place.feature = feature;
  return place;
}

Place place_of_score_buffer(std::size_t index) {
  Place place{[](const ModuleCall& call, const Place& of) -> const BufferRange& {
    return call.forward.attention.score_buffers[of.score_buffer];
  }};
  place.score_buffer = index;
  return place;
}

Place gradient_of(BufferRange MultiHeadAttentionParameters::*parameter) {
  Place place{[](const ModuleCall& call, const Place& of) -> const BufferRange& {
    return call.backward->grad_parameters.*of.parameter;
  }};
  place.parameter = parameter;
  return place;
}

Place saved(const Piece& piece) {
  Place place = place_of(&MultiHeadAttentionTensors::saved).behind(piece.byte);
  place.bytes = piece.bytes;
  return place;
}

Place in_workspace(const Piece& piece) {
  Place place{[](const ModuleCall& call, const Place&) -> const BufferRange& { return call.workspace; }};
  place.byte = piece.byte;
  place.bytes = piece.bytes;
  return place;
}

Place head_shares() {
  return {[](const ModuleCall& call, const Place&) -> const BufferRange& { return call.head_shares; }};
}

VkDeviceSize LayerTensor::range_bytes(VkDeviceSize offset) const {
  const VkDeviceSize bytes = bytes_of(*this);
  return bytes == 0 ? 0 : divide_up(offset + bytes, VkDeviceSize{4}) * 4 - offset;
}

void ModuleProgram::add_tensor(LayerTensor tensor) {
  ProgramTensor placed;
  const std::string_view name = tensor.name;
  placed.name = name.substr(name.starts_with("the ") ? 4 : 0);
  placed.bytes = bytes_of(tensor);
  placed.written = tensor.written;
  add_place(std::move(placed), tensor.place);
  tensors_.push_back(std::move(tensor));
}

std::uint32_t ModuleProgram::add_place(ProgramTensor tensor, const Place& place) {
  placed_.push_back(std::move(tensor));
  places_.push_back(place);
  return static_cast<std::uint32_t>(placed_.size() - 1);
}

template <class Plan, class Tensors>
void ModuleProgram::push(std::string name, Plan plan, std::function<Tensors(const ModuleCall&)> tensors) {
  ModuleStep step{std::move(name), StepOf<Plan, Tensors>{plan, std::move(tensors)}, phase_, {}};
  step.needs = plan.requirements();
  steps_.push_back(std::move(step));
}

Result<void> ModuleProgram::add(std::string name, const MatmulDesc& desc, const MatmulPlaces& places) {
  PlanOptions how;
  how.pipeline_cache = options_.pipeline_cache;
  how.kernel = options_.matmul_kernel;
  how.refusals = options_.matmul_refusals;
  how.max_dispatch_ns = options_.max_dispatch_ns;
  how.deferred_compilation = options_.deferred_compilation;
  auto plan = made_by(options_.make_matmul, "make_matmul", device_, desc, how);
  if (!plan) return of_step(name, plan.error());
  push<MatmulPlan, MatmulTensors>(std::move(name), *std::move(plan), [places](const ModuleCall& call) {
    return MatmulTensors{places.a.in(call), places.b.in(call), places.bias.in(call), places.output.in(call)};
  });
  return {};
}

Result<void> ModuleProgram::add(std::string name, const AppendDesc& desc,
                                std::function<AppendTensors(const ModuleCall&)> tensors) {
  PlanOptions how;
  how.pipeline_cache = options_.pipeline_cache;
  how.deferred_compilation = options_.deferred_compilation;
  auto plan = AppendPlan::create(device_, desc, how);
  if (!plan) return plan.error();
  push(std::move(name), *std::move(plan), std::move(tensors));
  return {};
}

Result<void> ModuleProgram::add(std::string name, const BackwardDesc& desc,
                                std::function<BackwardTensors(const ModuleCall&)> tensors) {
  PlanOptions how;
  how.pipeline_cache = options_.pipeline_cache;
  how.kernel = options_.backward_kernel;
  how.refusals = options_.backward_refusals;
  how.max_dispatch_ns = options_.max_dispatch_ns;
  how.deferred_compilation = options_.deferred_compilation;
  auto plan = made_by(options_.make_backward, "make_backward", device_, desc, how);
  if (!plan) return plan.error();
  push(std::move(name), *std::move(plan), std::move(tensors));
  return {};
}

void ModuleProgram::add(std::string name, AttentionPlan plan,
                        std::function<AttentionTensors(const ModuleCall&)> tensors) {
  push(std::move(name), std::move(plan), std::move(tensors));
}

std::vector<LayerStep> ModuleProgram::plans() const {
  std::vector<LayerStep> all;
  for (const ModuleStep& step : steps_) {
    std::visit([&](const auto& of) { all.push_back({step.name, of.plan}); }, step.of);
  }
  return all;
}

void ModuleProgram::finish() {
  options_.make_attention = nullptr;
  options_.make_backward = nullptr;
  options_.make_matmul = nullptr;
  // Workspaces of one phase are in use at the same time; those of different phases lie in one place.
  const VkDeviceSize shared = pieces_.bytes();
  workspace_bytes_ = shared;
  std::uint32_t dispatches = 0;
  std::optional<std::uint32_t> recorded;  // the last phase that records something
  PieceList own;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    ModuleStep& step = steps_[i];
    if (i == 0 || steps_[i - 1].phase != step.phase) own = {};
    step.workspace = own.take(step.needs.workspace_bytes);
    step.workspace.byte += shared;
    workspace_bytes_ = std::max(workspace_bytes_, shared + own.bytes());
    step.first_dispatch = dispatches;
    dispatches += step.needs.dispatches;
    if (step.needs.dispatches == 0) continue;
    step.waits = recorded && *recorded != step.phase;
    recorded = step.phase;
  }
}

Result<void> ModuleProgram::compile() const {
  for (const ModuleStep& step : steps_) {
    const Result<void> s = std::visit([](const auto& of) { return of.plan.compile(); }, step.of);
    if (!s) return s;
  }
  return {};
}

bool ModuleProgram::is_compiled() const noexcept {
  return std::all_of(steps_.begin(), steps_.end(), [](const ModuleStep& step) {
    return std::visit([](const auto& of) { return of.plan.is_compiled(); }, step.of);
  });
}

std::string ModuleProgram::describe() const {
  std::string text;
  for (const ModuleStep& step : steps_) {
    text += message("step: ", step.name, step.waits ? ", after all before it" : "", "\n");
    text += std::visit([](const auto& of) { return of.plan.describe(); }, step.of);
  }
  return text;
}

std::vector<DispatchInfo> ModuleProgram::dispatches() const {
  std::vector<DispatchInfo> all;
  for (const ModuleStep& step : steps_) {
    const std::vector<DispatchInfo> own =
        std::visit([](const auto& of) { return of.plan.dispatches(); }, step.of);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

PlanRequirements ModuleProgram::requirements() const {
  PlanRequirements all;
  for (const ModuleStep& step : steps_) {
    const PlanRequirements& own = step.needs;
    all.tensor_usage |= own.tensor_usage;
    all.descriptor_sets += own.descriptor_sets;
    all.storage_buffers = std::max(all.storage_buffers, own.storage_buffers);
    all.parameter_bytes += own.parameter_bytes;
    all.dispatches += own.dispatches;
    all.first_stages |= own.first_stages;
    all.first_access |= own.first_access;
    all.last_stages |= own.last_stages;
    all.last_access |= own.last_access;
    all.push_constant_bytes = std::max(all.push_constant_bytes, own.push_constant_bytes);
  }
  if (all.dispatches == 0 || workspace_bytes_ == 0) return all;
  all.workspace_bytes = workspace_bytes_;
  all.workspace_alignment = std::max<VkDeviceSize>(device_.capabilities().min_storage_offset_alignment, 16);
  all.workspace_usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  return all;
}

VkDeviceSize ModuleProgram::range_bytes(const Place& place, VkDeviceSize offset) const {
  for (const LayerTensor& tensor : tensors_) {
    const Place& own = tensor.place;
    if (own.find == place.find && own.tensor == place.tensor && own.gradient == place.gradient &&
        own.parameter == place.parameter) {
      return tensor.range_bytes(offset);
    }
  }
  return 0;
}

Result<void> ModuleProgram::check(const ModuleCall& call) const {
  for (const LayerTensor& tensor : tensors_) {
    if (Result<void> s = check_range(tensor, tensor.place.in(call)); !s) return s;
  }
  const PlanRequirements needs = requirements();
  if (Result<void> s = check_workspace(needs, call.workspace); !s) return s;
  ProgramTensor workspace;
  workspace.name = "workspace";
  workspace.bytes = needs.workspace_bytes;
  std::vector<BufferRange> ranges;
  for (const Place& place : places_) ranges.push_back(place.in(call));
  return check_overlaps(placed_, ranges, workspace, call.workspace);
}

Result<std::vector<Bindings>> ModuleProgram::bind(const ModuleCall& call, VkDescriptorPool pool) const {
  if (Result<void> s = check(call); !s) return s.error();
  std::vector<Bindings> all;
  for (const ModuleStep& step : steps_) {
    auto made = std::visit(
        [&](const auto& of) {
          return of.plan.make_bindings(of.tensors(call), workspace_of(step, call), pool);
        },
        step.of);
    if (!made) return of_step(step.name, made.error());
    all.push_back(*std::move(made));
  }
  return all;
}

Result<void> ModuleProgram::rewrite(std::vector<Bindings>& bindings, const ModuleCall& call) const {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Result<void> s = std::visit(
        [&](const auto& of) {
          return of.plan.rewrite(bindings[i], of.tensors(call), workspace_of(steps_[i], call));
        },
        steps_[i].of);
    if (!s) return of_step(steps_[i].name, s.error());
  }
  return {};
}

void ModuleProgram::record(VkCommandBuffer commands, const std::vector<Bindings>& bindings,
                           const RecordOptions& options) const noexcept {
  if (!is_compiled()) {
    warn_not_compiled(device_.state().log);
    return;
  }
  const std::uint64_t begin = options.first_dispatch;
  const std::uint64_t end = begin + options.dispatch_count;
  bool waits = options.wait_for_earlier;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const ModuleStep& step = steps_[i];
    const std::uint64_t first = std::max<std::uint64_t>(begin, step.first_dispatch);
    const std::uint64_t last = std::min<std::uint64_t>(end, step.first_dispatch + step.needs.dispatches);
    if (first >= last) continue;
    RecordOptions own;
    own.first_dispatch = static_cast<std::uint32_t>(first - step.first_dispatch);
    own.dispatch_count = static_cast<std::uint32_t>(last - first);
    // What follows within a phase is behind the same barrier.
    own.wait_for_earlier = waits || (step.waits && own.first_dispatch == 0);
    waits = false;
    std::visit([&](const auto& of) { of.plan.record(commands, bindings[i], own); }, step.of);
  }
}

}  // namespace vkattn::detail
