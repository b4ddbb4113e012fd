// Merging: the tensors, and the passes for outputs and lse.
#include "merge/merge_program.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "common/integers.hpp"
#include "common/message.hpp"
#include "shared/merge_constants.h"
#include "vkattn_core_shaders.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::detail {

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
std::uint64_t parts(const MergeDesc& desc) {
  return static_cast<std::uint64_t>(desc.parts);
}

constexpr std::array<MergeTensorRow, kMergeTensorCount> kTensors{{
    {"parts", &MergeTensors::parts,
     [](const MergeDesc& d) { return parts(d) * elements(d) * element_bytes(d.part_type); }, false},
    {"part_lse", &MergeTensors::part_lse, [](const MergeDesc& d) { return parts(d) * rows(d) * 4; }, false},
    {"output", &MergeTensors::output,
     [](const MergeDesc& d) { return elements(d) * element_bytes(d.output_type); }, true},
    {"lse", &MergeTensors::lse, [](const MergeDesc& d) { return d.has_lse ? rows(d) * 4 : 0; }, true},
}};

// Offsets are counted in elements.
std::uint32_t unit_bytes(const MergeDesc& desc, std::size_t binding) {
  if (binding == VKATTN_MERGE_BINDING_PARTS) return element_bytes(desc.part_type);
  if (binding == VKATTN_MERGE_BINDING_OUTPUT) return element_bytes(desc.output_type);
  return 4;
}

Result<void> add_tensors(const MergeDesc& desc, const Capabilities& capabilities, ProgramDesc& program) {
  ProgramSet set;
  set.bindings.resize(kMergeTensorCount);
  for (std::size_t i = 0; i < kMergeTensorCount; ++i) {
    const MergeTensorRow& row = kTensors[i];
    const std::uint64_t bytes = row.bytes(desc);
    if (Result<void> s = check_tensor_bytes(row.name, bytes, capabilities, ", so merge fewer rows at once");
        !s) {
      return s.error();
    }
    ProgramTensor tensor;
    tensor.name = message(row.name, " tensor");
    tensor.bytes = bytes;
    tensor.written = row.written;
    program.tensors.push_back(std::move(tensor));
    ProgramBinding& binding = set.bindings[i];
    if (bytes == 0) continue;  // the parts stand in
    binding.from = ProgramBinding::From::kTensor;
    binding.index = static_cast<std::uint32_t>(i);
    binding.bytes = bytes;
    binding.unit_bytes = unit_bytes(desc, i);
    binding.to_end = row.written;
  }
  // What is merged may take the place of the first part.
  if (desc.output_type == desc.part_type)
    program.tensors[VKATTN_MERGE_BINDING_OUTPUT].in_place_of = VKATTN_MERGE_BINDING_PARTS;
  program.tensors[VKATTN_MERGE_BINDING_LSE].in_place_of = VKATTN_MERGE_BINDING_PART_LSE;
  MergeParams params{};
  params.parts = static_cast<std::uint32_t>(desc.parts);
  params.rows = static_cast<std::uint32_t>(desc.rows);
  params.value_dim = static_cast<std::uint32_t>(desc.value_dim);
  set.push_constants.resize(sizeof(params));
  std::memcpy(set.push_constants.data(), &params, sizeof(params));
  program.sets.push_back(std::move(set));
  return {};
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
  // The merged lse may be written over that of the first part, which every output has read. The pass of the
  // lse reads no outputs, but its shader could, and in place they were just written: validation counts that.
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

}  // namespace

std::span<const MergeTensorRow, kMergeTensorCount> merge_tensor_table() {
  return kTensors;
}

Result<ProgramDesc> merge_program(const MergeDesc& desc, const Capabilities& capabilities) {
  ProgramDesc program;
  program.layout().binding_count = VKATTN_MERGE_BINDING_COUNT;
  program.layout().push_constant_bytes = sizeof(MergeParams);
  program.layout().units_byte = offsetof(MergeParams, first_unit);
  program.layout().push_offsets = {{VKATTN_MERGE_BINDING_PARTS, offsetof(MergeParams, parts_offset)},
                                   {VKATTN_MERGE_BINDING_PART_LSE, offsetof(MergeParams, part_lse_offset)},
                                   {VKATTN_MERGE_BINDING_OUTPUT, offsetof(MergeParams, output_offset)},
                                   {VKATTN_MERGE_BINDING_LSE, offsetof(MergeParams, lse_offset)}};
  if (Result<void> s = add_tensors(desc, capabilities, program); !s) return s.error();
  if (desc.rows == 0) return program;
  if (desc.value_dim != 0) {
    if (Result<void> s = add_pass(desc, false, capabilities, program); !s) return s.error();
  }
  if (desc.has_lse) {
    if (Result<void> s = add_pass(desc, true, capabilities, program); !s) return s.error();
  }
  return program;
}

}  // namespace vkattn::detail
