// Split over keys: see split.hpp.
#include "kernels/split.hpp"

#include <algorithm>

#include "common/checked.hpp"
#include "common/integers.hpp"

namespace vkattn::detail {

namespace {

// Fewer keys are not worth the merge.
constexpr std::int64_t kMinKeys = 512;
// Fewer keys in a part are not worth its partial results: 128 on GPUs, or 64 if the device would be half
// empty with 128.
constexpr std::int64_t kMinPartGpu = 128;
constexpr std::int64_t kMinPartIdleGpu = 64;
constexpr std::int64_t kMinPartCpu = 512;
// With these, a part's partial results (float32, written and read) have no more bytes than its 16-bit keys
// and values.
constexpr std::int64_t kMinKeysOfRow = 2;

std::int64_t fewest_keys_of_part(const Capabilities& capabilities, const KernelConfig& config,
                                 std::int64_t fewest_on_gpu) {
  if (capabilities.is_cpu()) return kMinPartCpu;
  return std::max(fewest_on_gpu, kMinKeysOfRow * config.rows_per_workgroup);
}

// The share of workgroup slots that are busy over all waves.
double wave_efficiency(std::int64_t workgroups, std::int64_t slots) {
  return static_cast<double>(workgroups) / static_cast<double>(round_up(workgroups, slots));
}

}  // namespace

KvSplit split_span(std::int64_t kv_length, std::int64_t span, std::int64_t parts, std::int64_t step) {
  const std::int64_t keys = round_up(divide_up(span, parts), step);
  const std::int64_t all = std::max<std::int64_t>(divide_up(kv_length, keys), 1);
  // Wherever they begin, `span` keys lie in so many parts.
  const std::int64_t seen = divide_up(span - 1, keys) + 1;
  return {std::min(all, seen), keys};
}

std::int64_t most_visible_keys(const AttentionDesc& desc, std::int64_t rows) {
  std::int64_t keys = desc.kv_length;
  if (desc.cache.mapping == KeyMapping::kRing) keys = std::min(keys, desc.cache.ring_length);
  const SlidingWindow& window = desc.window;
  if (window.left == kUnlimited || (window.right == kUnlimited && !desc.causal)) return keys;
  const std::int64_t right = desc.causal ? 0 : window.right;
  const std::int64_t sides = saturating_add(window.left, right);
  return std::min(keys, saturating_add(sides, std::max<std::int64_t>(std::min(rows, desc.query_length), 1)));
}

std::int64_t compute_units(const Capabilities& capabilities) {
  if (capabilities.compute_units != 0) return capabilities.compute_units;
  if (capabilities.is_cpu()) return 4;
  return capabilities.device_type == DeviceType::kDiscreteGpu ? 64 : 12;
}

std::int64_t concurrent_workgroups(const Capabilities& capabilities, const KernelConfig& config) {
  const std::int64_t units = compute_units(capabilities);
  return capabilities.is_cpu() ? units : units * config.workgroups_per_unit;
}

std::int64_t most_kv_parts(const AttentionDesc& desc, const Capabilities& capabilities,
                           const KernelConfig& config) {
  const std::int64_t span = most_visible_keys(desc, config.rows_per_workgroup);
  const std::int64_t fewest = fewest_keys_of_part(capabilities, config, kMinPartGpu);
  return std::clamp<std::int64_t>(span / fewest, 1, kMaxKvSplits);
}

KvSplit choose_kv_split(const AttentionDesc& desc, const Capabilities& capabilities,
                        const KernelConfig& config, std::int64_t tiles, bool keys_cut, std::int64_t wanted) {
  if (desc.kv_length == 0) return {1, desc.kv_length};
  const std::int64_t span = keys_cut ? desc.kv_length : most_visible_keys(desc, config.rows_per_workgroup);
  const auto in_parts = [&](std::int64_t wanted_parts) {
    const std::int64_t parts = std::min(wanted_parts, kMaxKvSplits);
    if (parts <= 1) return KvSplit{1, desc.kv_length};
    const KvSplit split = split_span(desc.kv_length, span, parts, config.key_step);
    return split.splits > 1 ? split : KvSplit{1, desc.kv_length};
  };
  if (wanted > 0) return in_parts(wanted);
  const std::int64_t slots = concurrent_workgroups(capabilities, config);
  if (tiles >= slots || span < kMinKeys) return in_parts(1);
  const bool is_idle = tiles * (span / kMinPartGpu) * 2 < slots;
  const std::int64_t fewest =
      fewest_keys_of_part(capabilities, config, is_idle ? kMinPartIdleGpu : kMinPartGpu);
  const std::int64_t most = std::min(kMostPartsOfRule, span / fewest);
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
