// Describes the program of the probe: see row_probe.hpp.
#include "self_test/row_probe.hpp"

#include <utility>

#include "kernels/block_limits.hpp"
#include "kernels/row_layout.hpp"
#include "kernels/subgroup_size.hpp"
#include "shared/row_probe_constants.h"
#include "vkattn_core_shaders.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::detail {

namespace {

constexpr const char* kProbeShader = "matrix_row_probe";

ProgramTensor probe_tensor(const char* name, std::size_t words, bool written,
                           const Capabilities& capabilities) {
  ProgramTensor tensor;
  tensor.name = name;
  tensor.bytes = words * sizeof(std::uint32_t);
  tensor.alignment_bytes = capabilities.min_storage_offset_alignment;
  tensor.alignment_name = "minStorageBufferOffsetAlignment";
  tensor.written = written;
  return tensor;
}

}  // namespace

Result<std::shared_ptr<const Program>> row_probe(const Device& device, const RowLayout& sizes,
                                                 VkPipelineCache pipeline_cache) {
  const Capabilities& capabilities = device.capabilities();
  const std::uint32_t threads = VKATTN_PROBE_SUBGROUPS * sizes.lanes;
  if (Result<void> s = check_limits({0, threads, VKATTN_PROBE_SUBGROUPS}, capabilities); !s) return s.error();
  auto code = built_shader(shader_binaries(), kProbeShader);
  if (!code) return code.error();
  ProgramDesc desc;
  desc.layout().binding_count = VKATTN_PROBE_BINDING_COUNT;
  desc.tensors = {probe_tensor("numbers of the probe", probe_numbers(sizes), false, capabilities),
                  probe_tensor("words of the probe", probe_words(sizes), true, capabilities)};
  ProgramSet set;
  for (std::uint32_t index = 0; index < VKATTN_PROBE_BINDING_COUNT; ++index) {
    ProgramBinding binding;
    binding.from = ProgramBinding::From::kTensor;
    binding.index = index;
    binding.bytes = desc.tensors[index].bytes;
    binding.exact = true;
    set.bindings.push_back(binding);
  }
  desc.sets.push_back(std::move(set));
  ProgramPass pass;
  pass.name = "row probe";
  pass.shader = kProbeShader;
  pass.code = *std::move(code);
  pass.workgroup_size = threads;
  pass.specialization = {{VKATTN_SPEC_PROBE_WORKGROUP_SIZE, pass.workgroup_size},
                         {VKATTN_SPEC_PROBE_LANES, sizes.lanes},
                         {VKATTN_SPEC_PROBE_ROWS, sizes.rows},
                         {VKATTN_SPEC_PROBE_SCORE_COLUMNS, sizes.score_columns},
                         {VKATTN_SPEC_PROBE_SUM_COLUMNS, sizes.sum_columns}};
  pass.required_subgroup_size = required_subgroup_size(capabilities, sizes.lanes);
  desc.passes.push_back(std::move(pass));
  desc.steps.push_back({0, 0, 0, 1, 1, 1, 0});
  return Program::create(device.share(), std::move(desc), {pipeline_cache, false, false});
}

}  // namespace vkattn::detail
