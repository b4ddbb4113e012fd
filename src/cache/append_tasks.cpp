// The passes of an append: see append_tasks.hpp.
#include "cache/append_tasks.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "attention/features.hpp"
#include "cache/append_tensors.hpp"
#include "cache/rotary.hpp"
#include "common/checked.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "operation/table_tensors.hpp"
#include "shared/attention_constants.h"
#include "shared/cache_constants.h"
#include "vkattn_core_shaders.hpp"
#include "vulkan/loop_limit.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::detail {

static_assert(sizeof(AppendParams) <= 128, "push constants of 128 bytes are all that every device has");
static_assert(offsetof(AppendParams, unit_count) == offsetof(AppendParams, first_unit) + 4,
              "ProgramLayout::units_byte");

namespace {

/// Invocations of a workgroup.
constexpr std::uint32_t kWorkgroup = 64;
// Some 500 MB of traffic: some ten milliseconds on the slowest devices that are no CPU.
constexpr std::uint64_t kMaxUnitsPerDispatch = std::uint64_t{1} << 22;

/// The conversion of one tensor, or the writing of lengths.
struct Task {
  std::string_view name;  ///< keys, values, queries, lengths
  std::string_view shader;
  SpecializationValues specialization;
  ProgramSet set;
  AppendParams params{};    ///< without offsets and units
  std::uint64_t units = 0;  ///< invocations
};

/// A tensor of rows with its target.
struct Rows {
  std::string_view name;
  BufferRange AppendTensors::*source;
  BufferRange AppendTensors::*target;
  BufferRange AppendTensors::*scales;
  bool rotated;
  bool cached;
};

constexpr std::array kRows{
    Rows{"keys", &AppendTensors::key, &AppendTensors::cache_key, &AppendTensors::key_scales, true, true},
    Rows{"values", &AppendTensors::value, &AppendTensors::cache_value, &AppendTensors::value_scales, false,
         true},
    Rows{"queries", &AppendTensors::query, &AppendTensors::query_output, nullptr, true, false}};

/// Makes tasks, and adds the tensors that they use to the program.
class TaskMaker {
 public:
  TaskMaker(const AppendDesc& desc, const Capabilities& capabilities, ProgramDesc& program)
      : desc_(desc), capabilities_(capabilities), program_(program) {
    program_.tensors.resize(TensorTable<AppendTensors>::kCount);
    for (const AppendTensorRow& row : tensor_table<AppendTensors>()) add_offset_word(row, program_);
  }

  [[nodiscard]] Result<Task> rows_task(const Rows& rows);
  [[nodiscard]] Result<Task> lengths_task();

 private:
  [[nodiscard]] Task begin(std::string_view name, std::uint32_t what) const;
  [[nodiscard]] Result<void> bind(Task& task, BufferRange AppendTensors::*range);
  [[nodiscard]] Result<void> bind_lengths(Task& task);
  [[nodiscard]] Result<void> bind_rows(Task& task, const Rows& rows);

