// Recording: pipelines, sets, push constants, dispatches, and barriers between passes.
#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "common/message.hpp"
#include "program/bound_set.hpp"
#include "vulkan/debug.hpp"
#include "vulkan/descriptors.hpp"

namespace vkattn::detail {

namespace {

constexpr VkPipelineStageFlags kCompute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
constexpr VkPipelineStageFlags kTransfer = VK_PIPELINE_STAGE_TRANSFER_BIT;

/// The caller's errors, which a Debug build does not survive.
[[maybe_unused]] constexpr bool kIsRecordable = false;
#ifdef VKATTN_CHECKED
#define VKATTN_CHECK_RECORDED(WORDS) assert(kIsRecordable&& WORDS)
#else
#define VKATTN_CHECK_RECORDED(WORDS) static_cast<void>(0)
#endif

/// The timestamps of a slice: one before its first dispatch and one after each.
class Timestamps {
 public:
  /// Of a program with so many dispatches.
  Timestamps(const DeviceFunctions& vk, VkCommandBuffer commands, const RecordOptions& slice,
             std::size_t dispatches, bool is_continued) noexcept
      : vk_(vk), commands_(commands), slice_(slice), written_(is_continued ? 1 : 0) {
    if (slice.timestamps == VK_NULL_HANDLE || slice.first_dispatch >= dispatches) return;
    const std::uint64_t count =
        std::min<std::uint64_t>(slice.dispatch_count, dispatches - slice.first_dispatch);
    if (count != 0) all_ = count + 1;
  }

  /// Before and after the dispatch of this number is recorded. Dispatches before it that are left out have
  /// their timestamps then.
  /// @{
  void before(std::size_t dispatch) noexcept { write_until(dispatch - slice_.first_dispatch + 1); }
  void after(std::size_t dispatch) noexcept { write_until(dispatch - slice_.first_dispatch + 2); }
  /// @}
  void finish() noexcept { write_until(all_); }

 private:
  void write_until(std::uint64_t count) noexcept {
    for (; written_ < std::min(count, all_); ++written_) {
      vk_.vkCmdWriteTimestamp(commands_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, slice_.timestamps,
                              slice_.first_timestamp + static_cast<std::uint32_t>(written_));
    }
  }

  const DeviceFunctions& vk_;
  VkCommandBuffer commands_;
  const RecordOptions& slice_;
  std::uint64_t written_;
  std::uint64_t all_ = 0;
};

// Some programs have no push constants, and Vulkan takes no call for none.
void push(const DeviceFunctions& vk, VkCommandBuffer commands, VkPipelineLayout layout, std::uint32_t bytes,
          const std::byte* constants) {
  if (bytes == 0) return;
  vk.vkCmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, bytes, constants);
}

}  // namespace

void Program::barrier(VkCommandBuffer commands, const PassBarrier& access, VkPipelineStageFlags from,
                      VkPipelineStageFlags to) const noexcept {
  VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  memory.srcAccessMask = access.from;
  memory.dstAccessMask = access.to;
  device_->vk.vkCmdPipelineBarrier(commands, from, to, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

void Program::wait_for_earlier(VkCommandBuffer commands) const noexcept {
  const VkAccessFlags shader = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
  const VkAccessFlags update =
      updates_parameters() ? VkAccessFlags{VK_ACCESS_TRANSFER_WRITE_BIT} : VkAccessFlags{0};
  barrier(commands, {VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, shader | update},
          kCompute | kTransfer, update != 0 ? kCompute | kTransfer : kCompute);
}

void Program::begin_pass(VkCommandBuffer commands, CommandLabels& labels, const ProgramStep& step,
                         const ProgramStep* last, const StepRange& all) const noexcept {
  const ProgramPass& pass = desc_.passes[step.pass];
  const ProgramStep& first = desc_.steps[all.begin];
  const bool goes_on = last != nullptr && last->pass == step.pass;
  if (!goes_on) {
    labels.begin(labels_[step.pass]);
    device_->vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                                  pipelines_[pipeline_of_pass_[step.pass]]->handle());
  }
  // A slice may begin inside of the execution's first pass or later.
  if (!goes_on && step.pass != first.pass && pass.barrier) {
    barrier(commands, *pass.barrier, kCompute, kCompute);
  } else if (&step != &first && pass.between) {
    barrier(commands, *pass.between, kCompute, kCompute);
  }
}

RecordStatus Program::record(VkCommandBuffer commands, const BindingsState& bindings,
                             const RecordOptions& options, bool is_continued) const noexcept {
  if (bindings.program.get() != this) {
    write_text(device_->log, LogLevel::kWarning,
               "bindings of another plan record nothing: make them by the plan that records them");
    VKATTN_CHECK_RECORDED("these bindings were made by another plan");
    return RecordStatus::kOtherPlan;
  }
  if (!is_compiled()) {
    warn_not_compiled(device_->log);
    VKATTN_CHECK_RECORDED("the plan is not compiled");
    return RecordStatus::kNotCompiled;
  }
  const DeviceFunctions& vk = device_->vk;
  const StepRange range = slice_of(bindings.steps, options);
  Timestamps timestamps(vk, commands, options, desc_.steps.size(), is_continued);
  if (range.is_empty()) {
    timestamps.finish();
    return RecordStatus::kRecorded;
  }
  CommandLabels labels(vk, commands);
  if (options.wait_for_earlier) wait_for_earlier(commands);
  const ProgramStep* last = nullptr;
  for (std::size_t i = range.begin; i < range.end; ++i) {
    if (range.skips(i)) continue;
    const ProgramStep& step = desc_.steps[i];
    const ProgramSet& set = desc_.sets[step.set];
    const VkPipelineLayout layout = objects_of(set).layout->handle();
    timestamps.before(i);
    begin_pass(commands, labels, step, last, bindings.steps);
    if (last == nullptr || last->set != step.set) {
      vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1,
                                 &bindings.sets[place_of_set_[step.set]], 0, nullptr);
    }
    push(vk, commands, layout, desc_.layouts[set.layout].push_constant_bytes,
         bindings.push_constants.data() + i * push_constant_bytes_);
    vk.vkCmdDispatch(commands, step.groups_x, step.groups_y, 1);
    timestamps.after(i);
    last = &step;
  }
  timestamps.finish();
  return RecordStatus::kRecorded;
}

