// Makes and records the program: see compute_pass.hpp.
#include "compute_pass.hpp"

#include <utility>

namespace vkattn::bench {

Result<ComputePass> ComputePass::create(const Runtime& runtime, const detail::ShaderCode& code,
                                        std::span<const detail::SpecializationValue> specialization,
                                        std::span<const BufferRange> buffers,
                                        std::uint32_t push_constant_bytes,
                                        std::span<const detail::AddressWord> addresses) {
  detail::ProgramDesc desc;
  desc.layout().binding_count = static_cast<std::uint32_t>(buffers.size());
  desc.layout().push_constant_bytes = push_constant_bytes;
  desc.layout().push_addresses.assign(addresses.begin(), addresses.end());
  detail::ProgramSet set;
  set.push_constants.resize(push_constant_bytes);
  for (std::uint32_t i = 0; i < buffers.size(); ++i) {
    detail::ProgramTensor tensor;
    tensor.name = "buffer";
    tensor.bytes = buffers[i].size;
    tensor.alignment_bytes = runtime.device().capabilities().min_storage_offset_alignment;
    tensor.alignment_name = "minStorageBufferOffsetAlignment";
    desc.tensors.push_back(tensor);
    detail::ProgramBinding binding;
    binding.from = detail::ProgramBinding::From::kTensor;
    binding.index = i;
    binding.bytes = buffers[i].size;
    binding.exact = true;
    set.bindings.push_back(binding);
  }
  desc.sets.push_back(std::move(set));
  detail::ProgramPass pass;
  pass.name = "measurement";
  pass.code = code;
  pass.specialization.assign(specialization.begin(), specialization.end());
  pass.unrolls_on_cpus = true;
  desc.passes.push_back(std::move(pass));
  desc.steps.push_back({0, 0, 0, 1, 1, 1, 0});
  auto program = detail::Program::create(runtime.device().share(), std::move(desc),
                                         {runtime.pipeline_cache(), false, false});
  if (!program.ok()) return program.error();
  auto bindings = program.value()->bind({buffers, {}, {}, {}});
  if (!bindings.ok()) return bindings.error();
  return ComputePass(*std::move(program), Bindings(*std::move(bindings)));
}

void ComputePass::record(VkCommandBuffer commands, std::span<const std::byte> push_constants,
                         std::uint32_t groups) const {
  program_->record_dispatch(commands, bindings_.state(), push_constants, groups);
}

}  // namespace vkattn::bench
