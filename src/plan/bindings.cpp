// From tensors to descriptor sets and push constants, and recording.
#include <algorithm>
#include <cassert>
#include <string_view>

#include "common/message.hpp"
#include "plan/plan_state.hpp"

namespace vkattn {

namespace detail {

namespace {

struct BoundTensor {
  std::string_view name;
  const BufferRange* range = nullptr;
  std::uint32_t element_bytes = 4;
  std::uint32_t alignment_bytes = 4;
};

std::array<BoundTensor, VKATTN_BINDING_COUNT> bound_tensors(const AttentionDesc& desc,
                                                            const AttentionTensors& tensors) noexcept {
  const auto tensor = [](std::string_view name, const BufferRange& range, const TensorDesc& t) {
    const std::uint32_t element = element_bytes(t.type);
    return BoundTensor{name, &range, element, std::max(element, t.alignment_bytes)};
  };
  return {tensor("query", tensors.query, desc.query), tensor("key", tensors.key, desc.key),
          tensor("value", tensors.value, desc.value), tensor("output", tensors.output, desc.output),
          BoundTensor{"lse", &tensors.lse, 4, 4},     BoundTensor{"kv_lengths", &tensors.kv_lengths, 4, 4},
          BoundTensor{"workspace", nullptr, 4, 4}};  // bound by itself
}

Status check_tensor(const PlanState& plan, const BoundTensor& tensor, std::uint64_t bytes) {
  const auto fail = [&](auto&&... parts) {
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS, message("the ", tensor.name, " tensor ", parts...)};
  };
  if (bytes == 0) return {};
  const BufferRange& range = *tensor.range;
  if (range.buffer == VK_NULL_HANDLE) return fail("has elements but its buffer is null");
  if (range.offset % tensor.alignment_bytes != 0) {
    return fail("begins at byte ", range.offset, ", which is no multiple of its alignment of ",
                tensor.alignment_bytes, " bytes");
  }
  if (range.size < bytes) return fail("needs ", bytes, " bytes but its range has ", range.size);
  const std::uint64_t end = range.offset + bytes;
  if (plan.whole_words && tensor.element_bytes == 2 && end % 4 != 0 && range.size < bytes + 2) {
    return fail("ends inside a 32-bit word and this device has no 16-bit storage: give a range of ",
                bytes + 2, " bytes");
  }
  return {};
}

Status check_workspace(const PlanState& plan, const BufferRange& workspace) {
  const auto fail = [](auto&&... parts) {
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS, message("the workspace ", parts...)};
  };
  if (plan.workspace_bytes == 0) return {};
  if (workspace.buffer == VK_NULL_HANDLE)
    return fail("needs ", plan.workspace_bytes, " bytes but its buffer is null");
  if (workspace.size < plan.workspace_bytes) {
    return fail("needs ", plan.workspace_bytes, " bytes but its range has ", workspace.size);
  }
  const std::uint64_t alignment = plan.device->capabilities.min_storage_offset_alignment;
  if (workspace.offset % alignment != 0) {
    return fail("begins at byte ", workspace.offset, "; minStorageBufferOffsetAlignment is ", alignment);
  }
  return {};
}

}  // namespace

BindingsState::~BindingsState() {
  if (device) device->vk.vkDestroyDescriptorPool(device->device, pool, nullptr);
}

Status check_tensors(const PlanState& plan, const AttentionTensors& tensors, const BufferRange& workspace) {
  const auto bound = bound_tensors(plan.desc, tensors);
  for (std::size_t i = 0; i < bound.size(); ++i) {
    if (Status status = check_tensor(plan, bound[i], static_cast<std::uint64_t>(plan.whole[i].bytes));
        !status)
      return status;
  }
  return check_workspace(plan, workspace);
}

