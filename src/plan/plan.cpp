// Plan assembly: validate -> select -> windows -> dispatches -> pipeline.
#include <vkattn/plan.hpp>

#include <algorithm>
#include <cmath>

#include "common/message.hpp"
#include "plan/plan_state.hpp"
#include "vkattn_core_shaders.hpp"

namespace vkattn {

namespace detail {

namespace {

constexpr std::int64_t kMaxTilesPerWindow = std::int64_t{1} << 31U;
constexpr double kLog2E = 1.4426950408889634;

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// A guess, low on purpose: it bounds how long a dispatch may take, and is never shown as a speed.
double assumed_flops_per_ns(const Capabilities& capabilities, std::string_view kernel) {
  const double device = capabilities.device_type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ? 400.0 : 50.0;
  return kernel == "lane" ? device / 4 : device;
}

// The stride where the window has several, else 0: an unused stride may be too large for the parameter.
std::uint32_t stride32(std::int64_t stride, std::int64_t extent) {
  return extent > 1 ? static_cast<std::uint32_t>(stride) : 0U;
}

// Clamped so that row + offset cannot overflow; what lies beyond hides all keys or none.
std::int32_t causal_offset(const AttentionDesc& desc, const Window& window) {
  if (!desc.causal) return 0;
  std::int64_t offset = 0;
  if (desc.align == Align::kBottomRight) offset = -desc.query_length;
  if (desc.align == Align::kOffset) {
    offset = std::clamp(desc.offset, -desc.query_length, std::max<std::int64_t>(desc.kv_length - 1, 0));
  }
  return static_cast<std::int32_t>(offset + window.first_row);
}

AttentionParams window_params(const AttentionDesc& desc, const Window& w) {
  const std::int64_t group = desc.query_heads / desc.kv_heads;
  const std::int64_t kv_heads = divide_up(w.heads, group);
  AttentionParams p{};
  p.query_batch_stride = stride32(desc.query.strides.batch, w.batch);
  p.query_head_stride = stride32(desc.query.strides.head, w.heads);
  p.query_row_stride = stride32(desc.query.strides.row, w.rows);
  p.key_batch_stride = stride32(desc.key.strides.batch, w.batch);
  p.key_head_stride = stride32(desc.key.strides.head, kv_heads);
  p.key_row_stride = stride32(desc.key.strides.row, desc.kv_length);
  p.value_batch_stride = stride32(desc.value.strides.batch, w.batch);
  p.value_head_stride = stride32(desc.value.strides.head, kv_heads);
  p.value_row_stride = stride32(desc.value.strides.row, desc.kv_length);
  p.output_batch_stride = stride32(desc.output.strides.batch, w.batch);
  p.output_head_stride = stride32(desc.output.strides.head, w.heads);
  p.output_row_stride = stride32(desc.output.strides.row, w.rows);
  p.lse_batch_stride = stride32(desc.lse_strides.batch, w.batch);
  p.lse_head_stride = stride32(desc.lse_strides.head, w.heads);
  p.lse_row_stride = stride32(desc.lse_strides.row, w.rows);
  p.query_length = static_cast<std::uint32_t>(w.rows);
  p.kv_length = static_cast<std::uint32_t>(desc.kv_length);
  p.query_heads = static_cast<std::uint32_t>(w.heads);
  p.heads_per_kv = static_cast<std::uint32_t>(std::min(group, w.heads));
  p.causal_offset = causal_offset(desc, w);
  p.scale_log2 = static_cast<float>(static_cast<double>(desc.effective_scale()) * kLog2E);
  return p;
}

// Tiles one dispatch may have: what the grid can hold, and what the time limit allows.
std::int64_t tiles_per_dispatch(const PlanState& plan, double tile_ns) {
  const Capabilities& c = plan.device->capabilities;
  std::int64_t tiles = std::min<std::int64_t>(
      static_cast<std::int64_t>(c.max_workgroup_count[0]) * c.max_workgroup_count[1], kMaxTilesPerWindow);
  if (!c.is_cpu() && tile_ns > 0) {
    const double allowed = std::floor(static_cast<double>(plan.options.max_dispatch_ns) / tile_ns);
    tiles = std::min(tiles, static_cast<std::int64_t>(std::clamp(allowed, 1.0, 2.0e9)));
  }
  return tiles;
}

void add_steps(PlanState& plan, std::size_t window_index, std::int64_t tiles, double tile_ns,
               bool combine = false) {
  const std::int64_t most = tiles_per_dispatch(plan, tile_ns);
  const std::int64_t max_x = plan.device->capabilities.max_workgroup_count[0];
  const std::int64_t parts = divide_up(tiles, most);
  const std::int64_t each = divide_up(tiles, parts);  // even parts rather than a small last one
  for (std::int64_t first = 0; first < tiles; first += each) {
    const std::int64_t count = std::min(each, tiles - first);
    const std::int64_t rows = divide_up(count, max_x);
    const std::int64_t columns = divide_up(count, rows);
    plan.steps.push_back({static_cast<std::uint32_t>(window_index), static_cast<std::uint32_t>(first),
                          static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(columns),
                          static_cast<std::uint32_t>(rows), combine});
    DispatchInfo info;
    info.combine = combine;
    info.first_tile = static_cast<std::uint64_t>(first);
    info.tile_count = static_cast<std::uint64_t>(count);
    info.workgroups[0] = static_cast<std::uint32_t>(columns);
    info.workgroups[1] = static_cast<std::uint32_t>(rows);
    info.workgroups[2] = 1;
    info.estimated_ns = static_cast<double>(count) * tile_ns;
    plan.dispatches.push_back(info);
  }
}

// Decides about a split over keys, and what it takes.
Status plan_split(PlanState& plan, std::int64_t tiles) {
  const AttentionDesc& desc = plan.desc;
  const Capabilities& capabilities = plan.device->capabilities;
  if (plan.options.kv_splits > 1 && plan.config.key_step == 0) {
    return Error{ErrorCode::kUnsupported, VK_SUCCESS,
                 message("the kernel ", plan.kernel_name,
                         " cannot split the keys (PlanOptions::kv_splits is ", plan.options.kv_splits, ")")};
  }
  plan.split = choose_kv_split(desc, capabilities, plan.config, tiles, plan.options.kv_splits);
  if (plan.split.splits == 1) return {};
  const double floats = static_cast<double>(desc.batch * desc.query_heads) *
                        static_cast<double>(desc.query_length) * static_cast<double>(plan.split.splits) *
                        static_cast<double>(desc.value_dim + 1);
  if (floats * 4 > static_cast<double>(capabilities.max_storage_buffer_range)) {
    if (plan.options.kv_splits == 0) {
      plan.split = {1, desc.kv_length};
      return {};
    }
    return Error{ErrorCode::kLimitExceeded, VK_SUCCESS,
                 message("the workspace of ", plan.split.splits, " parts takes ", floats * 4,
                         " bytes; maxStorageBufferRange is ", capabilities.max_storage_buffer_range)};
  }
  plan.workspace_bytes = static_cast<std::uint64_t>(floats) * 4;
  plan.config.specialization.push_back({VKATTN_SPEC_SPLIT_KV, 1});
  auto combine = configure_combine(desc, capabilities);
  if (!combine) return combine.error();
  plan.combine_config = *std::move(combine);
  return {};
}

Status plan_dispatches(PlanState& plan) {
  const AttentionDesc& desc = plan.desc;
  auto windows = make_windows(desc, plan.device->capabilities);
  if (!windows) return windows.error();
  plan.windows = *std::move(windows);
  plan.whole = tensor_windows(desc, {0, desc.batch, 0, desc.query_heads, 0, desc.query_length});
  const double tile_flops = 2.0 * plan.config.rows_per_workgroup * static_cast<double>(desc.kv_length) *
                            static_cast<double>(desc.head_dim + desc.value_dim);
  const double tile_ns = tile_flops / assumed_flops_per_ns(plan.device->capabilities, plan.kernel_name);
  for (std::size_t i = 0; i < plan.windows.size(); ++i) {
    const Window& window = plan.windows[i];
    // The query heads of a KV head are packed into one list of rows (shaders/lib/grid.glsl).
    const std::int64_t heads_per_kv = std::min(desc.query_heads / desc.kv_heads, window.heads);
    const std::int64_t kv_heads = window.heads / heads_per_kv;
    const std::int64_t tiles_per_head = divide_up(window.rows * heads_per_kv, plan.config.rows_per_workgroup);
    // In floating point first: the product may not fit.
    const double tiles = static_cast<double>(tiles_per_head) * static_cast<double>(kv_heads) *
                         static_cast<double>(window.batch);
    if (tiles > static_cast<double>(kMaxTilesPerWindow)) {
      return Error{ErrorCode::kLimitExceeded, VK_SUCCESS,
                   message("batch x query_heads x row tiles is ", tiles, "; at most ", kMaxTilesPerWindow,
                           " are possible, so split the batch")};
    }
    plan.parts.push_back(tensor_windows(desc, window));
    plan.params.push_back(window_params(desc, window));
    const std::int64_t tile_count = tiles_per_head * kv_heads * window.batch;
    // A problem of several windows is a large one, which keeps any device busy without a split.
    if (plan.windows.size() == 1) {
      if (Status status = plan_split(plan, tile_count); !status) return status;
    }
    plan.params[i].kv_splits = static_cast<std::uint32_t>(plan.split.splits);
    plan.params[i].split_keys =
        static_cast<std::uint32_t>(plan.split.splits > 1 ? plan.split.keys : desc.kv_length);
    const auto splits = static_cast<double>(plan.split.splits);
    add_steps(plan, i, tile_count * plan.split.splits, tile_ns / splits);
    if (plan.split.splits > 1) add_steps(plan, i, desc.batch * desc.query_heads * desc.query_length, 0, true);
  }
  return {};
}

Status create_pipeline(const PlanState& plan, const KernelConfig& config, Pipeline& target) {
  const ShaderBinary* binary = find_shader(shader_binaries(), config.shader);
  PipelineDesc desc;
  desc.words = binary->words;
  desc.specialization = config.specialization;
  desc.storage_buffers = VKATTN_BINDING_COUNT;
  desc.push_constant_bytes = sizeof(AttentionParams);
  desc.required_subgroup_size = config.required_subgroup_size;
  desc.push_descriptors = plan.options.push_descriptors;
  desc.capture_statistics = plan.options.capture_statistics;
  desc.cache = plan.options.pipeline_cache;
  auto pipeline = Pipeline::create(plan.device, desc);
  if (!pipeline) return pipeline.error();
  target = *std::move(pipeline);
  return {};
}

Status check_options(const PlanOptions& options, const Capabilities& capabilities) {
  if (capabilities.max_push_constants_bytes < sizeof(AttentionParams)) {
    return Error{
        ErrorCode::kLimitExceeded, VK_SUCCESS,
        message("needs ", sizeof(AttentionParams), " bytes of push constants; maxPushConstantsSize is ",
                capabilities.max_push_constants_bytes)};
  }
  if (options.capture_statistics && !capabilities.pipeline_statistics) {
    return Error{
        ErrorCode::kUnsupported, VK_SUCCESS,
        "PlanOptions::capture_statistics needs VK_KHR_pipeline_executable_properties enabled on the device"};
  }
  if (!options.push_descriptors) return {};
  if (!capabilities.push_descriptors) {
    return Error{ErrorCode::kUnsupported, VK_SUCCESS,
                 "PlanOptions::push_descriptors needs VK_KHR_push_descriptor enabled on the device"};
  }
  if (capabilities.max_push_descriptors < VKATTN_BINDING_COUNT) {
    return Error{ErrorCode::kLimitExceeded, VK_SUCCESS,
                 message("needs ", VKATTN_BINDING_COUNT, " push descriptors; maxPushDescriptors is ",
                         capabilities.max_push_descriptors)};
  }
  return {};
}

Result<std::shared_ptr<const PlanState>> make_plan(const Device& device, const AttentionDesc& desc,
                                                   const PlanOptions& options) {
  if (Status status = validate(desc); !status) return status.error();
  if (Status status = check_options(options, device.capabilities()); !status) return status.error();
  auto selection = select_kernel(desc, device.capabilities(), options.kernel);
  if (!selection) return selection.error();
  auto plan = std::make_shared<PlanState>();
  plan->device = device.share();
  plan->desc = desc;
  plan->options = options;
  plan->config = std::move(selection->config);
  plan->kernel_name = selection->kernel.name;
  plan->considered = std::move(selection->considered);
  plan->whole_words = !device.capabilities().storage_buffer_16bit;
  if (!desc.is_empty()) {
    if (Status status = plan_dispatches(*plan); !status) return status.error();
    if (Status status = create_pipeline(*plan, plan->config, plan->pipeline); !status) return status.error();
    if (plan->split.splits > 1) {
      if (Status status = create_pipeline(*plan, plan->combine_config, plan->combine); !status)
        return status.error();
    }
  }
  return std::shared_ptr<const PlanState>(std::move(plan));
}

}  // namespace

}  // namespace detail

Result<AttentionPlan> AttentionPlan::create(const Device& device, const AttentionDesc& desc,
                                            const PlanOptions& options) {
  return detail::without_exceptions([&]() -> Result<AttentionPlan> {
    auto state = detail::make_plan(device, desc, options);
    if (!state) return state.error();
    return AttentionPlan(*std::move(state));
  });
}

Result<std::vector<PipelineStatistics>> AttentionPlan::statistics(bool listings) const {
  return detail::without_exceptions([&]() -> Result<std::vector<PipelineStatistics>> {
    const detail::PlanState& plan = *state_;
    if (!plan.options.capture_statistics) {
      return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                   "statistics need a plan made with PlanOptions::capture_statistics"};
    }
    std::vector<PipelineStatistics> all;
    const auto add = [&](const detail::Pipeline& pipeline, std::string_view name,
                         std::string_view shader) -> Status {
      if (pipeline.handle() == VK_NULL_HANDLE) return {};
      auto statistics = detail::read_statistics(*plan.device, pipeline.handle(), name, listings);
      if (!statistics) return statistics.error();
      for (PipelineStatistics& entry : *statistics) {
        entry.shader = shader;
        all.push_back(std::move(entry));
      }
      return {};
    };
    if (Status status = add(plan.pipeline, plan.kernel_name, plan.config.shader); !status)
      return status.error();
    if (Status status = add(plan.combine, "combine", plan.combine_config.shader); !status)
      return status.error();
    return all;
  });
}

