// Host half of the unfused baseline (shaders/unfused/attention_unfused.comp): scores, softmax and weighted
// sum as passes of their own, the score matrix in the workspace.
#include <algorithm>

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
  auto common = common_specialization(desc, capabilities, workgroup_size);
  if (!common) return common.error();
  const auto pass = [&](std::uint32_t number) {
    std::vector<SpecializationValue> values = *common;
    values.push_back({VKATTN_SPEC_UNFUSED_PASS, number});
    values.push_back({VKATTN_SPEC_UNFUSED_ROWS, rows});
    values.push_back({VKATTN_SPEC_UNFUSED_KEYS, keys});
    return values;
  };
  config.specialization = pass(VKATTN_UNFUSED_SCORES);
  config.following.push_back({"softmax", config.shader, pass(VKATTN_UNFUSED_SOFTMAX)});
  config.following.push_back({"weighted_sum", config.shader, pass(VKATTN_UNFUSED_WEIGHTED_SUM)});
  config.summary = message("three passes, ", workgroup_size, " invocations a workgroup, ", rows,
                           rows == 1 ? " row" : " rows", " each, the score matrix in memory");
  return config;
}

}  // namespace vkattn::detail
