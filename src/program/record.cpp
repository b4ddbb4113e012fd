// Recording: pipelines, sets, push constants, dispatches, and barriers between passes.
#include <algorithm>
#include <array>
#include <cassert>

#include "common/message.hpp"
#include "program/bound_set.hpp"
#include "vulkan/debug.hpp"
#include "vulkan/descriptors.hpp"

namespace vkattn::detail {

namespace {

constexpr VkPipelineStageFlags kCompute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
constexpr VkPipelineStageFlags kTransfer = VK_PIPELINE_STAGE_TRANSFER_BIT;

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

Program::StepRange Program::steps_of(std::size_t first_step, const RecordOptions& options) const noexcept {
  const std::size_t all = desc_.steps.size();
  const std::size_t begin = std::min<std::size_t>(options.first_dispatch, all);
  const std::size_t end = begin + std::min<std::size_t>(options.dispatch_count, all - begin);
  return {std::clamp(first_step, begin, end), end};
}

void Program::begin_pass(VkCommandBuffer commands, CommandLabels& labels, std::size_t step, std::size_t begin,
                         std::size_t first_step) const noexcept {
  const std::uint32_t pass = desc_.steps[step].pass;
  if (step != begin && desc_.steps[step - 1].pass == pass) return;
  labels.begin(labels_[pass]);
  device_->vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                                pipelines_[pipeline_of_pass_[pass]]->handle());
  // A slice may begin where an earlier one has left off, in the midst of the execution's first pass or later.
  if (pass != desc_.steps[first_step].pass && desc_.passes[pass].barrier) {
    barrier(commands, *desc_.passes[pass].barrier, kCompute, kCompute);
  }
}

void Program::record(VkCommandBuffer commands, const BindingsState& bindings,
                     const RecordOptions& options) const noexcept {
  if (bindings.program.get() != this) {
    write_text(device_->log, LogLevel::kWarning,
               "bindings of another plan record nothing: make them by the plan that records them");
    return;
  }
  if (!is_compiled()) {
    warn_not_compiled(device_->log);
    return;
  }
  const DeviceFunctions& vk = device_->vk;
  const StepRange range = steps_of(bindings.first_step, options);
  if (range.begin == range.end) return;
  CommandLabels labels(vk, commands);
  if (options.wait_for_earlier) wait_for_earlier(commands);
  for (std::size_t i = range.begin; i < range.end; ++i) {
    const ProgramStep& step = desc_.steps[i];
    begin_pass(commands, labels, i, range.begin, bindings.first_step);
    if (i == range.begin || desc_.steps[i - 1].set != step.set) {
      vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout_->handle(), 0, 1,
                                 &bindings.sets.sets[step.set], 0, nullptr);
    }
    vk.vkCmdPushConstants(commands, layout_->handle(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                          desc_.push_constant_bytes,
                          bindings.push_constants.data() + i * desc_.push_constant_bytes);
    vk.vkCmdDispatch(commands, step.groups_x, step.groups_y, 1);
  }
}

// Parameters of programs without bindings of their own lie in the workspace. What is written is small:
// vkCmdUpdateBuffer takes 65536 bytes. An earlier execution that uses the workspace is over: the caller's
// barrier to first_stages, or wait_for_earlier(), comes before the transfer too.
void Program::update_parameters(VkCommandBuffer commands, const ProgramCall& call) const {
  const DeviceFunctions& vk = device_->vk;
  for (const ProgramSet& set : desc_.sets) {
    if (set.parameters.empty()) continue;
    std::array<std::byte, kMostParameterBytes> parameters;
    fill_parameters(set, resolve(set, call, {}), call, parameters.data());
    vk.vkCmdUpdateBuffer(commands, call.workspace.buffer, call.workspace.offset + set.parameters_byte,
                         set.parameters.size(), parameters.data());
  }
  barrier(commands, {VK_ACCESS_TRANSFER_WRITE_BIT, VK_ACCESS_SHADER_READ_BIT}, kTransfer, kCompute);
}

Result<void> Program::record(VkCommandBuffer commands, const ProgramCall& call,
                             const RecordOptions& options) const {
  if (!options_.push_descriptors) {
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                 "recording without bindings needs a plan made with push_descriptors"};
  }
  if (!is_compiled()) {
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                 "the plan is not compiled yet: call compile() on any thread and wait for it"};
  }
  if (Result<void> s = check(call); !s) return s;
  const std::size_t first = first_step(call);
  const StepRange range = steps_of(first, options);
  if (range.begin == range.end) return {};
  const DeviceFunctions& vk = device_->vk;
  if (options.wait_for_earlier) wait_for_earlier(commands);
  if (range.begin == first && updates_parameters()) update_parameters(commands, call);
  CommandLabels labels(vk, commands);
  BoundSet bound;
  std::array<std::byte, kMostPushConstantBytes> push_constants;
  for (std::size_t i = range.begin; i < range.end; ++i) {
    const ProgramStep& step = desc_.steps[i];
    begin_pass(commands, labels, i, range.begin, first);
    if (i == range.begin || desc_.steps[i - 1].set != step.set) {
      const ProgramSet& set = desc_.sets[step.set];
      bound = resolve(
          set, call,
          {call.workspace.buffer, call.workspace.offset + set.parameters_byte, set.parameters.size()});
      const SlotBuffers buffers = in_slots(bound);
      std::array<VkWriteDescriptorSet, kMostBindings> writes;
      fill_buffer_writes(buffers, VK_NULL_HANDLE, std::span(writes).first(slots_.count()));
      vk.vkCmdPushDescriptorSetKHR(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout_->handle(), 0,
                                   slots_.count(), writes.data());
    }
    fill_push_constants(step, bound, push_constants.data());
    vk.vkCmdPushConstants(commands, layout_->handle(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                          desc_.push_constant_bytes, push_constants.data());
    vk.vkCmdDispatch(commands, step.groups_x, step.groups_y, 1);
  }
  return {};
}

void Program::record_dispatch(VkCommandBuffer commands, const BindingsState& bindings,
                              std::span<const std::byte> push_constants,
                              std::uint32_t groups) const noexcept {
  assert(desc_.steps.size() == 1 && push_constants.size() == desc_.push_constant_bytes);
  const DeviceFunctions& vk = device_->vk;
  barrier(commands,
          {VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
           VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT},
          kCompute | kTransfer, kCompute);
  CommandLabels labels(vk, commands);
  begin_pass(commands, labels, 0, 0, 0);
  vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout_->handle(), 0, 1,
                             bindings.sets.sets.data(), 0, nullptr);
  vk.vkCmdPushConstants(commands, layout_->handle(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                        desc_.push_constant_bytes, push_constants.data());
  vk.vkCmdDispatch(commands, groups, 1, 1);
}

}  // namespace vkattn::detail
