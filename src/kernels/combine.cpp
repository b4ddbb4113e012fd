// Host half of the combine pass (shaders/attention_combine.comp).
#include "kernels/kernel.hpp"

namespace vkattn::detail {

Result<KernelConfig> configure_combine(const AttentionDesc& desc, const Capabilities& capabilities) {
  KernelConfig config;
  config.shader = shader_for(desc, capabilities, "attention_combine", "attention_combine_words");
  config.workgroup_size = capabilities.is_cpu() ? 8 : 64;
  config.rows_per_workgroup = 1;
  auto common = common_specialization(desc, capabilities, config.workgroup_size);
  if (!common) return common.error();
  config.specialization = *std::move(common);
  return config;
}

}  // namespace vkattn::detail