const AttentionDesc& AttentionPlan::desc() const {
  return state_->desc;
}
std::string_view AttentionPlan::kernel_name() const {
  return state_->kernel_name;
}
VkDeviceSize AttentionPlan::workspace_bytes() const {
  return state_->workspace_bytes;
}
VkBufferUsageFlags AttentionPlan::workspace_usage() const {
  return state_->workspace_bytes != 0 ? VK_BUFFER_USAGE_STORAGE_BUFFER_BIT : 0;
}
const std::vector<DispatchInfo>& AttentionPlan::dispatches() const {
  return state_->dispatches;
}
std::uint32_t AttentionPlan::shared_memory_bytes() const {
  return state_->config.shared_bytes;
}
DataType AttentionPlan::probability_type() const {
  return state_->config.probability_type;
}

std::string AttentionPlan::describe() const {
  const detail::PlanState& plan = *state_;
  const AttentionDesc& desc = plan.desc;
  std::string text = detail::message("attention: batch ", desc.batch, ", query_heads ", desc.query_heads,
                                     ", kv_heads ", desc.kv_heads, ", query_length ", desc.query_length,
                                     ", kv_length ", desc.kv_length, ", head_dim ", desc.head_dim,
                                     ", value_dim ", desc.value_dim, desc.causal ? ", causal" : "", "\n");
  text += detail::message("device: ", plan.device->capabilities.device_name, "\n");
  text += detail::message("kernel: ", plan.kernel_name, " (", plan.config.summary, ")\n");
  for (const KernelSupport& support : plan.considered) {
    if (!support.reason.empty())
      text += detail::message("refused: ", support.kernel, ": ", support.reason, "\n");
    if (support.reason.empty() && support.kernel != plan.kernel_name) {
      text += detail::message("not needed: ", support.kernel, "\n");
    }
  }
  text += detail::message("dispatches: ", plan.dispatches.size(), " over ", plan.windows.size(),
                          plan.windows.size() == 1 ? " window" : " windows",
                          " of the tensors; workspace: ", plan.workspace_bytes, " bytes\n");
  if (plan.split.splits > 1) {
    text += detail::message("split over keys: ", plan.split.splits, " parts of ", plan.split.keys,
                            ", merged by the combine pass\n");
  }
  return text;
}

}  // namespace vkattn
