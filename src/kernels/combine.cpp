// Host half of the combine pass (shaders/attention_combine.comp).
#include "kernels/kernel.hpp"

namespace vkattn::detail {

Result<FollowingPass> configure_combine(const AttentionDesc& desc, const Capabilities& capabilities) {
  FollowingPass pass;
  pass.name = "combine";
  pass.shader = shader_for(desc, capabilities, "attention_combine", "attention_combine_words");
  pass.by_rows = true;
  auto common = common_specialization(desc, capabilities, capabilities.is_cpu() ? 8 : 64);
  if (!common) return common.error();
  pass.specialization = *std::move(common);
  return pass;
}

}  // namespace vkattn::detail
