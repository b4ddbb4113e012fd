// Matrix multiplication: tensors, parameters, and the passes.
#include "matmul/matmul_program.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "common/checked.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/split.hpp"
#include "matmul/matmul_copies.hpp"
#include "matmul/matmul_tensors.hpp"
#include "operation/own_addresses.hpp"
#include "operation/table_tensors.hpp"
#include "program/dispatch_limits.hpp"
#include "shared/matmul_constants.h"
#include "vkattn_core_shaders.hpp"
#include "vulkan/loop_limit.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::detail {

static_assert(sizeof(MatmulParams) <= 128, "push constants of 128 bytes are all that every device has");
static_assert(offsetof(MatmulParams, unit_count) == offsetof(MatmulParams, first_unit) + 4,
              "ProgramLayout::units_byte");

namespace {

constexpr std::uint32_t kCombineWorkgroup = 64;
constexpr std::uint32_t kCopyWorkgroup = 8;
constexpr std::int64_t kCopyQuad = 4;  // an invocation copies so many outer by so many inner elements
// Fewer elements are not worth a pass more.
constexpr std::int64_t kMinPart = 256;
constexpr std::int64_t kMaxParts = 64;

std::int64_t blocks(const MatmulConfig& config) {
  const MatmulView& view = config.view;
  return saturating_multiply(
      view.batch, saturating_multiply(divide_up(view.rows, std::int64_t{config.block_rows}),
                                      divide_up(view.columns, std::int64_t{config.block_columns})));
}

std::array<const MatmulOperand*, 2> operands_of(const MatmulView& view) {
  return {&view.a, &view.b};
}

/// The areas of the workspace.
struct MatmulAreas {
  std::uint64_t partials_bytes = 0;           ///< from its beginning on
  std::array<std::uint64_t, 2> copy_bytes{};  ///< of the view's a and b; 0: not copied
  std::array<std::uint64_t, 2> copy_byte{};   ///< where they begin
  std::uint64_t bytes = 0;
};

Result<MatmulAreas> areas_of(const MatmulConfig& config, const InnerSplit& split,
                             const Capabilities& capabilities) {
  const MatmulView& view = config.view;
  MatmulAreas areas;
  if (split.parts > 1) {
    areas.partials_bytes =
        static_cast<std::uint64_t>(split.parts * view.batch * view.rows * view.columns) * 4;
    if (areas.partials_bytes > capabilities.max_storage_buffer_range) {
      return limit_exceeded("the sums of ", split.parts, " parts take ", areas.partials_bytes,
                            " bytes of workspace; maxStorageBufferRange is ",
                            capabilities.max_storage_buffer_range, ", so ask for fewer inner_splits");
    }
  }
  areas.bytes = areas.partials_bytes;
  const std::uint64_t alignment = binding_alignment(capabilities);
  for (std::size_t i = 0; i < 2; ++i) {
    const MatmulOperand& operand = *operands_of(view)[i];
    if (!operand.is_copied) continue;
    areas.copy_byte[i] = round_up(areas.bytes, alignment);
    areas.copy_bytes[i] = copy_bytes(operand, view);
    if (areas.copy_bytes[i] > capabilities.max_storage_buffer_range) {
      return limit_exceeded("a copy of an operand takes ", areas.copy_bytes[i],
                            " bytes of workspace; maxStorageBufferRange is ",
                            capabilities.max_storage_buffer_range, ", so ask for no PlanOptions::copies");
    }
    areas.bytes = areas.copy_byte[i] + areas.copy_bytes[i];
  }
  const BufferLimit limit = buffer_limit(capabilities);
  if (areas.bytes > limit.bytes) {
    return limit_exceeded("the workspace takes ", areas.bytes, " bytes; ", limit.name, " is ", limit.bytes,
                          ", so ask for fewer inner_splits or copies");
  }
  return areas;
}

MatmulParams params_of(const MatmulView& view, const InnerSplit& split) {
  MatmulParams params{};
  params.a_batch_stride = narrow(view.a.batch_stride);
  params.a_outer_stride = narrow(view.a.outer_stride);
  params.a_inner_stride = narrow(view.a.inner_stride);
  params.b_batch_stride = narrow(view.b.batch_stride);
  params.b_outer_stride = narrow(view.b.outer_stride);
  params.b_inner_stride = narrow(view.b.inner_stride);
  params.output_batch_stride = narrow(view.output.batch);
  params.output_row_stride = narrow(view.output.row);
  params.output_column_stride = narrow(view.output.column);
  params.bias_row_stride = view.bias_by_row ? 1 : 0;
  params.bias_column_stride = view.bias_by_row ? 0 : 1;
  params.batch = narrow(view.batch);
  params.rows = narrow(view.rows);
  params.columns = narrow(view.columns);
  params.inner = narrow(view.inner);
  params.parts = narrow(split.parts);
  params.part_inner = narrow(split.inner);
  return params;
}

void bind(const MatmulDesc& desc, std::size_t index, ProgramBinding& binding) {
  binding.index = VKATTN_MATMUL_BINDING_OUTPUT;  // what stands in where nothing is bound
  bind_whole(tensor_table<MatmulTensors>()[index], desc, index, binding);
}

ProgramSet set_with(const MatmulParams& params) {
  ProgramSet set;
  set.bindings.resize(VKATTN_MATMUL_BINDING_COUNT);
  set.push_constants = bytes_of(params);
  return set;
}

void bind_workspace(std::uint64_t first_byte, std::uint64_t bytes, ProgramBinding& binding) {
  binding.from = ProgramBinding::From::kWorkspace;
  binding.workspace_byte = first_byte;
  binding.bytes = bytes;
}

/// Adds the set of the product and of the pass that adds up its parts.
void add_set(const MatmulDesc& desc, const MatmulConfig& config, const InnerSplit& split,
             const MatmulAreas& areas, ProgramDesc& program) {
  ProgramSet set = set_with(params_of(config.view, split));
  add_address_offsets(
      config.own_addresses, [](std::uint32_t) { return std::uint64_t{0}; }, set.push_constants);
  for (std::size_t i = 0; i < 2; ++i) {
    const MatmulOperand& operand = *operands_of(config.view)[i];
    ProgramBinding& binding = set.bindings[i == 0 ? VKATTN_MATMUL_BINDING_A : VKATTN_MATMUL_BINDING_B];
    if (operand.is_copied) {
      bind_workspace(areas.copy_byte[i], areas.copy_bytes[i], binding);
    } else {
      bind(desc, operand.tensor, binding);
    }
  }
  bind(desc, tensor_index(&MatmulTensors::bias), set.bindings[VKATTN_MATMUL_BINDING_BIAS]);
  bind(desc, tensor_index(&MatmulTensors::output), set.bindings[VKATTN_MATMUL_BINDING_OUTPUT]);
  ProgramBinding& partials = set.bindings[VKATTN_MATMUL_BINDING_PARTIALS];
  partials.index = VKATTN_MATMUL_BINDING_OUTPUT;
  if (split.parts > 1) bind_workspace(0, areas.partials_bytes, partials);
  program.sets.push_back(std::move(set));
}

SpecializationValues constants_of(const MatmulDesc& desc, const MatmulConfig& config, bool splits) {
  SpecializationValues values = config.constants;
  const auto add = [&](std::uint32_t id, auto value) {
    values.push_back({id, static_cast<std::uint32_t>(value)});
  };
  add(VKATTN_MATMUL_SPEC_WORKGROUP_SIZE, config.workgroup_size);
  add(VKATTN_MATMUL_SPEC_A_TYPE, config.view.a.type);
  add(VKATTN_MATMUL_SPEC_B_TYPE, config.view.b.type);
  add(VKATTN_MATMUL_SPEC_BIAS_TYPE, desc.bias_type);
  add(VKATTN_MATMUL_SPEC_OUTPUT_TYPE, desc.output.type);
  add(VKATTN_MATMUL_SPEC_A_LOADS, config.view.a.loads);
  add(VKATTN_MATMUL_SPEC_B_LOADS, config.view.b.loads);
  add(VKATTN_MATMUL_SPEC_HAS_BIAS, desc.has_bias);
  add(VKATTN_MATMUL_SPEC_ACCUMULATES, desc.accumulates);
  add(VKATTN_MATMUL_SPEC_SPLIT, splits);
  add(VKATTN_MATMUL_SPEC_ROWS, config.tile.rows);
  add(VKATTN_MATMUL_SPEC_COLUMNS, config.columns);
  add(VKATTN_MATMUL_SPEC_INNER, config.tile.inner);
  return values;
}

/// Appends a pass over so many units, on the last set.
Result<void> add_pass(ProgramPass pass, std::uint64_t units, UnitLimits limits,
                      const Capabilities& capabilities, ProgramDesc& program) {
  const auto code = built_shader(shader_binaries(), pass.shader);
  if (!code) return code.error();
  pass.code = *code;
  const auto index = static_cast<std::uint32_t>(program.passes.size());
  program.passes.push_back(std::move(pass));
  const auto set = static_cast<std::uint32_t>(program.sets.size() - 1);
  add_steps(program, index, set, units, limits, capabilities);
  return {};
}

/// The pass that makes the copy of the view's a or b, with a set of its own.
Result<void> add_copy(const MatmulDesc& desc, const MatmulOperand& given, const MatmulOperand& copy,
                      const MatmulView& view, std::uint64_t copy_byte, const PlanOptions& options,
                      const Capabilities& capabilities, ProgramDesc& program) {
  MatmulParams params{};
  params.a_batch_stride = narrow(given.batch_stride);
  params.a_outer_stride = narrow(given.outer_stride);
  params.a_inner_stride = narrow(given.inner_stride);
  params.output_batch_stride = narrow(copy.batch_stride);
  params.output_row_stride = narrow(copy.outer_stride);
  params.rows = narrow(copy.outer);
  params.inner = narrow(view.inner);
  ProgramSet set = set_with(params);
  bind(desc, given.tensor, set.bindings[VKATTN_MATMUL_BINDING_A]);
  bind_workspace(copy_byte, copy_bytes(copy, view), set.bindings[VKATTN_MATMUL_BINDING_PARTIALS]);
  for (ProgramBinding& binding : set.bindings) {
    if (binding.from == ProgramBinding::From::kStandIn) binding.index = VKATTN_MATMUL_BINDING_A;
  }
  program.sets.push_back(std::move(set));
  ProgramPass pass;
  pass.name = message("copy of ", tensor_table<MatmulTensors>()[given.tensor].name);
  pass.shader = "matmul_copy";
  pass.specialization = {{VKATTN_MATMUL_SPEC_WORKGROUP_SIZE, kCopyWorkgroup},
                         {VKATTN_MATMUL_SPEC_A_TYPE, given.type},
                         {VKATTN_MATMUL_SPEC_A_LOADS, given.loads}};
  pass.workgroup_size = kCopyWorkgroup;
  UnitLimits limits = dispatch_limits(capabilities, options.max_dispatch_ns,
                                      4.0 * kCopyQuad * kCopyQuad / assumed_flops_per_ns(capabilities));
  limits.units_per_group = kCopyWorkgroup;
  const std::int64_t quads = divide_up(copy.outer, kCopyQuad) * divide_up(view.inner, kCopyQuad);
  return add_pass(std::move(pass), static_cast<std::uint64_t>(matrices_of(copy, view) * quads), limits,
                  capabilities, program);
}

Result<void> add_copies(const MatmulDesc& desc, const MatmulConfig& config, const MatmulAreas& areas,
                        const PlanOptions& options, const Capabilities& capabilities, ProgramDesc& program) {
  const MatmulView given = config.view.bias_by_row ? exchanged(view_of(desc)) : view_of(desc);
  for (std::size_t i = 0; i < 2; ++i) {
    const MatmulOperand& copy = *operands_of(config.view)[i];
    if (!copy.is_copied) continue;
    if (Result<void> s = add_copy(desc, *operands_of(given)[i], copy, config.view, areas.copy_byte[i],
                                  options, capabilities, program);
        !s) {
      return s;
    }
  }
  return {};
}

// An invocation visits the inner dimension a step at a time, and what is left of it one by one.
Result<void> check_loops(const MatmulConfig& config, const InnerSplit& split,
                         const Capabilities& capabilities) {
  const std::int64_t step = std::max(config.tile.inner, 1U);
  return check_iterations(capabilities, split.inner / step + step + 1024);
}

Result<void> add_product(const MatmulDesc& desc, const MatmulConfig& config, const InnerSplit& split,
                         const PlanOptions& options, const Capabilities& capabilities, ProgramDesc& program) {
  if (Result<void> s = check_loops(config, split, capabilities); !s) return s;
  ProgramPass pass;
  pass.name = std::string(config.name);
  pass.shader = config.shader;
  pass.specialization = constants_of(desc, config, split.parts > 1);
  pass.workgroup_size = config.workgroup_size;
  pass.required_subgroup_size = config.required_subgroup_size;
  // Waits for the copies that it reads; without copies no pass comes before it.
  pass.barrier = PassBarrier{VK_ACCESS_SHADER_WRITE_BIT, VK_ACCESS_SHADER_READ_BIT};
  const double flops = 2.0 * static_cast<double>(config.block_rows) *
                       static_cast<double>(config.block_columns) * static_cast<double>(split.inner);
  const UnitLimits limits =
      dispatch_limits(capabilities, options.max_dispatch_ns, flops / assumed_flops_per_ns(capabilities));
  return add_pass(std::move(pass), static_cast<std::uint64_t>(blocks(config) * split.parts), limits,
                  capabilities, program);
}

Result<void> add_combine(const MatmulDesc& desc, const MatmulConfig& config, const InnerSplit& split,
                         const PlanOptions& options, const Capabilities& capabilities, ProgramDesc& program) {
  ProgramPass pass;
  pass.name = "combine";
  pass.shader = matmul_shader(desc, capabilities, "matmul_combine");
  MatmulConfig whole = config;
  whole.constants.clear();
  whole.workgroup_size = kCombineWorkgroup;
  pass.specialization = constants_of(desc, whole, true);
  pass.workgroup_size = kCombineWorkgroup;
  pass.barrier = PassBarrier{VK_ACCESS_SHADER_WRITE_BIT, VK_ACCESS_SHADER_READ_BIT};
  UnitLimits limits = dispatch_limits(capabilities, options.max_dispatch_ns,
                                      static_cast<double>(split.parts) / assumed_flops_per_ns(capabilities));
  limits.units_per_group = kCombineWorkgroup;
  const auto elements = static_cast<std::uint64_t>(desc.batch * desc.rows * desc.columns);
  return add_pass(std::move(pass), elements, limits, capabilities, program);
}

}  // namespace