// Without bindings, parameters lie in the workspace. An earlier execution that uses the workspace is over:
// the caller's barrier to first_stages, or wait_for_earlier(), comes before the transfer too.
void Program::update_parameters(VkCommandBuffer commands, const ProgramCall& call) const {
  constexpr std::size_t kMostAtOnce = 65536;  // that vkCmdUpdateBuffer takes
  for (const ProgramSet& set : desc_.sets) {
    if (set.parameters.empty()) continue;
    const ProgramLayout& layout = desc_.layouts[set.layout];
    std::array<std::byte, kMostParameterBytes> filled;
    std::span<const std::byte> parameters = set.parameters;
    // Other parameters are constant, and may be many.
    if (!layout.parameter_offsets.empty() || !layout.call_words.empty()) {
      fill_parameters(set, resolve(set, call, {}), call, filled.data());
      parameters = std::span(filled).first(set.parameters.size());
    }
    VkDeviceSize byte = call.workspace.offset + set.parameters_byte;
    while (!parameters.empty()) {
      const std::size_t bytes = std::min(parameters.size(), kMostAtOnce);
      device_->vk.vkCmdUpdateBuffer(commands, call.workspace.buffer, byte, bytes, parameters.data());
      parameters = parameters.subspan(bytes);
      byte += bytes;
    }
  }
  barrier(commands, {VK_ACCESS_TRANSFER_WRITE_BIT, VK_ACCESS_SHADER_READ_BIT}, kTransfer, kCompute);
}

Result<void> Program::record(VkCommandBuffer commands, const ProgramCall& call,
                             const RecordOptions& options) const {
  if (!options_.push_descriptors) {
    return invalid("recording without bindings needs a plan made with push_descriptors");
  }
  if (!is_compiled()) {
    return invalid("the plan is not compiled yet: call compile() on any thread and wait for it");
  }
  if (Result<void> s = check(call); !s) return s;
  const StepRange all = steps_of(call);
  const StepRange range = slice_of(all, options);
  const DeviceFunctions& vk = device_->vk;
  Timestamps timestamps(vk, commands, options, desc_.steps.size(), /*is_continued=*/false);
  if (range.is_empty()) {
    timestamps.finish();
    return {};
  }
  if (options.wait_for_earlier) wait_for_earlier(commands);
  if (range.begin == all.begin && updates_parameters()) update_parameters(commands, call);
  CommandLabels labels(vk, commands);
  BoundSet bound;
  std::array<std::byte, kMostPushConstantBytes> push_constants;
  const ProgramStep* last = nullptr;
  for (std::size_t i = range.begin; i < range.end; ++i) {
    if (range.skips(i)) continue;
    const ProgramStep& step = desc_.steps[i];
    const ProgramSet& set = desc_.sets[step.set];
    const VkPipelineLayout layout = objects_of(set).layout->handle();
    timestamps.before(i);
    begin_pass(commands, labels, step, last, all);
    if (last == nullptr || last->set != step.set) {
      const Slots& slots = layouts_[set.layout].slots;
      bound = resolve(
          set, call,
          {call.workspace.buffer, call.workspace.offset + set.parameters_byte, set.parameters.size()});
      const SlotBuffers buffers = in_slots(bound, slots);
      std::array<VkWriteDescriptorSet, kMostBindings> writes;
      fill_buffer_writes(buffers, VK_NULL_HANDLE, std::span(writes).first(slots.count()));
      vk.vkCmdPushDescriptorSetKHR(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, slots.count(),
                                   writes.data());
    }
    fill_push_constants(step, bound, push_constants.data());
    push(vk, commands, layout, desc_.layouts[set.layout].push_constant_bytes, push_constants.data());
    vk.vkCmdDispatch(commands, step.groups_x, step.groups_y, 1);
    timestamps.after(i);
    last = &step;
  }
  timestamps.finish();
  return {};
}

void Program::record_dispatch(VkCommandBuffer commands, const BindingsState& bindings,
                              std::span<const std::byte> push_constants,
                              std::uint32_t groups) const noexcept {
  assert(desc_.steps.size() == 1 && push_constants.size() == push_constant_bytes_);
  const DeviceFunctions& vk = device_->vk;
  barrier(commands,
          {VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
           VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT},
          kCompute | kTransfer, kCompute);
  CommandLabels labels(vk, commands);
  const VkPipelineLayout layout = objects_of(desc_.sets.front()).layout->handle();
  begin_pass(commands, labels, desc_.steps.front(), nullptr, bindings.steps);
  vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, bindings.sets.data(), 0,
                             nullptr);
  std::array<std::byte, kMostPushConstantBytes> pushed{};
  std::memcpy(pushed.data(), push_constants.data(), push_constants.size());
  for (const AddressWord& word : desc_.layouts.front().push_addresses) {
    std::memcpy(pushed.data() + word.byte, bindings.push_constants.data() + word.byte, sizeof(std::uint64_t));
  }
  push(vk, commands, layout, push_constant_bytes_, pushed.data());
  vk.vkCmdDispatch(commands, groups, 1, 1);
}

}  // namespace vkattn::detail
