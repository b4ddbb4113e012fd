// Host half of the combine pass (shaders/attention_combine.comp).
#include <algorithm>

#include "kernels/kernel.hpp"

namespace vkattn::detail {

namespace {

// A thread for each dim, in steps of the largest subgroup that is common.
std::uint32_t workgroup_size(const AttentionDesc& desc, const Capabilities& capabilities) {
  if (capabilities.is_cpu()) return 8;
  const std::int64_t threads = (desc.value_dim + 63) / 64 * 64;
  const auto most = std::min<std::int64_t>(
      {256, capabilities.max_workgroup_invocations, capabilities.max_workgroup_size[0]});
  return static_cast<std::uint32_t>(std::min(threads, most));
}

}  // namespace

Result<KernelConfig> configure_combine(const AttentionDesc& desc, const Capabilities& capabilities) {
  KernelConfig config;
  config.shader = shader_for(desc, capabilities, "attention_combine", "attention_combine_words");
  config.workgroup_size = workgroup_size(desc, capabilities);
  config.rows_per_workgroup = 1;
  auto common = common_specialization(desc, capabilities, config.workgroup_size);
  if (!common) return common.error();
  config.specialization = *std::move(common);
  return config;
}

}  // namespace vkattn::detail