BoundWindow bind_window(const PlanState& plan, const AttentionTensors& tensors, const BufferRange& workspace,
                        std::size_t window) noexcept {
  const auto bound = bound_tensors(plan.desc, tensors);
  const std::uint64_t alignment = binding_alignment(plan.device->capabilities);
  BoundWindow result;
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const TensorWindow& part = plan.parts[window][i];
    if (part.bytes == 0) continue;
    const std::uint64_t first =
        bound[i].range->offset + static_cast<std::uint64_t>(part.first_element) * bound[i].element_bytes;
    const std::uint64_t start = first / alignment * alignment;
    std::uint64_t end = first + static_cast<std::uint64_t>(part.bytes);
    if (plan.whole_words) end = (end + 3) / 4 * 4;
    // What is written is bound with all that the caller gave, so that a driver which checks bounds hides no
    // stray write.
    const bool output = i == VKATTN_BINDING_OUTPUT || i == VKATTN_BINDING_LSE;
    if (output && part.bytes == plan.whole[i].bytes) {
      const std::uint64_t given = bound[i].range->offset + bound[i].range->size;
      end = std::max(end, std::min(given, start + plan.device->capabilities.max_storage_buffer_range));
    }
    result.buffers[i] = {bound[i].range->buffer, start, end - start};
    result.offsets[i] = static_cast<std::uint32_t>((first - start) / bound[i].element_bytes);
  }
  if (plan.workspace_bytes != 0) {
    const WorkspaceArea& area = plan.window_areas[window];
    result.buffers[VKATTN_BINDING_PARTIALS] = {workspace.buffer, workspace.offset + area.offset, area.bytes};
  }
  // Every descriptor must be valid even where the kernel touches nothing through it. The query stands in for
  // inputs and the output for what is written, so that no buffer is both read and written in the eyes of
  // synchronization validation.
  for (std::size_t i = 0; i < result.buffers.size(); ++i) {
    if (result.buffers[i].buffer != VK_NULL_HANDLE) continue;
    const bool written = i == VKATTN_BINDING_LSE || i == VKATTN_BINDING_PARTIALS;
    result.buffers[i] = result.buffers[written ? VKATTN_BINDING_OUTPUT : VKATTN_BINDING_QUERY];
  }
  return result;
}

AttentionParams step_params(const PlanState& plan, const Step& step, const BoundWindow& bound) noexcept {
  AttentionParams params = plan.params[step.window];
  params.query_offset = bound.offsets[VKATTN_BINDING_QUERY];
  // Modulo 2^32: the kernels count keys from the first of the problem.
  const auto first_key = static_cast<std::uint32_t>(plan.windows[step.window].first_key);
  params.key_offset = bound.offsets[VKATTN_BINDING_KEY] - first_key * params.key_row_stride;
  params.value_offset = bound.offsets[VKATTN_BINDING_VALUE] - first_key * params.value_row_stride;
  params.output_offset = bound.offsets[VKATTN_BINDING_OUTPUT];
  params.lse_offset = bound.offsets[VKATTN_BINDING_LSE];
  params.kv_lengths_offset = bound.offsets[VKATTN_BINDING_KV_LENGTHS];
  params.first_tile = step.first_tile;
  params.tile_count = step.tile_count;
  return params;
}

void write_descriptors(const BoundWindow& bound, VkDescriptorSet set,
                       std::array<VkWriteDescriptorSet, VKATTN_BINDING_COUNT>& writes) noexcept {
  for (std::uint32_t i = 0; i < VKATTN_BINDING_COUNT; ++i) {
    writes[i] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    writes[i].dstSet = set;
    writes[i].dstBinding = i;
    writes[i].descriptorCount = 1;
    writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    writes[i].pBufferInfo = &bound.buffers[i];
  }
}

namespace {

Status allocate_sets(const PlanState& plan, BindingsState& state) {
  const auto count = static_cast<std::uint32_t>(plan.windows.size());
  const DeviceFunctions& vk = plan.device->vk;
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, count * VKATTN_BINDING_COUNT};
  VkDescriptorPoolCreateInfo pool_info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  pool_info.maxSets = count;
  pool_info.poolSizeCount = 1;
  pool_info.pPoolSizes = &size;
  if (VkResult result = vk.vkCreateDescriptorPool(plan.device->device, &pool_info, nullptr, &state.pool);
      result != VK_SUCCESS) {
    return vulkan_error(result, "vkCreateDescriptorPool");
  }
  const std::vector<VkDescriptorSetLayout> layouts(count, plan.passes.front().pipeline.set_layout());
  VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  info.descriptorPool = state.pool;
  info.descriptorSetCount = count;
  info.pSetLayouts = layouts.data();
  state.sets.resize(count);
  if (VkResult result = vk.vkAllocateDescriptorSets(plan.device->device, &info, state.sets.data());
      result != VK_SUCCESS) {
    return vulkan_error(result, "vkAllocateDescriptorSets");
  }
  return {};
}

void write_bindings(const PlanState& plan, const AttentionTensors& tensors, const BufferRange& workspace,
                    BindingsState& state) {
  state.params.resize(plan.steps.size());
  std::vector<BoundWindow> bound;
  for (std::size_t i = 0; i < plan.windows.size(); ++i) {
    bound.push_back(bind_window(plan, tensors, workspace, i));
    std::array<VkWriteDescriptorSet, VKATTN_BINDING_COUNT> writes;
    write_descriptors(bound[i], state.sets[i], writes);
    plan.device->vk.vkUpdateDescriptorSets(plan.device->device, VKATTN_BINDING_COUNT, writes.data(), 0,
                                           nullptr);
  }
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    state.params[i] = step_params(plan, plan.steps[i], bound[plan.steps[i].window]);
  }
}