  const AppendDesc& desc_;
  const Capabilities& capabilities_;
  ProgramDesc& program_;
};

Task TaskMaker::begin(std::string_view name, std::uint32_t what) const {
  Task task;
  task.name = name;
  task.shader = "cache_append_words";
  task.set.bindings.resize(VKATTN_APPEND_BINDING_COUNT);
  task.params.new_length = static_cast<std::uint32_t>(desc_.new_length);
  task.params.position = desc_.has_positions ? 0 : static_cast<std::int32_t>(desc_.position);
  task.params.capacity = static_cast<std::uint32_t>(append_capacity(desc_));
  if (desc_.new_lengths == Lengths::kPacked) {
    task.params.batch = static_cast<std::uint32_t>(desc_.batch);
    task.params.total_new_length = static_cast<std::uint32_t>(desc_.total_new_length);
  }
  task.specialization = {
      {VKATTN_APPEND_SPEC_WORKGROUP_SIZE, kWorkgroup},
      {VKATTN_APPEND_SPEC_HAS_POSITIONS, desc_.has_positions ? 1U : 0U},
      {VKATTN_APPEND_SPEC_HAS_NEW_LENGTHS, desc_.new_lengths == Lengths::kPerEntry ? 1U : 0U},
      {VKATTN_APPEND_SPEC_PACKED_ROWS, desc_.new_lengths == Lengths::kPacked ? 1U : 0U},
      {VKATTN_APPEND_SPEC_TASK, what}};
  return task;
}

// Binds a tensor if the descriptor uses it.
Result<void> TaskMaker::bind(Task& task, BufferRange AppendTensors::*range) {
  const std::size_t index = tensor_index(range);
  const AppendTensorRow& row = row_of(range);
  if (row.bytes(desc_) == 0) return {};
  auto tensor = whole_tensor(row, desc_, capabilities_);
  if (!tensor) return tensor.error();
  program_.tensors[index] = *std::move(tensor);
  bind_whole(row, desc_, index, task.set.bindings[row.binding]);
  return {};
}

// The tensors with positions and numbers of rows.
Result<void> TaskMaker::bind_lengths(Task& task) {
  if (Result<void> s = bind(task, &AppendTensors::positions); !s) return s;
  if (Result<void> s = bind(task, &AppendTensors::new_lengths); !s) return s;
  return bind(task, &AppendTensors::cumulative_new_lengths);
}

Result<void> TaskMaker::bind_rows(Task& task, const Rows& rows) {
  if (Result<void> s = bind(task, rows.source); !s) return s;
  if (Result<void> s = bind(task, rows.target); !s) return s;
  if (Result<void> s = bind_lengths(task); !s) return s;
  if (rows.rotated) {
    if (Result<void> s = bind(task, &AppendTensors::frequencies); !s) return s;
  }
  if (!rows.cached) return {};
  if (Result<void> s = bind(task, &AppendTensors::page_table); !s) return s;
  return bind(task, rows.scales);
}

/// Storage and extents of a tensor of rows.
struct Side {
  TensorDesc tensor;
  TensorExtents extents;
};

Side side_of(const AppendDesc& desc, BufferRange AppendTensors::*range) {
  const AppendTensorRow& row = row_of(range);
  return {row.storage(desc), row.extents(desc)};
}

// Whether two tensors have the same type, extents and strides. Strides that are not used do not count.
bool lies_as(const Side& side, const Side& other) {
  const auto same = [](std::int64_t stride, std::int64_t of_other, std::int64_t extent) {
    return extent <= 1 || stride == of_other;
  };
  const Strides &s = *side.tensor.strides, &o = *other.tensor.strides;
  const TensorExtents& e = side.extents;
  return side.tensor.type == other.tensor.type && e == other.extents && same(s.batch, o.batch, e.batch) &&
         same(s.head, o.head, e.heads) && same(s.row, o.row, e.rows) && same(s.dim, o.dim, e.dims);
}

void add_strides(const Side& source, const Side& target, AppendParams& params) {
  const auto strides = [](const Side& side) {
    const Strides& s = *side.tensor.strides;
    const std::int64_t block = block_elements(side.tensor.type);  // strides of blocks are counted in blocks
    return std::array{stride32(s.batch / block, side.extents.batch),
                      stride32(s.head / block, side.extents.heads),
                      stride32(s.row / block, side.extents.rows)};
  };
  const auto from = strides(source);
  const auto to = strides(target);
  params.source_batch_stride = from[0];
  params.source_head_stride = from[1];
  params.source_row_stride = from[2];
  params.target_batch_stride = to[0];
  params.target_head_stride = to[1];
  params.target_row_stride = to[2];
  params.heads = static_cast<std::uint32_t>(source.extents.heads);
}

// Invocations for one row (units_per_row() of the shader).
std::int64_t units_per_row(DataType target, std::int64_t dims, const RotaryDesc& rotary) {
  if (block_elements(target) > 1) return dims / block_elements(target);
  if (rotary.style != RotaryStyle::kHalfSplit) return divide_up(dims, std::int64_t{8});
  return divide_up(rotary.dims / 2, std::int64_t{4}) + divide_up(dims - rotary.dims, std::int64_t{8});
}

void specialize_rows(const Side& source, const Side& target, const CacheLayout* cache,
                     const RotaryDesc& rotary, SpecializationValues& values) {
  const auto quads = [&](const Side& side) {
    const bool halves_aligned = rotary.style != RotaryStyle::kHalfSplit || rotary.dims / 2 % 4 == 0;
    return halves_aligned && has_vector_loads(side.tensor, side.extents) ? 1U : 0U;
  };
  const auto dim_stride = [&](const TensorDesc& tensor) {
    return source.extents.dims > 1 ? static_cast<std::uint32_t>(tensor.strides->dim) : 1U;
  };
  std::uint32_t mapping = VKATTN_APPEND_SAME_ROW;
  std::int64_t mapped_rows = 1;
  if (cache != nullptr) {
    mapping = static_cast<std::uint32_t>(cache->mapping);
    if (cache->mapping == KeyMapping::kRing) mapped_rows = cache->ring_length;
    if (cache->mapping == KeyMapping::kPaged) mapped_rows = cache->page_size;
  }
  const SpecializationValues own{
      {VKATTN_APPEND_SPEC_DIMS, static_cast<std::uint32_t>(source.extents.dims)},
      {VKATTN_APPEND_SPEC_SOURCE_TYPE, static_cast<std::uint32_t>(source.tensor.type)},
      {VKATTN_APPEND_SPEC_TARGET_TYPE, static_cast<std::uint32_t>(target.tensor.type)},
      {VKATTN_APPEND_SPEC_SOURCE_DIM_STRIDE, dim_stride(source.tensor)},
      {VKATTN_APPEND_SPEC_TARGET_DIM_STRIDE, dim_stride(target.tensor)},
      {VKATTN_APPEND_SPEC_SOURCE_QUADS, quads(source)},
      {VKATTN_APPEND_SPEC_TARGET_QUADS, quads(target)},
      {VKATTN_APPEND_SPEC_MAPPING, mapping},
      {VKATTN_APPEND_SPEC_MAPPED_ROWS, static_cast<std::uint32_t>(mapped_rows)}};
  values.insert(values.end(), own.begin(), own.end());
  const SpecializationValues rotation = rotary_specialization(rotary);
  values.insert(values.end(), rotation.begin(), rotation.end());
}

Result<Task> TaskMaker::rows_task(const Rows& rows) {
  Task task = begin(rows.name, VKATTN_APPEND_ROWS);
  if (Result<void> s = bind_rows(task, rows); !s) return s.error();
  const Side source = side_of(desc_, rows.source);
  const Side target = side_of(desc_, rows.target);
  const RotaryDesc rotary = rows.rotated ? desc_.rotary : RotaryDesc{};
  add_strides(source, target, task.params);
  specialize_rows(source, target, rows.cached ? &desc_.cache : nullptr, rotary, task.specialization);
  const bool has_halves = element_bytes(source.tensor.type) == 2 || element_bytes(target.tensor.type) == 2;
  if (capabilities_.storage_buffer_16bit && has_halves) task.shader = "cache_append";
  if (rows.cached && desc_.cache.mapping == KeyMapping::kPaged) {
    task.params.page_table_stride = static_cast<std::uint32_t>(desc_.cache.page_table_stride);
    task.params.page_count = static_cast<std::uint32_t>(desc_.cache.page_count);
  }
  const TensorExtents& e = source.extents;
  const std::int64_t row_count = saturating_multiply(e.batch * e.heads, e.rows);
  task.units = static_cast<std::uint64_t>(
      saturating_multiply(row_count, units_per_row(target.tensor.type, e.dims, rotary)));
  return task;
}

Result<Task> TaskMaker::lengths_task() {
  Task task = begin("lengths", VKATTN_APPEND_LENGTHS);
  if (Result<void> s = bind_lengths(task); !s) return s.error();
  if (Result<void> s = bind(task, &AppendTensors::kv_lengths); !s) return s.error();
  task.units = static_cast<std::uint64_t>(desc_.batch);
  return task;
}

// Every descriptor must be valid even if the shader touches nothing through it. The first input stands in for
// missing tensors, or the written tensor if there is no input.
void set_stand_ins(std::vector<ProgramBinding>& bindings) {
  std::uint32_t stand_in = VKATTN_APPEND_BINDING_TARGET;
  for (std::uint32_t i = VKATTN_APPEND_BINDING_COUNT; i-- > 0;) {
    const bool is_bound = bindings[i].from != ProgramBinding::From::kStandIn;
    if (i != VKATTN_APPEND_BINDING_TARGET && is_bound) stand_in = i;
  }
  for (ProgramBinding& binding : bindings) {
    if (binding.from == ProgramBinding::From::kStandIn) binding.index = stand_in;
  }
}

Result<void> add_task(Task task, const Capabilities& capabilities, ProgramDesc& program) {
  constexpr std::uint64_t kMaxUnits = ~std::uint32_t{0};
  if (task.units > kMaxUnits) {
    return limit_exceeded("the ", task.name, " take ", task.units, " invocations; at most ", kMaxUnits,
                          " are possible, so split the batch");
  }
  const auto code = built_shader(shader_binaries(), task.shader);
  if (!code) return code.error();
  set_stand_ins(task.set.bindings);
  task.set.push_constants = bytes_of(task.params);
  const auto index = static_cast<std::uint32_t>(program.passes.size());
  ProgramPass pass;
  pass.name = task.name;
  pass.shader = task.shader;
  pass.code = *code;
  pass.specialization = std::move(task.specialization);
  pass.workgroup_size = kWorkgroup;
  // Lengths may be written over the positions that earlier tasks read, so these must be done.
  if (task.name == "lengths" && index > 0)
    pass.barrier = PassBarrier{VK_ACCESS_SHADER_READ_BIT, VK_ACCESS_SHADER_WRITE_BIT};
  program.passes.push_back(std::move(pass));
  program.sets.push_back(std::move(task.set));
  add_steps(program, index, index, task.units, {kWorkgroup, kMaxUnitsPerDispatch, 0}, capabilities);
  return {};
}

// Queries may be turned in place, and lengths may be written over the positions that they follow from.
void allow_in_place(const AppendDesc& desc, ProgramDesc& program) {
  const auto allow = [&](BufferRange AppendTensors::*written, BufferRange AppendTensors::*over) {
    program.tensors[tensor_index(written)].in_place_of = static_cast<std::uint32_t>(tensor_index(over));
  };
  if (lies_as(side_of(desc, &AppendTensors::query_output), side_of(desc, &AppendTensors::query)))
    allow(&AppendTensors::query_output, &AppendTensors::query);
  allow(&AppendTensors::kv_lengths, &AppendTensors::positions);
}

}  // namespace

