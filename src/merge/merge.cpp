// Merging as an operation: its rules, its tensors, and the passes for outputs and lse.
#include <array>
#include <cstddef>
#include <utility>

#include "common/checked.hpp"
#include "common/message.hpp"
#include "merge/merge_tensors.hpp"
#include "operation/plan_of.hpp"
#include "operation/table_tensors.hpp"
#include "shared/merge_constants.h"
#include "vkattn_core_shaders.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn {

namespace detail {

namespace shared {
using uint = std::uint32_t;
#include "shared/merge_params.h"
}  // namespace shared
using shared::MergeParams;

static_assert(offsetof(MergeParams, unit_count) == offsetof(MergeParams, first_unit) + 4,
              "ProgramLayout::units_byte");

namespace {

/// Invocations of a workgroup.
constexpr std::uint32_t kWorkgroup = 64;
// Some ten milliseconds on the slowest devices that are no CPU, with few parts.
constexpr std::uint64_t kMaxUnitsPerDispatch = std::uint64_t{1} << 22;

std::uint64_t elements(const MergeDesc& desc) {
  return static_cast<std::uint64_t>(desc.rows) * static_cast<std::uint64_t>(desc.value_dim);
}
std::uint64_t rows(const MergeDesc& desc) {
  return static_cast<std::uint64_t>(desc.rows);
}

using Desc = const MergeDesc&;
using Tensors = MergeTensors;

// Rows side by side; the first begins at a word.
TensorDesc outputs(DataType type, Desc desc) {
  return {type, Strides{desc.rows * desc.value_dim, 0, desc.value_dim, 1}, 4};
}
TensorDesc row_numbers(Desc desc) {
  return numbers(Strides{desc.rows, 0, 1, 1});
}
TensorExtents rows_of(std::int64_t parts, Desc desc, std::int64_t dims) {
  return {parts, 1, desc.rows, dims};
}

constexpr std::array<MergeTensorRow, TensorTable<Tensors>::kCount> kTensors{{
    {"parts", VKATTN_MERGE_BINDING_PARTS, &Tensors::parts, is_always_used<MergeDesc>,
     [](Desc d) { return outputs(d.part_type, d); }, [](Desc d) { return rows_of(d.parts, d, d.value_dim); },
     push_constant(offsetof(MergeParams, parts_offset)), kReadOnly},
    {"part_lse", VKATTN_MERGE_BINDING_PART_LSE, &Tensors::part_lse, is_always_used<MergeDesc>, row_numbers,
     [](Desc d) { return rows_of(d.parts, d, 1); }, push_constant(offsetof(MergeParams, part_lse_offset)),
     kReadOnly},
    {"output", VKATTN_MERGE_BINDING_OUTPUT, &Tensors::output, is_always_used<MergeDesc>,
     [](Desc d) { return outputs(d.output_type, d); }, [](Desc d) { return rows_of(1, d, d.value_dim); },
     push_constant(offsetof(MergeParams, output_offset)), kWritten},
    {"lse", VKATTN_MERGE_BINDING_LSE, &Tensors::lse, [](Desc d) { return d.has_lse; }, row_numbers,
     [](Desc d) { return rows_of(1, d, 1); }, push_constant(offsetof(MergeParams, lse_offset)), kWritten},
}};

// The merged results may take the place of the first part.
void allow_in_place(Desc desc, ProgramDesc& program) {
  if (desc.output_type == desc.part_type)
    program.tensors[VKATTN_MERGE_BINDING_OUTPUT].in_place_of = VKATTN_MERGE_BINDING_PARTS;
  program.tensors[VKATTN_MERGE_BINDING_LSE].in_place_of = VKATTN_MERGE_BINDING_PART_LSE;
}

// The parts stand in for bindings that are not used.
void add_set(Desc desc, ProgramDesc& program) {
  ProgramSet set;
  set.bindings.resize(VKATTN_MERGE_BINDING_COUNT);
  for (const MergeTensorRow& row : kTensors)
    bind_whole(row, desc, tensor_index(row.range), set.bindings[row.binding]);
  MergeParams params{};
  params.parts = static_cast<std::uint32_t>(desc.parts);
  params.rows = static_cast<std::uint32_t>(desc.rows);
  params.value_dim = static_cast<std::uint32_t>(desc.value_dim);
  set.push_constants = bytes_of(params);
  program.sets.push_back(std::move(set));
}

Result<void> add_pass(const MergeDesc& desc, bool writes_lse, const Capabilities& capabilities,
                      ProgramDesc& program) {
  ProgramPass pass;
  pass.name = writes_lse ? "merged lse" : "merged outputs";
  pass.shader = "attention_merge";
  const auto code = built_shader(shader_binaries(), pass.shader);
  if (!code) return code.error();
  pass.code = *code;
  pass.specialization = {{VKATTN_MERGE_SPEC_WORKGROUP_SIZE, kWorkgroup},
                         {VKATTN_MERGE_SPEC_PART_TYPE, static_cast<std::uint32_t>(desc.part_type)},
                         {VKATTN_MERGE_SPEC_OUTPUT_TYPE, static_cast<std::uint32_t>(desc.output_type)},
                         {VKATTN_MERGE_SPEC_WRITES_LSE, writes_lse ? 1U : 0U}};
  pass.workgroup_size = kWorkgroup;
  // The merged lse may be written over the lse of the first part, which every output has read. This pass
  // reads no outputs, but its shader could, and in place they were just written: validation counts that as a
  // read.
  if (writes_lse) {
    pass.barrier = PassBarrier{VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
                               VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
  }
  const std::uint64_t units = writes_lse ? rows(desc) : elements(desc) * element_bytes(desc.output_type) / 4;
  const auto index = static_cast<std::uint32_t>(program.passes.size());
  program.passes.push_back(std::move(pass));
  add_steps(program, index, 0, units, {kWorkgroup, kMaxUnitsPerDispatch, 0}, capabilities);
  return {};
}

Result<ProgramDesc> merge_program(const MergeDesc& desc, const Capabilities& capabilities) {
  ProgramDesc program;
  program.layout().binding_count = VKATTN_MERGE_BINDING_COUNT;
  program.layout().push_constant_bytes = sizeof(MergeParams);
  program.layout().units_byte = offsetof(MergeParams, first_unit);
  if (Result<void> s =
          add_table_tensors<Tensors>(desc, capabilities, ", so merge fewer rows at once", program);
      !s) {
    return s.error();
  }
  allow_in_place(desc, program);
  add_set(desc, program);
  if (desc.rows == 0) return program;
  if (desc.value_dim != 0) {
    if (Result<void> s = add_pass(desc, false, capabilities, program); !s) return s.error();
  }
  if (desc.has_lse) {
    if (Result<void> s = add_pass(desc, true, capabilities, program); !s) return s.error();
  }
  return program;
}

class MergeOperation final : public OperationOfTable<MergeOperation, MergeDesc, MergeTensors> {
 public:
  using OperationOfTable::OperationOfTable;

  [[nodiscard]] std::string_view name() const override { return "a merge"; }
  [[nodiscard]] Result<ProgramDesc> build(const PlanOptions& /*options*/, const Capabilities& capabilities,
                                          std::string_view& /*kernel*/) override {
    return merge_program(desc(), capabilities);
  }
  [[nodiscard]] std::string problem_lines() const override {
    const MergeDesc& d = desc();
    return message("merge: ", d.parts, " parts of ", d.rows, " rows, value_dim ", d.value_dim, ", ",
                   vkattn::name(d.part_type), " to ", vkattn::name(d.output_type),
                   d.has_lse ? " with lse" : "", "\n");
  }
};

}  // namespace

std::span<const MergeTensorRow, TensorTable<MergeTensors>::kCount> TensorTable<MergeTensors>::rows() {
  return kTensors;
}

template <>
struct OperationFor<MergeDesc> {
  using Type = MergeOperation;
};

}  // namespace detail

template class PlanOf<MergePlan, MergeDesc, MergeTensors>;

Result<void> validate(const MergeDesc& desc) {
  using detail::invalid;
  return detail::without_exceptions([&]() -> Result<void> {
    if (desc.rows < 0 || desc.value_dim < 0) {
      return invalid("MergeDesc::rows is ", desc.rows, " and value_dim is ", desc.value_dim,
                     "; neither can be negative");
    }
    if (desc.parts < 1) {
      return invalid("MergeDesc::parts is ", desc.parts, "; there must be one at least");
    }
    if (!detail::is_float(desc.part_type) || !detail::is_float(desc.output_type)) {
      return invalid("MergeDesc::part_type is ", name(desc.part_type), " and output_type is ",
                     name(desc.output_type), "; parts are merged as float32, float16 or bfloat16");
    }
    const std::int64_t elements = detail::saturating_multiply(desc.rows, desc.value_dim);
    if (element_bytes(desc.output_type) == 2 && elements % 2 != 0) {
      return invalid("the merged output has ", elements,
                     " elements of 16 bits, which are written in pairs: take float32 or an even value_dim");
    }
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    if (elements > kMost || detail::saturating_multiply(elements, desc.parts) > kMost ||
        detail::saturating_multiply(desc.rows, desc.parts) > kMost) {
      return invalid("MergeDesc has ", desc.parts, " parts of ", desc.rows, " rows of ", desc.value_dim,
                     " elements, more than any buffer has");
    }
    return {};
  });
}

}  // namespace vkattn
