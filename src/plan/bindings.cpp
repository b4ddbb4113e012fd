// From tensors to descriptor sets and push constants, and recording.
#include <algorithm>
#include <cassert>
#include <string_view>

#include "common/message.hpp"
#include "plan/features.hpp"
#include "plan/plan_state.hpp"
#include "vulkan/descriptors.hpp"

namespace vkattn {

namespace detail {

namespace {

struct BoundTensor {
  std::string_view name;
  const BufferRange* range = nullptr;
  std::uint32_t element_bytes = 4;
  std::uint32_t alignment_bytes = 4;
  bool reads_words = false;  ///< whole 32-bit words are read, whatever the element
};

using BoundTensors = std::array<BoundTensor, VKATTN_FEATURE_BINDING_COUNT>;

// By binding; without a range for what lies in the workspace and for what is not a tensor.
BoundTensors bound_tensors(const AttentionDesc& desc, const AttentionTensors& tensors) noexcept {
  const auto tensor = [](std::string_view name, const BufferRange& range, const TensorDesc& t) {
    // Quantised ones are addressed in bytes.
    const std::uint32_t element = element_bytes(t.type);
    return BoundTensor{name, &range, is_quantised(t.type) ? 1 : element, std::max(element, t.alignment_bytes),
                       t.type == DataType::kFloat8E4m3};
  };
  const auto words = [](std::string_view name, const BufferRange& range) {
    return BoundTensor{name, &range, 4, 4};
  };
  const std::uint32_t mask_element = desc.mask.type == MaskType::kBytes     ? 1
                                     : desc.mask.type == MaskType::kFloat16 ? 2
                                                                            : 4;
  BoundTensors all{};
  all[VKATTN_BINDING_QUERY] = tensor("query", tensors.query, desc.query);
  all[VKATTN_BINDING_KEY] = tensor("key", tensors.key, desc.key);
  all[VKATTN_BINDING_VALUE] = tensor("value", tensors.value, desc.value);
  all[VKATTN_BINDING_OUTPUT] = tensor("output", tensors.output, desc.output);
  all[VKATTN_BINDING_LSE] = words("lse", tensors.lse);
  all[VKATTN_BINDING_KV_LENGTHS] = desc.has_cumulative_lengths
                                       ? words("cumulative_kv_lengths", tensors.cumulative_kv_lengths)
                                       : words("kv_lengths", tensors.kv_lengths);
  all[VKATTN_BINDING_MASK] = {"mask", &tensors.mask, mask_element, mask_element, true};
  all[VKATTN_BINDING_QUERY_LENGTHS] =
      desc.has_packed_queries() ? words("cumulative_query_lengths", tensors.cumulative_query_lengths)
                                : words("query_lengths", tensors.query_lengths);
  all[VKATTN_BINDING_PAGE_TABLE] = words("page_table", tensors.page_table);
  all[VKATTN_BINDING_ALIBI_SLOPES] = words("alibi_slopes", tensors.alibi_slopes);
  all[VKATTN_BINDING_SINKS] = words("sinks", tensors.sinks);
  all[VKATTN_BINDING_KEY_SCALES] = words("key_scales", tensors.key_scales);
  all[VKATTN_BINDING_VALUE_SCALES] = words("value_scales", tensors.value_scales);
  all[VKATTN_BINDING_WEIGHTS] = words("weights", tensors.weights);
  return all;
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
  if (range.size >= VK_WHOLE_SIZE - range.offset) {
    return fail("has a range of ", range.size, " bytes from byte ", range.offset,
                " on, which no buffer has: give its size, not VK_WHOLE_SIZE");
  }
  const std::uint64_t end = range.offset + bytes;
  const bool in_words = plan.whole_words || tensor.reads_words;
  if (in_words && end % 4 != 0 && range.size < bytes + 4 - end % 4) {
    return fail("ends inside a 32-bit word, by which it is read here: give a range of ", bytes + 4 - end % 4,
                " bytes");
  }
  return {};
}

// The score function takes the whole range as its table.
Status check_score_buffer(const PlanState& plan, std::string_view name, const BufferRange& range) {
  const auto fail = [&](auto&&... parts) {
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                 message("the score function's buffer ", name, " ", parts...)};
  };
  const Capabilities& capabilities = plan.device->capabilities;
  if (range.buffer == VK_NULL_HANDLE) return fail("is null");
  if (range.size < 4) return fail("needs an element, 4 bytes, but its range has ", range.size);
  if (range.offset % capabilities.min_storage_offset_alignment != 0) {
    return fail("begins at byte ", range.offset, "; minStorageBufferOffsetAlignment is ",
                capabilities.min_storage_offset_alignment);
  }
  if (range.size > capabilities.max_storage_buffer_range) {
    return fail("has ", range.size, " bytes; maxStorageBufferRange is ",
                capabilities.max_storage_buffer_range);
  }
  return {};
}

Status check_score_buffers(const PlanState& plan, const AttentionTensors& tensors) {
  if (!plan.options.score_function || plan.steps.empty()) return {};
  const std::vector<ScoreBuffer>& buffers = plan.options.score_function->buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (Status status = check_score_buffer(plan, buffers[i].name, tensors.score_buffers[i]); !status)
      return status;
  }
  return {};
}

Status check_block_mask(const PlanState& plan, const AttentionTensors& tensors) {
  const auto fail = [](auto&&... parts) {
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS, message("the block mask ", parts...)};
  };
  if (plan.block_mask_bytes == 0) return {};
  const BufferRange& range = tensors.block_mask;
  if (range.buffer == VK_NULL_HANDLE) {
    return tensors.block_mask_complete ? fail("is said to be complete but its buffer is null") : Status();
  }
  if (range.size < plan.block_mask_bytes) {
    return fail("needs ", plan.block_mask_bytes, " bytes but its range has ", range.size);
  }
  const std::uint64_t alignment = plan.device->capabilities.min_storage_offset_alignment;
  if (range.offset % alignment == 0) return {};
  return fail("begins at byte ", range.offset, "; minStorageBufferOffsetAlignment is ", alignment);
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

std::size_t first_step(const PlanState& plan, const AttentionTensors& tensors) noexcept {
  if (plan.block_mask_bytes == 0 || !tensors.block_mask_complete) return 0;
  // All that comes before the kernel is the block mask.
  const auto is_kernels = [&](const Step& step) { return step.pass == plan.kernel_pass; };
  return static_cast<std::size_t>(std::find_if(plan.steps.begin(), plan.steps.end(), is_kernels) -
                                  plan.steps.begin());
}

Status check_tensors(const PlanState& plan, const AttentionTensors& tensors, const BufferRange& workspace) {
  const auto bound = bound_tensors(plan.desc, tensors);
  for (std::size_t i = 0; i < bound.size(); ++i) {
    if (bound[i].range == nullptr) continue;
    if (Status status = check_tensor(plan, bound[i], static_cast<std::uint64_t>(plan.whole[i].bytes));
        !status)
      return status;
  }
  if (Status status = check_score_buffers(plan, tensors); !status) return status;
  if (Status status = check_block_mask(plan, tensors); !status) return status;
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
    const std::uint64_t first = bound[i].range->offset + static_cast<std::uint64_t>(part.first_byte);
    const std::uint64_t start = first / alignment * alignment;
    std::uint64_t end = first + static_cast<std::uint64_t>(part.bytes);
    if (plan.whole_words || bound[i].reads_words) end = (end + 3) / 4 * 4;
    // What is written is bound with all that the caller gave, so that a driver which checks bounds hides no
    // stray write.
    const bool output = i == VKATTN_BINDING_OUTPUT || i == VKATTN_BINDING_LSE || i == VKATTN_BINDING_WEIGHTS;
    if (output && part.bytes == plan.whole[i].bytes) {
      const std::uint64_t given = bound[i].range->offset + bound[i].range->size;
      end = std::max(end, std::min(given, start + plan.device->capabilities.max_storage_buffer_range));
    }
    result.buffers[i] = {bound[i].range->buffer, start, end - start};
    result.offsets[i] = static_cast<std::uint32_t>((first - start) / bound[i].element_bytes);
  }
  const std::size_t tables = plan.options.score_function ? plan.options.score_function->buffers().size() : 0;
  for (std::size_t i = 0; i < tables; ++i) {
    const BufferRange& range = tensors.score_buffers[i];
    result.buffers[VKATTN_BINDING_USER + i] = {range.buffer, range.offset, range.size / 4 * 4};
  }
  const auto bind_area = [&](std::size_t binding, const WorkspaceArea& area) {
    if (area.bytes != 0)
      result.buffers[binding] = {workspace.buffer, workspace.offset + area.offset, area.bytes};
  };
  bind_area(VKATTN_BINDING_PARTIALS, plan.window_areas[window]);
  if (!plan.feature_areas.empty()) {
    const FeatureAreas& areas = plan.feature_areas[window];
    bind_area(VKATTN_BINDING_FEATURE_PARAMS, areas.params);
    bind_area(VKATTN_BINDING_BLOCK_MASK, areas.block_mask);
    const BufferRange& kept = tensors.block_mask;
    if (areas.block_mask.bytes != 0 && kept.buffer != VK_NULL_HANDLE) {
      result.buffers[VKATTN_BINDING_BLOCK_MASK] = {kept.buffer, kept.offset + areas.kept_offset,
                                                   areas.block_mask.bytes};
    }
    bind_area(VKATTN_BINDING_LSE, areas.lse);
  }
  // Every descriptor must be valid even where the kernel touches nothing through it. The query stands in for
  // inputs and the output for what is written, so that no buffer is both read and written in the eyes of
  // synchronization validation.
  for (std::size_t i = 0; i < result.buffers.size(); ++i) {
    if (result.buffers[i].buffer != VK_NULL_HANDLE) continue;
    const bool written = i == VKATTN_BINDING_LSE || i == VKATTN_BINDING_PARTIALS ||
                         i == VKATTN_BINDING_WEIGHTS || i == VKATTN_BINDING_BLOCK_MASK;
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

FeatureParams bound_feature_params(const PlanState& plan, const AttentionTensors& tensors, std::size_t window,
                                   const BoundWindow& bound) noexcept {
  FeatureParams params = plan.feature_params[window];
  params.mask_offset = bound.offsets[VKATTN_BINDING_MASK];
  params.weights_offset = bound.offsets[VKATTN_BINDING_WEIGHTS];
  params.query_lengths_offset = bound.offsets[VKATTN_BINDING_QUERY_LENGTHS];
  params.page_table_offset = bound.offsets[VKATTN_BINDING_PAGE_TABLE];
  params.slopes_offset = bound.offsets[VKATTN_BINDING_ALIBI_SLOPES];
  params.sinks_offset = bound.offsets[VKATTN_BINDING_SINKS];
  params.key_scales_offset = bound.offsets[VKATTN_BINDING_KEY_SCALES];
  params.value_scales_offset = bound.offsets[VKATTN_BINDING_VALUE_SCALES];
  params.dropout_seed_low = static_cast<std::uint32_t>(tensors.dropout_seed);
  params.dropout_seed_high = static_cast<std::uint32_t>(tensors.dropout_seed >> 32U);
  params.dropout_offset = tensors.dropout_offset;
  return params;
}

namespace {

void write_bindings(const PlanState& plan, const AttentionTensors& tensors, const BufferRange& workspace,
                    BindingsState& state) {
  state.params.resize(plan.steps.size());
  state.feature_params.resize(plan.feature_params.size());
  state.workspace = workspace;
  state.first_step = first_step(plan, tensors);
  std::vector<BoundWindow> bound;
  for (std::size_t i = 0; i < plan.windows.size(); ++i) {
    bound.push_back(bind_window(plan, tensors, workspace, i));
    DescriptorWrites writes;
    fill_buffer_writes(bound[i].buffers, state.sets[i], writes);
    plan.device->vk.vkUpdateDescriptorSets(plan.device->device, binding_count(plan.desc), writes.data(), 0,
                                           nullptr);
    if (!state.feature_params.empty()) {
      state.feature_params[i] = bound_feature_params(plan, tensors, i, bound[i]);
    }
  }
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    state.params[i] = step_params(plan, plan.steps[i], bound[plan.steps[i].window]);
  }
}

// Binds the step's pipeline where its pass begins. A pass reads what the one before wrote to the workspace.
void begin_pass(const PlanState& plan, VkCommandBuffer commands, std::size_t step,
                std::size_t first) noexcept {
  const DeviceFunctions& vk = plan.device->vk;
  const std::uint32_t pass = plan.steps[step].pass;
  if (step != first && plan.steps[step - 1].pass == pass) return;
  vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, plan.passes[pass].pipeline.handle());
  if (step == first) return;
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;  // a pass may work in place
  vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                          VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

// Between an earlier use of the workspace and the writing of parameters, and between that and the shaders.
void transfer_barrier(const PlanState& plan, VkCommandBuffer commands, bool before) noexcept {
  constexpr VkPipelineStageFlags kCompute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
  constexpr VkPipelineStageFlags kTransfer = VK_PIPELINE_STAGE_TRANSFER_BIT;
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  // An earlier execution may have written elsewhere in the workspace, or left its parameters here.
  barrier.srcAccessMask =
      before ? VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT : VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = before ? VK_ACCESS_TRANSFER_WRITE_BIT : VK_ACCESS_SHADER_READ_BIT;
  plan.device->vk.vkCmdPipelineBarrier(commands, before ? kCompute | kTransfer : kTransfer,
                                       before ? kTransfer : kCompute, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

// What is written is small: vkCmdUpdateBuffer takes 65536 bytes.
void update_features(const PlanState& plan, VkCommandBuffer commands, const BufferRange& workspace,
                     std::size_t window, const FeatureParams& params) noexcept {
  plan.device->vk.vkCmdUpdateBuffer(commands, workspace.buffer,
                                    workspace.offset + plan.feature_areas[window].params.offset,
                                    sizeof(params), &params);
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
      bindings->plan = state_;
      const Status status =
          detail::allocate_buffer_sets(*state_->device, state_->passes.front().pipeline.set_layout(),
                                       static_cast<std::uint32_t>(state_->windows.size()),
                                       detail::binding_count(state_->desc), bindings->pool, bindings->sets);
      if (!status) return status.error();
      detail::write_bindings(*state_, tensors, workspace, *bindings);
    }
    return Bindings(std::move(bindings));
  });
}

Status AttentionPlan::rewrite(Bindings& bindings, const AttentionTensors& tensors,
                              const BufferRange& workspace) const {
  return detail::without_exceptions([&]() -> Status {
    if (!state_->steps.empty() && bindings.state_->plan.lock() != state_) {
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
  if (!plan.feature_params.empty()) {
    detail::transfer_barrier(plan, commands, true);
    for (std::size_t i = 0; i < bound.feature_params.size(); ++i) {
      detail::update_features(plan, commands, bound.workspace, i, bound.feature_params[i]);
    }
    detail::transfer_barrier(plan, commands, false);
  }
  for (std::size_t i = bound.first_step; i < plan.steps.size(); ++i) {
    const detail::Step& step = plan.steps[i];
    detail::begin_pass(plan, commands, i, bound.first_step);
    if (i == bound.first_step || plan.steps[i - 1].window != step.window) {
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
    if (!plan.feature_params.empty()) {
      detail::transfer_barrier(plan, commands, true);
      for (std::size_t i = 0; i < plan.windows.size(); ++i) {
        const detail::FeatureParams params =
            detail::bound_feature_params(plan, tensors, i, detail::bind_window(plan, tensors, workspace, i));
        detail::update_features(plan, commands, workspace, i, params);
      }
      detail::transfer_barrier(plan, commands, false);
    }
    const std::size_t first = detail::first_step(plan, tensors);
    for (std::size_t i = first; i < plan.steps.size(); ++i) {
      const detail::Step& step = plan.steps[i];
      detail::begin_pass(plan, commands, i, first);
      if (i == first || plan.steps[i - 1].window != step.window) {
        bound = detail::bind_window(plan, tensors, workspace, step.window);
        detail::DescriptorWrites writes;
        detail::fill_buffer_writes(bound.buffers, VK_NULL_HANDLE, writes);
        vk.vkCmdPushDescriptorSetKHR(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0,
                                     detail::binding_count(plan.desc), writes.data());
      }
      detail::dispatch(plan, commands, step, detail::step_params(plan, step, bound));
    }
    return {};
  });
}

}  // namespace vkattn