// Binds the step's pipeline where its pass begins. A pass reads what the one before wrote to the workspace.
void begin_pass(const PlanState& plan, VkCommandBuffer commands, std::size_t step) noexcept {
  const DeviceFunctions& vk = plan.device->vk;
  const std::uint32_t pass = plan.steps[step].pass;
  if (step != 0 && plan.steps[step - 1].pass == pass) return;
  vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, plan.passes[pass].pipeline.handle());
  if (step == 0) return;
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;  // a pass may work in place
  vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                          VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

void dispatch(const PlanState& plan, VkCommandBuffer commands, const Step& step,
              const AttentionParams& params) noexcept {
  const DeviceFunctions& vk = plan.device->vk;
  vk.vkCmdPushConstants(commands, plan.passes.front().pipeline.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                        sizeof(params), &params);
  vk.vkCmdDispatch(commands, step.groups_x, step.groups_y, 1);
}

}  // namespace

}  // namespace detail

Bindings::Bindings(std::unique_ptr<detail::BindingsState> state) : state_(std::move(state)) {}
Bindings::Bindings(Bindings&&) noexcept = default;
Bindings& Bindings::operator=(Bindings&&) noexcept = default;
Bindings::~Bindings() = default;

Result<Bindings> AttentionPlan::make_bindings(const AttentionTensors& tensors,
                                              const BufferRange& workspace) const {
  return detail::without_exceptions([&]() -> Result<Bindings> {
    if (state_->options.push_descriptors) {
      return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                   "this plan was made with push_descriptors: record it with tensors in place of bindings"};
    }
    if (Status status = detail::check_tensors(*state_, tensors, workspace); !status) return status.error();
    auto bindings = std::make_unique<detail::BindingsState>();
    if (!state_->steps.empty()) {
      bindings->device = state_->device;
      if (Status status = detail::allocate_sets(*state_, *bindings); !status) return status.error();
      detail::write_bindings(*state_, tensors, workspace, *bindings);
    }
    return Bindings(std::move(bindings));
  });
}

Status AttentionPlan::rewrite(Bindings& bindings, const AttentionTensors& tensors,
                              const BufferRange& workspace) const {
  return detail::without_exceptions([&]() -> Status {
    if (bindings.state_->sets.size() != state_->windows.size()) {
      return Error{ErrorCode::kInvalidArgument, VK_SUCCESS, "these bindings were made by another plan"};
    }
    if (Status status = detail::check_tensors(*state_, tensors, workspace); !status) return status;
    if (!state_->steps.empty()) detail::write_bindings(*state_, tensors, workspace, *bindings.state_);
    return {};
  });
}

void AttentionPlan::record(VkCommandBuffer commands, const Bindings& bindings) const noexcept {
  const detail::PlanState& plan = *state_;
  const detail::BindingsState& bound = bindings.state();
  if (plan.steps.empty()) return;
  assert(bound.params.size() == plan.steps.size() && "bindings of another plan");
  const detail::DeviceFunctions& vk = plan.device->vk;
  VkPipelineLayout const layout = plan.passes.front().pipeline.layout();
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const detail::Step& step = plan.steps[i];
    detail::begin_pass(plan, commands, i);
    if (i == 0 || plan.steps[i - 1].window != step.window) {
      vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1,
                                 &bound.sets[step.window], 0, nullptr);
    }
    detail::dispatch(plan, commands, step, bound.params[i]);
  }
}

Status AttentionPlan::record(VkCommandBuffer commands, const AttentionTensors& tensors,
                             const BufferRange& workspace) const {
  return detail::without_exceptions([&]() -> Status {
    const detail::PlanState& plan = *state_;
    if (!plan.options.push_descriptors) {
      return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                   "recording without bindings needs a plan made with PlanOptions::push_descriptors"};
    }
    if (Status status = detail::check_tensors(plan, tensors, workspace); !status) return status;
    if (plan.steps.empty()) return {};
    const detail::DeviceFunctions& vk = plan.device->vk;
    VkPipelineLayout const layout = plan.passes.front().pipeline.layout();
    detail::BoundWindow bound;
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      const detail::Step& step = plan.steps[i];
      detail::begin_pass(plan, commands, i);
      if (i == 0 || plan.steps[i - 1].window != step.window) {
        bound = detail::bind_window(plan, tensors, workspace, step.window);
        std::array<VkWriteDescriptorSet, VKATTN_BINDING_COUNT> writes;
        detail::write_descriptors(bound, VK_NULL_HANDLE, writes);
        vk.vkCmdPushDescriptorSetKHR(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0,
                                     VKATTN_BINDING_COUNT, writes.data());
      }
      detail::dispatch(plan, commands, step, detail::step_params(plan, step, bound));
    }
    return {};
  });
}

}  // namespace vkattn
