// Split over keys: see split.hpp.
#include "plan/split.hpp"

#include <algorithm>

#include "common/integers.hpp"

namespace vkattn::detail {

namespace {

constexpr std::int64_t kMaxSplits = 128;
// A part below this is not worth its partial results and the merge.
constexpr std::int64_t kMinKeysGpu = 256;
constexpr std::int64_t kMinKeysCpu = 512;

// The keys of a part in which no loop ends early, or all.
std::int64_t most_keys_of_a_part(const AttentionDesc& desc, const Capabilities& capabilities,
                                 const KernelConfig& config) {
  if (capabilities.max_loop_iterations == 0) return desc.kv_length;
  const std::int64_t left = static_cast<std::int64_t>(capabilities.max_loop_iterations) -
                            static_cast<std::int64_t>(config.iterations_besides);
  return std::max<std::int64_t>(left / config.iterations_per_step, 1) * config.key_step;
}

// The share of workgroup slots that are busy over all waves.
double wave_efficiency(std::int64_t workgroups, std::int64_t slots) {
  return static_cast<double>(workgroups) / static_cast<double>(divide_up(workgroups, slots) * slots);
}

}  // namespace

KvSplit split_into(std::int64_t kv_length, std::int64_t parts, std::int64_t step) {
  const std::int64_t keys = divide_up(divide_up(kv_length, parts), step) * step;
  return {std::max<std::int64_t>(divide_up(kv_length, keys), 1), keys};
}

std::int64_t concurrent_workgroups(const Capabilities& capabilities, const KernelConfig& config) {
  const std::int64_t units = capabilities.compute_units;
  if (capabilities.is_cpu()) return units != 0 ? units : 4;
  const bool discrete = capabilities.device_type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  const std::int64_t guessed_units = discrete ? 64 : 12;
  return (units != 0 ? units : guessed_units) * config.workgroups_per_unit;
}

KvSplit choose_kv_split(const AttentionDesc& desc, const Capabilities& capabilities,
                        const KernelConfig& config, std::int64_t tiles, std::int64_t wanted) {
  if (desc.kv_length == 0 || config.key_step == 0) return {1, desc.kv_length};
  const std::int64_t step = config.key_step;
  const std::int64_t least = divide_up(desc.kv_length, most_keys_of_a_part(desc, capabilities, config));
  const auto in_parts = [&](std::int64_t parts) {
    const KvSplit split = split_into(desc.kv_length, std::max(std::min(parts, kMaxKvSplits), least), step);
    return split.splits > 1 ? split : KvSplit{1, desc.kv_length};
  };
  if (wanted > 0) return in_parts(wanted);
  const std::int64_t slots = concurrent_workgroups(capabilities, config);
  const std::int64_t min_keys = capabilities.is_cpu() ? kMinKeysCpu : kMinKeysGpu;
  const std::int64_t most = std::min(kMaxSplits, desc.kv_length / min_keys);
  if (tiles >= slots || most <= 1) return in_parts(1);
  double best = 0;
  for (std::int64_t parts = 1; parts <= most; ++parts)
    best = std::max(best, wave_efficiency(tiles * parts, slots));
  for (std::int64_t parts = 1; parts <= most; ++parts) {
    if (wave_efficiency(tiles * parts, slots) < 0.85 * best) continue;
    return in_parts(parts);
  }
  return in_parts(1);
}

}  // namespace vkattn::detail
