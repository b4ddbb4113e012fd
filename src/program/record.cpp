// Recording: pipelines, sets, push constants, dispatches, and barriers between passes.
#include <array>
#include <cassert>

#include "common/message.hpp"
#include "program/bound_set.hpp"
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

void Program::begin_pass(VkCommandBuffer commands, std::size_t step, std::size_t first) const noexcept {
  const std::uint32_t pass = desc_.steps[step].pass;
  if (step != first && desc_.steps[step - 1].pass == pass) return;
  device_->vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                                pipelines_[pipeline_of_pass_[pass]].handle());
  if (step != first && desc_.passes[pass].barrier) {
    barrier(commands, *desc_.passes[pass].barrier, kCompute, kCompute);
  }
}

void Program::record(VkCommandBuffer commands, const BindingsState& bindings) const noexcept {
  const DeviceFunctions& vk = device_->vk;
  const std::size_t first = bindings.first_step;
  for (std::size_t i = first; i < desc_.steps.size(); ++i) {
    const ProgramStep& step = desc_.steps[i];
    begin_pass(commands, i, first);
    if (i == first || desc_.steps[i - 1].set != step.set) {
      vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout_.handle(), 0, 1,
                                 &bindings.sets[step.set], 0, nullptr);
    }
    vk.vkCmdPushConstants(commands, layout_.handle(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                          desc_.push_constant_bytes,
                          bindings.push_constants.data() + i * desc_.push_constant_bytes);
    vk.vkCmdDispatch(commands, step.groups_x, step.groups_y, 1);
  }
}

// Parameters of programs without bindings of their own lie in the workspace. What is written is small:
// vkCmdUpdateBuffer takes 65536 bytes.
void Program::update_parameters(VkCommandBuffer commands, const ProgramCall& call) const {
  const DeviceFunctions& vk = device_->vk;
  bool begun = false;
  for (const ProgramSet& set : desc_.sets) {
    if (set.parameters.empty()) continue;
    // An earlier execution may still read or write the workspace.
    if (!begun) {
      barrier(commands,
              {VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT, VK_ACCESS_TRANSFER_WRITE_BIT},
              kCompute | kTransfer, kTransfer);
    }
    begun = true;
    std::array<std::byte, kMostParameterBytes> parameters;
    fill_parameters(set, resolve(set, call, {}), call, parameters.data());
    vk.vkCmdUpdateBuffer(commands, call.workspace.buffer, call.workspace.offset + set.parameters_byte,
                         set.parameters.size(), parameters.data());
  }
  if (begun) {
    barrier(commands, {VK_ACCESS_TRANSFER_WRITE_BIT, VK_ACCESS_SHADER_READ_BIT}, kTransfer, kCompute);
  }
}

Result<void> Program::record(VkCommandBuffer commands, const ProgramCall& call) const {
  if (!push_descriptors_) {
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                 "recording without bindings needs a plan made with push_descriptors"};
  }
  if (Result<void> s = check(call); !s) return s;
  if (desc_.steps.empty()) return {};
  const DeviceFunctions& vk = device_->vk;
  update_parameters(commands, call);
  BoundSet bound;
  std::array<std::byte, kMostPushConstantBytes> push_constants;
  const std::size_t first = first_step(call);
  for (std::size_t i = first; i < desc_.steps.size(); ++i) {
    const ProgramStep& step = desc_.steps[i];
    begin_pass(commands, i, first);
    if (i == first || desc_.steps[i - 1].set != step.set) {
      const ProgramSet& set = desc_.sets[step.set];
      bound = resolve(
          set, call,
          {call.workspace.buffer, call.workspace.offset + set.parameters_byte, set.parameters.size()});
      std::array<VkWriteDescriptorSet, kMostBindings> writes;
      fill_buffer_writes(bound.buffers, VK_NULL_HANDLE, std::span(writes).first(desc_.binding_count));
      vk.vkCmdPushDescriptorSetKHR(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout_.handle(), 0,
                                   desc_.binding_count, writes.data());
    }
    fill_push_constants(step, bound, push_constants.data());
    vk.vkCmdPushConstants(commands, layout_.handle(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
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
  begin_pass(commands, 0, 0);
  vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout_.handle(), 0, 1,
                             bindings.sets.data(), 0, nullptr);
  vk.vkCmdPushConstants(commands, layout_.handle(), VK_SHADER_STAGE_COMPUTE_BIT, 0, desc_.push_constant_bytes,
                        push_constants.data());
  vk.vkCmdDispatch(commands, groups, 1, 1);
}

}  // namespace vkattn::detail
