// From tensors to descriptor sets and push constants, and recording.
#include <algorithm>
#include <cassert>

#include "cache/append_state.hpp"
#include "common/message.hpp"
#include "plan/window.hpp"
#include "vulkan/descriptors.hpp"

namespace vkattn {

namespace detail {

AppendBindingsState::~AppendBindingsState() {
  if (device) device->vk.vkDestroyDescriptorPool(device->device, pool, nullptr);
}

namespace {

using Writes = std::array<VkWriteDescriptorSet, VKATTN_APPEND_BINDING_COUNT>;

Status check_tensor(const AppendTensor& tensor, const AppendTensors& tensors) {
  if (tensor.bytes == 0) return {};
  const auto fail = [&](auto&&... parts) {
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS, message("the ", tensor.name, " tensor ", parts...)};
  };
  const BufferRange& range = tensors.*tensor.range;
  if (range.buffer == VK_NULL_HANDLE) return fail("has elements but its buffer is null");
  if (range.offset % tensor.alignment_bytes != 0) {
    return fail("begins at byte ", range.offset, ", which is no multiple of its alignment of ",
                tensor.alignment_bytes, " bytes");
  }
  if (range.size < tensor.bytes) {
    return fail("needs ", tensor.bytes, " bytes but its range has ", range.size);
  }
  if (range.size >= VK_WHOLE_SIZE - range.offset) {
    return fail("has a range of ", range.size, " bytes from byte ", range.offset,
                " on, which no buffer has: give its size, not VK_WHOLE_SIZE");
  }
  const std::uint64_t over = (range.offset + tensor.bytes) % 4;
  if (tensor.whole_words && over != 0 && range.size < tensor.bytes + 4 - over) {
    return fail("ends inside a 32-bit word, which is written as a whole: give a range of ",
                tensor.bytes + 4 - over, " bytes");
  }
  return {};
}

Status check_tensors(const AppendState& plan, const AppendTensors& tensors) {
  for (const AppendTask& task : plan.tasks) {
    for (const AppendTensor& tensor : task.tensors) {
      if (Status status = check_tensor(tensor, tensors); !status) return status;
    }
  }
  return {};
}

BoundTask bind_task(const AppendState& plan, const AppendTask& task, const AppendTensors& tensors) noexcept {
  const Capabilities& capabilities = plan.device->capabilities;
  const std::uint64_t alignment = binding_alignment(capabilities);
  BoundTask result;
  for (std::size_t i = 0; i < task.tensors.size(); ++i) {
    const AppendTensor& tensor = task.tensors[i];
    if (tensor.bytes == 0) continue;
    const BufferRange& range = tensors.*tensor.range;
    const std::uint64_t start = range.offset / alignment * alignment;
    std::uint64_t end = range.offset + tensor.bytes;
    if (tensor.whole_words) end = (end + 3) / 4 * 4;
    // What is written is bound with all that the caller gave, so that a driver which checks bounds hides no
    // stray write.
    if (i == VKATTN_APPEND_BINDING_TARGET) {
      end = std::max(end, std::min(range.offset + range.size, start + capabilities.max_storage_buffer_range));
    }
    result.buffers[i] = {range.buffer, start, end - start};
    result.offsets[i] = static_cast<std::uint32_t>((range.offset - start) / tensor.element_bytes);
  }
  // Every descriptor must be valid even where the shader touches nothing through it: the first input stands
  // in for those that are missing, and where there is none what is written.
  const VkDescriptorBufferInfo* stand_in = &result.buffers[VKATTN_APPEND_BINDING_TARGET];
  for (std::size_t i = result.buffers.size(); i-- > 0;) {
    const bool is_input = i != VKATTN_APPEND_BINDING_TARGET && result.buffers[i].buffer != VK_NULL_HANDLE;
    if (is_input) stand_in = &result.buffers[i];
  }
  for (VkDescriptorBufferInfo& buffer : result.buffers) {
    if (buffer.buffer == VK_NULL_HANDLE) buffer = *stand_in;
  }
  return result;
}

AppendParams step_params(const AppendTask& task, const AppendStep& step, const BoundTask& bound) noexcept {
  AppendParams params = task.params;
  params.source_offset = bound.offsets[VKATTN_APPEND_BINDING_SOURCE];
  params.target_offset = bound.offsets[VKATTN_APPEND_BINDING_TARGET];
  params.positions_offset = bound.offsets[VKATTN_APPEND_BINDING_POSITIONS];
  params.new_lengths_offset = bound.offsets[VKATTN_APPEND_BINDING_NEW_LENGTHS];
  params.page_table_offset = bound.offsets[VKATTN_APPEND_BINDING_PAGE_TABLE];
  params.scales_offset = bound.offsets[VKATTN_APPEND_BINDING_SCALES];
  params.frequencies_offset = bound.offsets[VKATTN_APPEND_BINDING_FREQUENCIES];
  params.first_unit = step.first_unit;
  params.unit_count = step.unit_count;
  return params;
}

void write_bindings(const AppendState& plan, const AppendTensors& tensors, AppendBindingsState& state) {
  std::vector<BoundTask> bound;
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    bound.push_back(bind_task(plan, plan.tasks[i], tensors));
    Writes writes;
    fill_buffer_writes(bound[i].buffers, state.sets[i], writes);
    plan.device->vk.vkUpdateDescriptorSets(plan.device->device, VKATTN_APPEND_BINDING_COUNT, writes.data(), 0,
                                           nullptr);
  }
  state.params.resize(plan.steps.size());
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const AppendStep& step = plan.steps[i];
    state.params[i] = step_params(plan.tasks[step.task], step, bound[step.task]);
  }
}

