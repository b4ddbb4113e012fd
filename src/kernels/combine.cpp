// Host half of the combine pass (shaders/passes/attention_combine.comp).
#include <algorithm>
#include <bit>

#include "common/integers.hpp"
#include "kernels/kernel.hpp"
#include "kernels/tile_table.hpp"
#include "shared/attention_constants.h"

namespace vkattn::detail {

namespace {

// A thread for each dim, in steps of the largest subgroup that is common.
std::uint32_t workgroup_size(const AttentionDesc& desc, const Capabilities& capabilities) {
  if (capabilities.is_cpu()) return 8;
  const std::int64_t threads = round_up(desc.value_dim, std::int64_t{64});
  const auto most = std::min<std::int64_t>(
      {256, capabilities.max_workgroup_invocations, capabilities.max_workgroup_size[0]});
  return static_cast<std::uint32_t>(std::min(threads, most));
}

// Parts whose loads are in flight at a time. On a GPU each round of them waits for memory once. Powers of
// two, so that numbers of parts share pipelines.
std::uint32_t parts_in_flight(const Capabilities& capabilities, std::int64_t parts) {
  // A thread of Mali has 64 registers, or 32 if twice as many run.
  const bool is_few = capabilities.is_cpu() || architecture(capabilities) == Architecture::kMali;
  const std::uint64_t rounded = std::bit_ceil(static_cast<std::uint64_t>(parts));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(rounded, is_few ? 8 : 32));
}

}  // namespace

PassConfig configure_combine(const AttentionDesc& desc, const Capabilities& capabilities,
                             std::int64_t parts) {
  PassConfig pass;
  pass.name = "combine";
  pass.shader = shader_for(desc, capabilities, "attention_combine", "attention_combine_words");
  pass.unit = PassUnit::kRows;
  pass.workgroup_flops = 2.0 * static_cast<double>(parts) * static_cast<double>(desc.value_dim);
  pass.workgroup_size = workgroup_size(desc, capabilities);
  pass.constants = {{VKATTN_SPEC_COMBINE_PARTS, parts_in_flight(capabilities, parts)}};
  return pass;
}

}  // namespace vkattn::detail