Result<ProgramDesc> append_program(const AppendDesc& desc, const Capabilities& capabilities) {
  ProgramDesc program;
  program.layout().binding_count = VKATTN_APPEND_BINDING_COUNT;
  program.layout().push_constant_bytes = sizeof(AppendParams);
  program.layout().units_byte = offsetof(AppendParams, first_unit);
  // A packed row may search all batch entries for its own.
  if (desc.new_lengths == Lengths::kPacked) {
    if (Result<void> s = check_iterations(capabilities, desc.batch + 1024); !s) return s.error();
  }
  TaskMaker maker(desc, capabilities, program);
  for (const Rows& rows : kRows) {
    const TensorExtents e = row_of(rows.source).extents(desc);
    if (desc.batch == 0 || most_new_rows(desc) == 0 || e.heads == 0 || e.dims == 0) continue;
    auto task = maker.rows_task(rows);
    if (!task) return task.error();
    if (Result<void> s = add_task(*std::move(task), capabilities, program); !s) return s.error();
  }
  if (desc.writes_kv_lengths && desc.batch != 0) {
    auto task = maker.lengths_task();
    if (!task) return task.error();
    if (Result<void> s = add_task(*std::move(task), capabilities, program); !s) return s.error();
  }
  allow_in_place(desc, program);
  return program;
}

}  // namespace vkattn::detail
