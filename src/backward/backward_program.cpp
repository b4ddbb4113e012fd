// The program of a backward pass: see backward_program.hpp.
#include "backward/backward_program.hpp"

#include <algorithm>
#include <cstring>

#include "attention/features.hpp"
#include "attention/tensor_table.hpp"
#include "common/checked.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "forward/attention_program.hpp"
#include "forward/params.hpp"
#include "kernels/specialization.hpp"
#include "operation/table_tensors.hpp"
#include "program/bound_set.hpp"
#include "shared/backward_constants.h"
#include "vkattn_core_shaders.hpp"
#include "vulkan/loop_limit.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::detail {

namespace {

static_assert(VKATTN_BACKWARD_BINDING_COUNT <= kMostBindings);
static_assert(sizeof(FeatureParams) + sizeof(BackwardParams) <= kMostParameterBytes);

/// The inputs of the functions below.
struct Request {
  const BackwardDesc& desc;
  const Capabilities& capabilities;
  const BackwardKernel& kernel;
  const BackwardLayout& layout;
  const PlanOptions& options;
};

// --- Parameters and constants ---

BackwardParams backward_params(const Request& request) {
  const BackwardDesc& desc = request.desc;
  const AttentionDesc& attention = desc.attention;
  const BackwardLayout& layout = request.layout;
  BackwardParams p{};
  const auto set = [](const TensorDesc& tensor, const TensorExtents& e, std::uint32_t& batch,
                      std::uint32_t& head, std::uint32_t& row) {
    batch = stride32(tensor.strides->batch, e.batch);
    head = stride32(tensor.strides->head, e.heads);
    row = stride32(tensor.strides->row, e.rows);
  };
  const TensorExtents queries = query_extents(attention, 1), keys = key_extents(attention, 1);
  set(*desc.grad_output, queries, p.grad_output_batch_stride, p.grad_output_head_stride,
      p.grad_output_row_stride);
  set(*desc.grad_query, queries, p.grad_query_batch_stride, p.grad_query_head_stride,
      p.grad_query_row_stride);
  set(*desc.grad_key, keys, p.grad_key_batch_stride, p.grad_key_head_stride, p.grad_key_row_stride);
  set(*desc.grad_value, keys, p.grad_value_batch_stride, p.grad_value_head_stride, p.grad_value_row_stride);
  if (desc.has_grad_mask) {
    const TensorExtents mask = mask_extents(attention);
    set(*desc.grad_mask, mask, p.grad_mask_batch_stride, p.grad_mask_head_stride, p.grad_mask_row_stride);
    p.grad_mask_key_stride = stride32(desc.grad_mask->strides->dim, mask.dims);
  }
  p.pair_scale = layout.scale.pair;
  p.operand_scale = layout.scale.operand;
  p.sum_scale = layout.scale.sum;
  p.batch = narrow(attention.batch);
  p.kv_heads = narrow(attention.kv_heads);
  p.pair_rows = static_cast<std::uint32_t>(layout.rows);
  p.delta_sums = layout.delta_sums;
  p.slope_sums = layout.slope_sums;
  p.query_sums = layout.query_sums;
  p.key_sums = layout.key_sums;
  p.value_sums = layout.value_sums;
  p.mask_sums = layout.mask_sums;
  return p;
}

SpecializationValues constants(const Request& request, const PassConfig& pass) {
  const BackwardDesc& desc = request.desc;
  const AttentionDesc& attention = desc.attention;
  SpecializationValues values = specialization(attention, pass, {});
  const auto flag = [](bool value) { return value ? 1U : 0U; };
  const auto type = [](const TensorDesc& tensor) { return static_cast<std::uint32_t>(tensor.type); };
  const auto dim_stride = [](const TensorDesc& tensor, std::int64_t dims) {
    return dims == 1 ? 1U : narrow(tensor.strides->dim);
  };
  const TensorExtents queries = query_extents(attention, 1), keys = key_extents(attention, 1);
  const SpecializationValue all[] = {
      {VKATTN_SPEC_GRAD_OUTPUT_TYPE, type(*desc.grad_output)},
      {VKATTN_SPEC_GRAD_OUTPUT_DIM_STRIDE, dim_stride(*desc.grad_output, attention.value_dim)},
      {VKATTN_SPEC_GRAD_OUTPUT_VECTOR_LOADS, flag(has_vector_loads(*desc.grad_output, queries))},
      {VKATTN_SPEC_OUTPUT_VECTOR_LOADS, flag(has_vector_loads(attention.output, queries))},
      {VKATTN_SPEC_GRAD_QUERY_TYPE, type(*desc.grad_query)},
      {VKATTN_SPEC_GRAD_QUERY_DIM_STRIDE, dim_stride(*desc.grad_query, attention.head_dim)},
      {VKATTN_SPEC_GRAD_KEY_TYPE, type(*desc.grad_key)},
      {VKATTN_SPEC_GRAD_KEY_DIM_STRIDE, dim_stride(*desc.grad_key, attention.head_dim)},
      {VKATTN_SPEC_GRAD_VALUE_TYPE, type(*desc.grad_value)},
      {VKATTN_SPEC_GRAD_VALUE_DIM_STRIDE, dim_stride(*desc.grad_value, attention.value_dim)},
      {VKATTN_SPEC_GRAD_QUERY_VECTORS, flag(has_vector_loads(*desc.grad_query, queries))},
      {VKATTN_SPEC_GRAD_KEY_VECTORS, flag(has_vector_loads(*desc.grad_key, keys))},
      {VKATTN_SPEC_GRAD_VALUE_VECTORS, flag(has_vector_loads(*desc.grad_value, keys))},
      {VKATTN_SPEC_GRAD_QUERY_SUMS_APART, flag(sums_lie_apart(*desc.grad_query, request.layout))},
      {VKATTN_SPEC_GRAD_KEY_SUMS_APART, flag(sums_lie_apart(*desc.grad_key, request.layout))},
      {VKATTN_SPEC_GRAD_VALUE_SUMS_APART, flag(sums_lie_apart(*desc.grad_value, request.layout))},
      {VKATTN_SPEC_GRAD_MASK_TYPE, desc.has_grad_mask ? type(*desc.grad_mask) : 0U},
      {VKATTN_SPEC_HAS_GRAD_LSE, flag(desc.has_grad_lse)},
      {VKATTN_SPEC_HAS_GRAD_QUERY, flag(desc.has_grad_query)},
      {VKATTN_SPEC_HAS_GRAD_KEY, flag(desc.has_grad_key)},
      {VKATTN_SPEC_HAS_GRAD_VALUE, flag(desc.has_grad_value)},
      {VKATTN_SPEC_HAS_GRAD_SLOPES, flag(desc.has_grad_alibi_slopes)},
      {VKATTN_SPEC_HAS_GRAD_SINKS, flag(desc.has_grad_sinks)},
      {VKATTN_SPEC_PAIR_TILE, request.kernel.pair_tile},
      {VKATTN_SPEC_PAIRS_APART, flag(request.kernel.pairs_apart)},
      {VKATTN_SPEC_KEEPS_GRADIENTS, flag(request.layout.keeps_gradients)},
      {VKATTN_SPEC_KEEPS_DELTAS, flag(request.layout.keeps_deltas)},
      {VKATTN_SPEC_KEEPS_SCORE_GRADIENTS, flag(request.layout.keeps_score_gradients)},
      {VKATTN_SPEC_SCALED_FACTORS, request.layout.scale.scaled_factors()},
  };
  values.insert(values.end(), std::begin(all), std::end(all));
  return values;
}

// --- Tensors and bindings ---

Result<void> check_sizes(const Request& request, const TensorWindows& whole) {
  const auto check = [&](std::string_view name, std::uint64_t bytes) {
    return check_tensor_bytes(name, bytes, request.capabilities,
                              ", so give the backward pass fewer batch entries or heads at once");
  };
  for (const TensorRow& row : tensor_table()) {
    if (!row.is_used(request.desc.attention)) continue;
    if (Result<void> s = check(row.name, static_cast<std::uint64_t>(whole[row.binding].bytes)); !s) return s;
  }
  for (const GradientRow& row : tensor_table<BackwardTensors>()) {
    if (Result<void> s = check(row.name, row.bytes(request.desc)); !s) return s;
  }
  return {};
}

void add_gradients(const Request& request, ProgramDesc& program, ProgramSet& set) {
  set.bindings.resize(VKATTN_BACKWARD_BINDING_COUNT);
  for (std::size_t i = binding_count(request.desc.attention); i < set.bindings.size(); ++i) {
    set.bindings[i].index = i >= VKATTN_BINDING_GRAD_QUERY ? VKATTN_BINDING_PAIRS : VKATTN_BINDING_QUERY;
  }
  for (const GradientRow& row : tensor_table<BackwardTensors>()) {
    bind_whole(row, request.desc, program.tensors.size(), set.bindings[row.binding]);
    program.tensors.push_back(program_tensor(row, request.desc));
    add_offset_word(row, program);
  }
}

// The backward pass reads the tensors that the forward pass has written.
ProgramDesc program_of_inputs(const AttentionDesc& attention, const TensorWindows& whole) {
  ProgramDesc program = attention_program(attention, whole);
  for (ProgramTensor& tensor : program.tensors) tensor.written = false;
  return program;
}

ProgramDesc program_without_passes(const Request& request, const TensorWindows& whole) {
  const AttentionDesc& attention = request.desc.attention;
  const BackwardLayout& layout = request.layout;
  ProgramDesc program = program_of_inputs(attention, whole);
  program.layout().binding_count = VKATTN_BACKWARD_BINDING_COUNT;
  for (const PassConfig* const pass : {&request.kernel.rows, &request.kernel.keys}) {
    add_addresses(pass->by_address, program.layout());
  }
  program.workspace_bytes = layout.workspace_bytes;
  add_dropout_words(program);
  ProgramSet set;
  set.bindings = window_bindings(attention, whole, whole);
  add_gradients(request, program, set);
  bind_area(layout.pairs, set.bindings[VKATTN_BINDING_PAIRS]);
  bind_area(layout.sums, set.bindings[VKATTN_BINDING_SUMS]);
  set.bindings[VKATTN_BINDING_FEATURE_PARAMS].from = ProgramBinding::From::kParameters;
  PlannedWindow window;
  window.window = whole_window(attention);
  set.push_constants = bytes_of(window_params(attention, {layout.chunks, layout.chunk_keys}, window.window));
  set.parameters = bytes_of(window_feature_params(attention, window));
  const std::vector<std::byte> own = bytes_of(backward_params(request));
  set.parameters.insert(set.parameters.end(), own.begin(), own.end());
  set.parameters_byte = layout.parameters.offset;
  program.sets.push_back(std::move(set));
  return program;
}

// --- Passes ---

/// Units of one chunk.
struct PassWork {
  std::uint64_t units = 0;
  std::uint64_t units_per_group = 1;
  double unit_flops = 0;
};

Result<void> add_pass(const Request& request, const PassConfig& config, const PassWork& work,
                      std::uint32_t chunk, ProgramDesc& program) {
  const auto code = built_shader(shader_binaries(), config.shader);
  if (!code) return code.error();
  const auto index = static_cast<std::uint32_t>(program.passes.size());
  // Each waits: a pass writes over the pairs of the chunk before, or reads what another pass has left.
  program.passes.push_back(configured_pass(config, *code, constants(request, config)));
  UnitLimits limits = dispatch_limits(request.capabilities, request.options.max_dispatch_ns,
                                      work.unit_flops / assumed_flops_per_ns(request.capabilities));
  limits.units_per_group = work.units_per_group;
  limits.most_units = limits.most_units / work.units_per_group * work.units_per_group;
  const std::size_t first_step = program.steps.size();
  add_steps(program, index, 0, work.units, limits, request.capabilities);
  // Units are counted on from chunk to chunk.
  for (std::size_t i = first_step; i < program.steps.size(); ++i) {
    program.steps[i].first_unit += static_cast<std::uint32_t>(chunk * work.units);
  }
  return {};
}

std::uint64_t heads_of_batch(const AttentionDesc& desc) {
  return static_cast<std::uint64_t>(desc.batch) * static_cast<std::uint64_t>(desc.kv_heads);
}

PassWork rows_work(const Request& request) {
  const AttentionDesc& desc = request.desc.attention;
  const auto rows = static_cast<std::uint64_t>(whole_window(desc).rows);
  const auto group = static_cast<std::uint64_t>(desc.query_heads / desc.kv_heads);
  const std::uint64_t tile = request.kernel.row_tile;
  const std::uint64_t tiles =
      request.kernel.packs_heads ? divide_up(rows * group, tile) : group * divide_up(rows, tile);
  const auto dims = static_cast<double>(request.layout.keeps_gradients ? desc.head_dim
                                                                       : 2 * desc.head_dim + desc.value_dim);
  return {heads_of_batch(desc) * tiles, 1, 2.0 * dims * request.kernel.row_tile * request.layout.chunk_keys};
}

// Each row of each query head is a unit.
PassWork numbers_work(const Request& request) {
  return {request.layout.rows, request.kernel.numbers.workgroup_size / VKATTN_BACKWARD_ROW_THREADS,
          2.0 * static_cast<double>(request.desc.attention.value_dim)};
}

PassWork keys_work(const Request& request) {
  const AttentionDesc& desc = request.desc.attention;
  const double products = request.kernel.keeps_pairs ? 1 : 2;  // of each dim of a pair
  const auto dims = products * static_cast<double>(desc.head_dim + desc.value_dim);
  const std::uint64_t tiles = divide_up(request.layout.chunk_keys, request.kernel.key_tile);
  return {heads_of_batch(desc) * 2 * tiles / request.kernel.gradients_per_workgroup, 1,
          2.0 * dims * request.kernel.key_tile * static_cast<double>(packed_rows(desc))};
}

PassWork mask_work(const Request& request, const PassConfig& pass) {
  const std::uint64_t units = mask_sum_units(request.desc, request.layout.chunk_keys);
  const double pairs = static_cast<double>(request.layout.rows) * request.layout.chunk_keys;
  return {units, pass.workgroup_size, 4 * pairs / static_cast<double>(std::max<std::uint64_t>(units, 1))};
}

// An element of the mask's gradient is a sum over all scores that the element was broadcast to.
std::int64_t iterations_of_mask(const BackwardDesc& desc, const BackwardLayout& layout) {
  const AttentionDesc& attention = desc.attention;
  const TensorExtents mask = row_of(&BackwardTensors::grad_mask).extents(desc);
  const auto summed = [](std::int64_t all, std::int64_t kept) {
    return all / std::max<std::int64_t>(kept, 1);
  };
  const std::int64_t heads =
      saturating_multiply(summed(attention.batch, mask.batch), summed(attention.query_heads, mask.heads));
  const std::int64_t keys = mask_sums_all_keys(desc) ? layout.chunk_keys : 1;
  return saturating_multiply(saturating_multiply(heads, summed(attention.query_length, mask.rows)), keys + 3);
}

// A thread of a head's sums has its share of the rows of each batch entry.
std::int64_t iterations_of_heads(const AttentionDesc& desc) {
  const std::int64_t threads = configure_head_sums().workgroup_size;
  return saturating_multiply(desc.batch, desc.query_length / threads + 2) + threads;
}

// Checks the most iterations of one invocation, in all loops that the compiler may keep.
Result<void> check_loops(const Request& request) {
  const AttentionDesc& desc = request.desc.attention;
  const std::int64_t of_rows = iterations_over_chunk(desc, request.layout.chunk_keys);
  const std::int64_t of_keys =
      (packed_rows(desc) / kMaskedStep + 1) * iterations_over_dims(desc) + 3 * desc.head_dim;
  std::int64_t most = std::max(of_rows, of_keys);
  if (request.desc.has_grad_mask) most = std::max(most, iterations_of_mask(request.desc, request.layout));
  if (request.desc.has_grad_alibi_slopes || request.desc.has_grad_sinks) {
    most = std::max(most, iterations_of_heads(desc));
  }
  return check_iterations(request.capabilities, most);
}

Result<void> add_passes(const Request& request, ProgramDesc& program) {
  const BackwardDesc& desc = request.desc;
  const auto add = [&](const PassConfig& pass, const PassWork& work, std::uint32_t chunk) {
    return add_pass(request, pass, work, chunk, program);
  };
  // Without keys the later passes have nothing to write.
  const bool has_keys = desc.attention.kv_length != 0;
  const auto add_rows = [&](std::uint32_t chunk) -> Result<void> {
    if (!runs_rows(desc, request.kernel)) return {};
    return add(request.kernel.rows, rows_work(request), chunk);
  };
  const auto add_keys = [&](std::uint32_t chunk) -> Result<void> {
    if (!has_keys || (!desc.has_grad_key && !desc.has_grad_value)) return {};
    if (Result<void> s = add(request.kernel.keys, keys_work(request), chunk); !s) return s;
    // If nothing is kept, this pass needs the rows' numbers alone, as the rows' pass does before it.
    const bool shares_barrier = !request.kernel.keeps_pairs && !request.layout.keeps_gradients;
    if (shares_barrier && runs_rows(desc, request.kernel)) program.passes.back().barrier.reset();
    return {};
  };
  if (runs_numbers(request.kernel)) {
    if (Result<void> s = add(request.kernel.numbers, numbers_work(request), 0); !s) return s;
  }
  for (std::uint32_t chunk = 0; chunk < request.layout.chunks; ++chunk) {
    const bool keys_first = request.layout.keeps_gradients;
    if (Result<void> s = keys_first ? add_keys(chunk) : add_rows(chunk); !s) return s;
    if (Result<void> s = keys_first ? add_rows(chunk) : add_keys(chunk); !s) return s;
    if (!has_keys || !desc.has_grad_mask) continue;
    const PassConfig pass = configure_mask_sums(desc, request.capabilities);
    if (Result<void> s = add(pass, mask_work(request, pass), chunk); !s) return s;
  }
  if (!desc.has_grad_alibi_slopes && !desc.has_grad_sinks) return {};
  const PassWork work{static_cast<std::uint64_t>(desc.attention.query_heads), 1, 0};
  if (Result<void> s = add(configure_head_sums(), work, 0); !s) return s;
  // It reads what the rows' pass has left, or the first of three or more passes, after which the second has
  // waited.
  if (runs_numbers(request.kernel) && program.passes.size() > 2) program.passes.back().barrier.reset();
  return {};
}

}  // namespace

Result<ProgramDesc> backward_program(const BackwardDesc& desc, const Capabilities& capabilities,
                                     const BackwardKernel& kernel, const BackwardLayout& layout,
                                     const PlanOptions& options) {
  const Request request{desc, capabilities, kernel, layout, options};
  const AttentionDesc& attention = desc.attention;
  const TensorWindows whole = tensor_windows(attention, whole_window(attention));
  if (Result<void> s = check_sizes(request, whole); !s) return s.error();
  if (Result<void> s = check_loops(request); !s) return s.error();
  if (attention.batch == 0 || attention.query_heads == 0) {
    ProgramDesc nothing = program_of_inputs(attention, whole);
    ProgramSet set;
    add_gradients(request, nothing, set);
    return nothing;
  }
  ProgramDesc program = program_without_passes(request, whole);
  if (Result<void> s = add_passes(request, program); !s) return s.error();
  return program;
}

}  // namespace vkattn::detail