// That a step is the first of its task.
bool begins_task(const AppendState& plan, std::size_t step) noexcept {
  return step == 0 || plan.steps[step - 1].task != plan.steps[step].task;
}

void begin_task(const AppendState& plan, VkCommandBuffer commands, const AppendTask& task) noexcept {
  const DeviceFunctions& vk = plan.device->vk;
  vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, plan.pipelines[task.pipeline].handle());
  if (!task.waits) return;
  // Lengths may be written over the positions that the tasks before have read: they must be done.
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_SHADER_READ_BIT;
  barrier.dstAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
  vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                          VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

void dispatch(const AppendState& plan, VkCommandBuffer commands, const AppendStep& step,
              const AppendParams& params) noexcept {
  const DeviceFunctions& vk = plan.device->vk;
  const Pipeline& pipeline = plan.pipelines[plan.tasks[step.task].pipeline];
  vk.vkCmdPushConstants(commands, pipeline.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(params), &params);
  vk.vkCmdDispatch(commands, step.groups_x, step.groups_y, 1);
}

}  // namespace

}  // namespace detail

AppendBindings::AppendBindings(std::unique_ptr<detail::AppendBindingsState> state)
    : state_(std::move(state)) {}
AppendBindings::AppendBindings(AppendBindings&&) noexcept = default;
AppendBindings& AppendBindings::operator=(AppendBindings&&) noexcept = default;
AppendBindings::~AppendBindings() = default;

Result<AppendBindings> AppendPlan::make_bindings(const AppendTensors& tensors) const {
  return detail::without_exceptions([&]() -> Result<AppendBindings> {
    if (state_->options.push_descriptors) {
      return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                   "this plan was made with push_descriptors: record it with tensors in place of bindings"};
    }
    if (Status status = detail::check_tensors(*state_, tensors); !status) return status.error();
    auto bindings = std::make_unique<detail::AppendBindingsState>();
    if (!state_->steps.empty()) {
      bindings->device = state_->device;
      bindings->plan = state_;
      const Status status =
          detail::allocate_buffer_sets(*state_->device, state_->pipelines.front().set_layout(),
                                       static_cast<std::uint32_t>(state_->tasks.size()),
                                       VKATTN_APPEND_BINDING_COUNT, bindings->pool, bindings->sets);
      if (!status) return status.error();
      detail::write_bindings(*state_, tensors, *bindings);
    }
    return AppendBindings(std::move(bindings));
  });
}

Status AppendPlan::rewrite(AppendBindings& bindings, const AppendTensors& tensors) const {
  return detail::without_exceptions([&]() -> Status {
    if (!state_->steps.empty() && bindings.state_->plan.lock() != state_) {
      return Error{ErrorCode::kInvalidArgument, VK_SUCCESS, "these bindings were made by another plan"};
    }
    if (Status status = detail::check_tensors(*state_, tensors); !status) return status;
    if (!state_->steps.empty()) detail::write_bindings(*state_, tensors, *bindings.state_);
    return {};
  });
}

void AppendPlan::record(VkCommandBuffer commands, const AppendBindings& bindings) const noexcept {
  const detail::AppendState& plan = *state_;
  const detail::AppendBindingsState& bound = *bindings.state_;
  assert(bound.params.size() == plan.steps.size() && "bindings of another plan");
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const detail::AppendStep& step = plan.steps[i];
    const detail::AppendTask& task = plan.tasks[step.task];
    if (detail::begins_task(plan, i)) {
      detail::begin_task(plan, commands, task);
      plan.device->vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                                              plan.pipelines[task.pipeline].layout(), 0, 1,
                                              &bound.sets[step.task], 0, nullptr);
    }
    detail::dispatch(plan, commands, step, bound.params[i]);
  }
}

Status AppendPlan::record(VkCommandBuffer commands, const AppendTensors& tensors) const {
  return detail::without_exceptions([&]() -> Status {
    const detail::AppendState& plan = *state_;
    if (!plan.options.push_descriptors) {
      return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                   "recording without bindings needs a plan made with AppendOptions::push_descriptors"};
    }
    if (Status status = detail::check_tensors(plan, tensors); !status) return status;
    detail::BoundTask bound;
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      const detail::AppendStep& step = plan.steps[i];
      const detail::AppendTask& task = plan.tasks[step.task];
      if (detail::begins_task(plan, i)) {
        detail::begin_task(plan, commands, task);
        bound = detail::bind_task(plan, task, tensors);
        detail::Writes writes;
        detail::fill_buffer_writes(bound.buffers, VK_NULL_HANDLE, writes);
        plan.device->vk.vkCmdPushDescriptorSetKHR(commands, VK_PIPELINE_BIND_POINT_COMPUTE,
                                                  plan.pipelines[task.pipeline].layout(), 0,
                                                  VKATTN_APPEND_BINDING_COUNT, writes.data());
      }
      detail::dispatch(plan, commands, step, detail::step_params(task, step, bound));
    }
    return {};
  });
}

}  // namespace vkattn
