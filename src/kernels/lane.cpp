// Host half of the lane kernel (shaders/attention_lane.comp): a few query rows per invocation, no barrier, no
// shared memory, no subgroup operation.
#include <algorithm>

#include "common/message.hpp"
#include "kernels/kernel.hpp"
#include "shared/attention_constants.h"

namespace vkattn::detail {

namespace {

struct LaneShape {
  std::uint32_t workgroup_size, rows, keys, masked_keys;
};

LaneShape lane_shape(const AttentionDesc& desc, const Capabilities& capabilities) {
  if (!capabilities.is_cpu()) return {64, 1, 8, 4};
  LaneShape shape{};
  // A workgroup is one SIMD vector: the smallest unit that spreads over the threads of a CPU.
  shape.workgroup_size = std::clamp(capabilities.subgroup_size, 4U, 64U);
  const auto vector = static_cast<std::int64_t>(shape.workgroup_size);
  const std::int64_t rows = packed_rows(desc);
  shape.rows = rows >= 4 * vector ? 4 : rows >= 2 * vector ? 2 : 1;
  // More keys a step share the running sums' loads and stores and cost compile time.
  shape.keys = desc.kv_length >= 128 ? 32 : desc.kv_length >= 32 ? 16 : 8;
  shape.masked_keys = 4;
  return shape;
}

}  // namespace

Result<KernelConfig> configure_lane(const AttentionDesc& desc, const Capabilities& capabilities) {
  const LaneShape shape = lane_shape(desc, capabilities);
  KernelConfig config;
  config.workgroup_size = shape.workgroup_size;
  config.rows_per_workgroup = shape.workgroup_size * shape.rows;
  config.key_step = shape.keys;
  const bool wide = capabilities.is_cpu() && capabilities.shader_int64 && capabilities.storage_buffer_16bit;
  config.shader =
      wide ? "attention_lane_wide" : shader_for(desc, capabilities, "attention_lane", "attention_lane_words");
  auto common = common_specialization(desc, capabilities, shape.workgroup_size);
  if (!common) return common.error();
  config.specialization = *std::move(common);
  config.specialization.push_back({VKATTN_SPEC_LANE_ROWS, shape.rows});
  config.specialization.push_back({VKATTN_SPEC_LANE_KEYS, shape.keys});
  config.specialization.push_back({VKATTN_SPEC_LANE_MASKED_KEYS, shape.masked_keys});
  config.summary = message(shape.workgroup_size, " invocations a workgroup, ", shape.rows, " rows each, ",
                           shape.keys, " keys a step");
  return config;
}

}  // namespace vkattn::detail
