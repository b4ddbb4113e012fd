// Cutting the keys into parts where a device would otherwise be idle (decode: few rows, many keys).
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/capabilities.hpp>

#include <cstdint>

#include "kernels/kernel.hpp"

namespace vkattn::detail {

/// Parts lie at whole numbers of parts from key 0. Where they are fewer than all keys take, each tile of rows
/// has those from the first one on of which it sees a key (first_part_begin() in
/// shaders/lib/key_ranges.glsl).
struct KvSplit {
  std::int64_t splits = 1;
  std::int64_t keys = 0;  ///< of one part, a multiple of the kernel's key step; the last may be shorter
};

/// The keys between the first and the last that `rows` rows in sequence may see, at the most: few where a
/// window has two sides, or in a ring.
[[nodiscard]] std::int64_t most_visible_keys(const AttentionDesc& desc, std::int64_t rows);

/// `tiles` workgroups run without a split. `wanted` is the number of parts asked for, 0 to choose: the
/// smallest number whose use of the last wave of workgroups is within 85 % of the best. What is cut are the
/// keys that a tile of rows may see, and there is one part more where these may begin in the midst of one;
/// `keys_cut`: all keys, as no buffer holds those of one head.
[[nodiscard]] KvSplit choose_kv_split(const AttentionDesc& desc, const Capabilities& capabilities,
                                      const KernelConfig& config, std::int64_t tiles, bool keys_cut,
                                      std::int64_t wanted);

/// The most parts that are worth their partial results, whatever they are for.
[[nodiscard]] std::int64_t most_kv_parts(const AttentionDesc& desc, const Capabilities& capabilities,
                                         const KernelConfig& config);

/// Parts of whole steps, of which `parts` hold `span` keys, and as many as those touch wherever they begin.
[[nodiscard]] KvSplit split_span(std::int64_t kv_length, std::int64_t span, std::int64_t parts,
                                 std::int64_t step);

/// More parts the rule never makes, for a device that would be idle.
inline constexpr std::int64_t kMostPartsOfRule = 128;

/// What AttentionParams::window_parts can hold.
inline constexpr std::int64_t kMaxKvSplits = 65535;

/// Compute units of the device, a guess where it does not say.
[[nodiscard]] std::int64_t compute_units(const Capabilities& capabilities);

/// Workgroups of a kernel that the device runs at a time.
[[nodiscard]] std::int64_t concurrent_workgroups(const Capabilities& capabilities,
                                                 const KernelConfig& config);

}  // namespace vkattn::detail
