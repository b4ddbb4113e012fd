// Assembly of an append's plan: validate -> tasks -> dispatches -> pipelines.
#include <algorithm>

#include "cache/append_state.hpp"
#include "cache/rotary.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "plan/checked.hpp"
#include "plan/window.hpp"
#include "shared/attention_constants.h"
#include "vkattn_core_shaders.hpp"

namespace vkattn {

namespace detail {

namespace {

// Some 500 MB of traffic: some ten milliseconds on the slowest devices that are no CPU.
constexpr std::uint64_t kMaxUnitsPerDispatch = std::uint64_t{1} << 22;

/// One tensor of rows with where it goes.
struct Rows {
  std::string_view name, source_name, target_name;
  BufferRange AppendTensors::*source_range;
  BufferRange AppendTensors::*target_range;
  BufferRange AppendTensors::*scales_range;
  const TensorDesc& source;
  const TensorDesc& target;
  TensorExtents source_extents, target_extents;
  bool rotated;
  bool cached;
};

std::vector<Rows> rows_of(const AppendDesc& desc) {
  using Tensors = AppendTensors;
  const TensorExtents query = new_row_extents(desc, desc.query_heads, desc.head_dim);
  const TensorExtents key = new_row_extents(desc, desc.kv_heads, desc.head_dim);
  const TensorExtents value = new_row_extents(desc, desc.kv_heads, desc.value_dim);
  return {{"keys", "key", "cache_key", &Tensors::key, &Tensors::cache_key, &Tensors::key_scales, desc.key,
           desc.cache_key, key, cache_extents(desc, desc.head_dim), true, true},
          {"values", "value", "cache_value", &Tensors::value, &Tensors::cache_value, &Tensors::value_scales,
           desc.value, desc.cache_value, value, cache_extents(desc, desc.value_dim), false, true},
          {"queries", "query", "query_output", &Tensors::query, &Tensors::query_output, nullptr, desc.query,
           desc.query_output, query, query, true, false}};
}

AppendTensor bound(std::string_view name, BufferRange AppendTensors::*range, const TensorDesc& tensor,
                   const TensorExtents& e) {
  const std::uint32_t element = element_bytes(tensor.type);
  return {name,
          range,
          static_cast<std::uint64_t>(tensor_bytes(tensor, e.batch, e.heads, e.rows, e.dims).value()),
          element,
          std::max(element, tensor.alignment_bytes),
          false};
}

AppendTensor bound_numbers(std::string_view name, BufferRange AppendTensors::*range, std::int64_t count) {
  return {name, range, 4 * static_cast<std::uint64_t>(count), 4, 4, false};
}

// The tensors that say where rows are, and how many.
void add_lengths(const AppendDesc& desc, AppendTask& task) {
  if (desc.has_positions) {
    task.tensors[VKATTN_APPEND_BINDING_POSITIONS] =
        bound_numbers("positions", &AppendTensors::positions, desc.batch);
  }
  if (desc.has_new_lengths) {
    task.tensors[VKATTN_APPEND_BINDING_NEW_LENGTHS] =
        bound_numbers("new_lengths", &AppendTensors::new_lengths, desc.batch);
  }
  if (desc.has_cumulative_new_lengths) {
    task.tensors[VKATTN_APPEND_BINDING_NEW_LENGTHS] =
        bound_numbers("cumulative_new_lengths", &AppendTensors::cumulative_new_lengths, desc.batch + 1);
    task.params.batch = static_cast<std::uint32_t>(desc.batch);
    task.params.total_new_length = static_cast<std::uint32_t>(desc.total_new_length);
  }
  task.params.new_length = static_cast<std::uint32_t>(desc.new_length);
  task.params.position = desc.has_positions ? 0 : static_cast<std::int32_t>(desc.position);
  task.params.capacity = static_cast<std::uint32_t>(append_capacity(desc));
  task.specialization.push_back({VKATTN_APPEND_SPEC_WORKGROUP_SIZE, kAppendWorkgroup});
  task.specialization.push_back({VKATTN_APPEND_SPEC_HAS_POSITIONS, desc.has_positions ? 1U : 0U});
  task.specialization.push_back({VKATTN_APPEND_SPEC_HAS_NEW_LENGTHS, desc.has_new_lengths ? 1U : 0U});
  task.specialization.push_back({VKATTN_APPEND_SPEC_PACKED_ROWS, desc.has_cumulative_new_lengths ? 1U : 0U});
}

// A stride that is used, in elements or blocks; an unused one may be too large for the parameter.
std::uint32_t stride32(const TensorDesc& tensor, std::int64_t stride, std::int64_t extent) {
  return extent > 1 ? static_cast<std::uint32_t>(stride / block_elements(tensor.type)) : 0U;
}

void add_strides(const Rows& rows, AppendParams& params) {
  const auto strides = [](const TensorDesc& tensor, const TensorExtents& e) {
    return std::array{stride32(tensor, tensor.strides.batch, e.batch),
                      stride32(tensor, tensor.strides.head, e.heads),
                      stride32(tensor, tensor.strides.row, e.rows)};
  };
  const auto source = strides(rows.source, rows.source_extents);
  const auto target = strides(rows.target, rows.target_extents);
  params.source_batch_stride = source[0];
  params.source_head_stride = source[1];
  params.source_row_stride = source[2];
  params.target_batch_stride = target[0];
  params.target_head_stride = target[1];
  params.target_row_stride = target[2];
  params.heads = static_cast<std::uint32_t>(rows.source_extents.heads);
}

bool is_block(DataType type) {
  return block_elements(type) > 1;
}

// Invocations for one row (units_per_row() of the shader).
std::int64_t units_per_row(DataType target, std::int64_t dims, const RotaryDesc& rotary) {
  if (is_block(target)) return dims / block_elements(target);
  if (rotary.style != RotaryStyle::kHalfSplit) return divide_up(dims, std::int64_t{8});
  return divide_up(rotary.dims / 2, std::int64_t{4}) + divide_up(dims - rotary.dims, std::int64_t{8});
}

void specialize_rows(const Rows& rows, const CacheLayout& cache, const RotaryDesc& rotary, AppendTask& task) {
  const auto quads = [&](const TensorDesc& tensor, const TensorExtents& e) {
    const bool halves_aligned = rotary.style != RotaryStyle::kHalfSplit || rotary.dims / 2 % 4 == 0;
    return halves_aligned && has_vector_loads(tensor, e) ? 1U : 0U;
  };
  const auto dim_stride = [&](const TensorDesc& tensor) {
    return rows.source_extents.dims > 1 ? static_cast<std::uint32_t>(tensor.strides.dim) : 1U;
  };
  std::uint32_t mapping = VKATTN_APPEND_SAME_ROW;
  std::int64_t mapped_rows = 1;
  if (rows.cached) {
    mapping = static_cast<std::uint32_t>(cache.mapping);
    if (cache.mapping == KeyMapping::kRing) mapped_rows = cache.ring_length;
    if (cache.mapping == KeyMapping::kPaged) mapped_rows = cache.page_size;
  }
  const std::vector<SpecializationValue> values{
      {VKATTN_APPEND_SPEC_TASK, VKATTN_APPEND_ROWS},
      {VKATTN_APPEND_SPEC_DIMS, static_cast<std::uint32_t>(rows.source_extents.dims)},
      {VKATTN_APPEND_SPEC_SOURCE_TYPE, static_cast<std::uint32_t>(rows.source.type)},
      {VKATTN_APPEND_SPEC_TARGET_TYPE, static_cast<std::uint32_t>(rows.target.type)},
      {VKATTN_APPEND_SPEC_SOURCE_DIM_STRIDE, dim_stride(rows.source)},
      {VKATTN_APPEND_SPEC_TARGET_DIM_STRIDE, dim_stride(rows.target)},
      {VKATTN_APPEND_SPEC_SOURCE_QUADS, quads(rows.source, rows.source_extents)},
      {VKATTN_APPEND_SPEC_TARGET_QUADS, quads(rows.target, rows.target_extents)},
      {VKATTN_APPEND_SPEC_MAPPING, mapping},
      {VKATTN_APPEND_SPEC_MAPPED_ROWS, static_cast<std::uint32_t>(mapped_rows)}};
  task.specialization.insert(task.specialization.end(), values.begin(), values.end());
  const std::vector<SpecializationValue> rotation = rotary_specialization(rotary);
  task.specialization.insert(task.specialization.end(), rotation.begin(), rotation.end());
}

AppendTask rows_task(const AppendDesc& desc, const Capabilities& capabilities, const Rows& rows) {
  AppendTask task;
  task.name = rows.name;
  const RotaryDesc rotary = rows.rotated ? desc.rotary : RotaryDesc{};
  add_lengths(desc, task);
  add_strides(rows, task.params);
  specialize_rows(rows, desc.cache, rotary, task);
  const bool has_halves = element_bytes(rows.source.type) == 2 || element_bytes(rows.target.type) == 2;
  task.shader = capabilities.storage_buffer_16bit && has_halves ? "cache_append" : "cache_append_words";

  auto& tensors = task.tensors;
  tensors[VKATTN_APPEND_BINDING_SOURCE] =
      bound(rows.source_name, rows.source_range, rows.source, rows.source_extents);
  tensors[VKATTN_APPEND_BINDING_TARGET] =
      bound(rows.target_name, rows.target_range, rows.target, rows.target_extents);
  for (const int binding : {VKATTN_APPEND_BINDING_SOURCE, VKATTN_APPEND_BINDING_TARGET}) {
    const std::uint32_t element = tensors[static_cast<std::size_t>(binding)].element_bytes;
    tensors[static_cast<std::size_t>(binding)].whole_words =
        element == 1 || (element == 2 && !capabilities.storage_buffer_16bit);
  }
  if (rows.cached && desc.cache.mapping == KeyMapping::kPaged) {
    tensors[VKATTN_APPEND_BINDING_PAGE_TABLE] =
        bound_numbers("page_table", &AppendTensors::page_table, desc.batch * desc.cache.page_table_stride);
    task.params.page_table_stride = static_cast<std::uint32_t>(desc.cache.page_table_stride);
    task.params.page_count = static_cast<std::uint32_t>(desc.cache.page_count);
  }
  if (rows.target.type == DataType::kFloat8E4m3) {
    tensors[VKATTN_APPEND_BINDING_SCALES] =
        bound_numbers(rows.name == "keys" ? "key_scales" : "value_scales", rows.scales_range, desc.kv_heads);
  }
  if (rotary.style != RotaryStyle::kNone && rotary.has_frequencies) {
    tensors[VKATTN_APPEND_BINDING_FREQUENCIES] =
        bound_numbers("frequencies", &AppendTensors::frequencies, rotary.dims / 2);
  }
  const TensorExtents& e = rows.source_extents;
  const std::int64_t row_count = saturating_multiply(e.batch * e.heads, e.rows);
  task.units = static_cast<std::uint64_t>(
      saturating_multiply(row_count, units_per_row(rows.target.type, e.dims, rotary)));
  return task;
}

AppendTask lengths_task(const AppendDesc& desc) {
  AppendTask task;
  task.name = "lengths";
  task.shader = "cache_append_words";
  add_lengths(desc, task);
  task.specialization.push_back({VKATTN_APPEND_SPEC_TASK, VKATTN_APPEND_LENGTHS});
  task.tensors[VKATTN_APPEND_BINDING_TARGET] =
      bound_numbers("kv_lengths", &AppendTensors::kv_lengths, desc.batch);
  task.units = static_cast<std::uint64_t>(desc.batch);
  return task;
}

Status check_limits(const AppendTask& task, const Capabilities& capabilities) {
  const auto exceeded = [](auto&&... parts) {
    return Error{ErrorCode::kLimitExceeded, VK_SUCCESS, message(parts...)};
  };
  // Descriptors begin at a multiple of the device's alignment, and end at a whole word.
  const std::uint64_t slack = binding_alignment(capabilities) + 4;
  for (const AppendTensor& tensor : task.tensors) {
    if (tensor.bytes + slack > capabilities.max_storage_buffer_range) {
      return exceeded("the ", tensor.name, " tensor takes ", tensor.bytes, " bytes, and up to ", slack,
                      " more by its alignment; maxStorageBufferRange is ",
                      capabilities.max_storage_buffer_range);
    }
  }
  constexpr std::uint64_t kMaxUnits = ~std::uint32_t{0};
  if (task.units > kMaxUnits) {
    return exceeded("the ", task.name, " take ", task.units, " invocations; at most ", kMaxUnits,
                    " are possible, so split the batch");
  }
  return {};
}

Status check_device(const AppendOptions& options, const Capabilities& capabilities) {
  const auto fail = [](ErrorCode code, auto&&... parts) {
    return Error{code, VK_SUCCESS, message(parts...)};
  };
  if (capabilities.max_stage_storage_buffers < VKATTN_APPEND_BINDING_COUNT) {
    return fail(ErrorCode::kLimitExceeded, "needs ", VKATTN_APPEND_BINDING_COUNT,
                " storage buffers; maxPerStageDescriptorStorageBuffers is ",
                capabilities.max_stage_storage_buffers);
  }
  if (!options.push_descriptors) return {};
  if (!capabilities.push_descriptors) {
    return fail(ErrorCode::kUnsupported,
                "AppendOptions::push_descriptors needs VK_KHR_push_descriptor enabled on the device");
  }
  if (capabilities.max_push_descriptors < VKATTN_APPEND_BINDING_COUNT) {
    return fail(ErrorCode::kLimitExceeded, "needs ", VKATTN_APPEND_BINDING_COUNT,
                " push descriptors; maxPushDescriptors is ", capabilities.max_push_descriptors);
  }
  return {};
}

void add_steps(AppendState& plan, std::size_t task_index) {
  const std::uint64_t units = plan.tasks[task_index].units;
  const std::uint64_t max_x = plan.device->capabilities.max_workgroup_count[0];
  for (std::uint64_t first = 0; first < units; first += kMaxUnitsPerDispatch) {
    const std::uint64_t count = std::min(kMaxUnitsPerDispatch, units - first);
    const std::uint64_t groups = divide_up(count, std::uint64_t{kAppendWorkgroup});
    const std::uint64_t groups_y = divide_up(groups, max_x);
    plan.steps.push_back({static_cast<std::uint32_t>(task_index), static_cast<std::uint32_t>(first),
                          static_cast<std::uint32_t>(count),
                          static_cast<std::uint32_t>(divide_up(groups, groups_y)),
                          static_cast<std::uint32_t>(groups_y)});
  }
}

bool same_pipeline(const AppendTask& a, const AppendTask& b) {
  return a.shader == b.shader &&
         std::equal(a.specialization.begin(), a.specialization.end(), b.specialization.begin(),
                    b.specialization.end(), [](const SpecializationValue& x, const SpecializationValue& y) {
                      return x.id == y.id && x.value == y.value;
                    });
}

Status create_pipeline(AppendState& plan, std::size_t task_index) {
  AppendTask& task = plan.tasks[task_index];
  for (std::size_t other = 0; other < task_index; ++other) {
    if (same_pipeline(plan.tasks[other], task)) {
      task.pipeline = plan.tasks[other].pipeline;
      return {};
    }
  }
  const ShaderBinary* const binary = find_shader(shader_binaries(), task.shader);
  if (binary == nullptr || binary->words.empty()) {
    return Error{ErrorCode::kUnsupported, VK_SUCCESS,
                 message("this build left the shader ", task.shader, " out: its compiler lacks ",
                         binary != nullptr ? binary->missing : "it")};
  }
  PipelineDesc desc;
  desc.words = binary->words;
  desc.specialization = task.specialization;
  desc.storage_buffers = VKATTN_APPEND_BINDING_COUNT;
  desc.push_constant_bytes = sizeof(AppendParams);
  desc.push_descriptors = plan.options.push_descriptors;
  desc.cache = plan.options.pipeline_cache;
  auto pipeline = Pipeline::create(plan.device, desc);
  if (!pipeline) return pipeline.error();
  task.pipeline = plan.pipelines.size();
  plan.pipelines.push_back(*std::move(pipeline));
  return {};
}

Result<std::shared_ptr<const AppendState>> make_plan(const Device& device, const AppendDesc& desc,
                                                     const AppendOptions& options) {
  const Capabilities& capabilities = device.capabilities();
  if (Status status = validate(desc); !status) return status.error();
  if (Status status = check_device(options, capabilities); !status) return status.error();
  auto plan = std::make_shared<AppendState>();
  plan->device = device.share();
  plan->desc = desc;
  plan->options = options;
  for (const Rows& rows : rows_of(desc)) {
    const TensorExtents& e = rows.source_extents;
    if (desc.batch == 0 || most_new_rows(desc) == 0 || e.heads == 0 || e.dims == 0) continue;
    plan->tasks.push_back(rows_task(desc, capabilities, rows));
  }
  if (desc.has_kv_lengths && desc.batch != 0) {
    plan->tasks.push_back(lengths_task(desc));
    plan->tasks.back().waits = plan->tasks.size() > 1;
  }
  for (std::size_t i = 0; i < plan->tasks.size(); ++i) {
    if (Status status = check_limits(plan->tasks[i], capabilities); !status) return status.error();
    add_steps(*plan, i);
    if (Status status = create_pipeline(*plan, i); !status) return status.error();
  }
  return std::shared_ptr<const AppendState>(std::move(plan));
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

}  // namespace

}  // namespace detail

Result<AppendPlan> AppendPlan::create(const Device& device, const AppendDesc& desc,
                                      const AppendOptions& options) {
  return detail::without_exceptions([&]() -> Result<AppendPlan> {
    auto state = detail::make_plan(device, desc, options);
    if (!state) return state.error();
    return AppendPlan(*std::move(state));
  });
}

const AppendDesc& AppendPlan::desc() const {
  return state_->desc;
}

std::size_t AppendPlan::dispatch_count() const {
  return state_->steps.size();
}

std::string AppendPlan::describe() const {
  const AppendDesc& desc = state_->desc;
  std::string text = detail::message(
      "append: batch ", desc.batch, ", query_heads ", desc.query_heads, ", kv_heads ", desc.kv_heads,
      ", new_length ", desc.new_length, ", head_dim ", desc.head_dim, ", value_dim ", desc.value_dim,
      desc.has_cumulative_new_lengths ? detail::message(", ", desc.total_new_length, " packed rows") : "",
      "\n", "cache: ", detail::words_for(desc.cache), ", keys ", name(desc.cache_key.type), ", values ",
      name(desc.cache_value.type), ", room for ", detail::append_capacity(desc), " keys\n");
  if (desc.rotary.style != RotaryStyle::kNone) {
    text += detail::message("rotary: ", desc.rotary.dims, " dims, ",
                            desc.rotary.style == RotaryStyle::kInterleaved ? "interleaved" : "half-split",
                            desc.rotary.has_frequencies ? ", frequencies given\n" : "\n");
  }
  for (const detail::AppendStep& step : state_->steps) {
    const detail::AppendTask& task = state_->tasks[step.task];
    text += detail::message("dispatch: ", task.name, ", ", step.unit_count, " invocations, ", task.shader,
                            task.waits ? ", after all others" : "", "\n");
  }
  return text;
}

}  // namespace vkattn
