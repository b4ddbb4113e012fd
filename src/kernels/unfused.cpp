// Host half of the unfused baseline (shaders/unfused/attention_unfused.comp): scores, softmax and weighted
// sum as passes of their own, the score matrix in the workspace.
#include <algorithm>
#include <utility>

#include "common/message.hpp"
#include "kernels/kernel.hpp"
#include "shared/attention_constants.h"

namespace vkattn::detail {

Result<KernelConfig> configure_unfused(const AttentionDesc& desc, const Capabilities& capabilities,
                                       Tiles /*tiles*/) {
  if (Status status = refuse_features(desc); !status) return status.error();
  const bool cpu = capabilities.is_cpu();
  const std::uint32_t workgroup_size = cpu ? std::clamp(capabilities.subgroup_size, 4U, 64U) : 64U;
  const std::uint32_t rows = cpu && packed_rows(desc) >= 4 * workgroup_size ? 4 : 1;
  const std::uint32_t keys = 16;
  KernelConfig config;
  config.workgroup_size = workgroup_size;
  config.rows_per_workgroup = workgroup_size * rows;
  config.score_block_keys = keys;
  config.shader = shader_for(desc, capabilities, "attention_unfused", "attention_unfused_words");
  const auto constants = [&](int number) {
    return SpecializationValues{{VKATTN_SPEC_UNFUSED_PASS, static_cast<std::uint32_t>(number)},
                                {VKATTN_SPEC_UNFUSED_ROWS, rows},
                                {VKATTN_SPEC_UNFUSED_KEYS, keys}};
  };
  config.constants = constants(VKATTN_UNFUSED_SCORES);
  for (const auto& [name, number] : {std::pair("softmax", VKATTN_UNFUSED_SOFTMAX),
                                     std::pair("weighted_sum", VKATTN_UNFUSED_WEIGHTED_SUM)}) {
    PassConfig pass;
    pass.name = name;
    pass.shader = config.shader;
    pass.constants = constants(number);
    pass.workgroup_size = workgroup_size;
    config.following.push_back(std::move(pass));
  }
  config.summary = message("three passes, ", workgroup_size, " invocations a workgroup, ", rows,
                           rows == 1 ? " row" : " rows", " each, the score matrix in memory");
  return config;
}

}  // namespace vkattn::detail