Result<InnerSplit> choose_inner_split(const MatmulConfig& config, const Capabilities& capabilities,
                                      std::uint32_t wanted) {
  const std::int64_t inner = config.view.inner;
  const auto into = [&](std::int64_t parts) {
    if (parts <= 1 || inner == 0) return InnerSplit{1, inner};
    const std::int64_t part = round_up(divide_up(inner, parts), config.part_unit);
    return InnerSplit{divide_up(inner, part), part};
  };
  if (wanted > kMaxParts) {
    return limit_exceeded("inner_splits is ", wanted, " but inner is cut into at most ", kMaxParts, " parts");
  }
  if (wanted != 0) return into(wanted);
  constexpr std::int64_t kGroupsOfUnit = 2;
  const std::int64_t busy = compute_units(capabilities) * (capabilities.is_cpu() ? 1 : kGroupsOfUnit);
  const std::int64_t count = std::max<std::int64_t>(blocks(config), 1);
  return into(std::min({busy / count, inner / kMinPart, kMaxParts}));
}

Result<ProgramDesc> matmul_program(const MatmulDesc& desc, const MatmulConfig& config,
                                   const InnerSplit& split, const PlanOptions& options,
                                   const Capabilities& capabilities) {
  ProgramDesc program;
  program.layout().binding_count = VKATTN_MATMUL_BINDING_COUNT;
  program.layout().push_constant_bytes = sizeof(MatmulParams);
  program.layout().units_byte = offsetof(MatmulParams, first_unit);
  add_own_addresses(config.own_addresses, program.layout());
  if (Result<void> s = add_table_tensors<MatmulTensors>(
          desc, capabilities, ", so multiply fewer rows or columns at once", program);
      !s) {
    return s.error();
  }
  if (desc.batch == 0 || desc.rows == 0 || desc.columns == 0) return program;
  const auto areas = areas_of(config, split, capabilities);
  if (!areas) return areas.error();
  program.workspace_bytes = areas->bytes;
  if (Result<void> s = add_copies(desc, config, *areas, options, capabilities, program); !s) return s.error();
  add_set(desc, config, split, *areas, program);
  if (Result<void> s = add_product(desc, config, split, options, capabilities, program); !s) return s.error();
  if (split.parts > 1) {
    if (Result<void> s = add_combine(desc, config, split, options, capabilities, program); !s)
      return s.error();
  }
  return program;
}

}  // namespace vkattn::detail
