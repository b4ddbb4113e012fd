// Cuts the keys into parts if a device would otherwise be idle (decode: few rows, many keys).
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/capabilities.hpp>

#include <cstdint>

#include "kernels/kernel.hpp"

namespace vkattn::detail {

/// Parts begin at multiples of their length from key 0. If there are fewer than all keys take, each tile of
/// rows has the parts from the first one in which it sees a key (first_part_begin() in
/// shaders/lib/key_ranges.glsl).
struct KvSplit {
  std::int64_t splits = 1;
  std::int64_t keys = 0;  ///< of one part, a multiple of the kernel's key step; the last may be shorter
};

/// The keys between the first and the last that `rows` rows in sequence may see, at the most: few where a
/// window has two sides, or in a ring.
[[nodiscard]] std::int64_t most_visible_keys(const AttentionDesc& desc, std::int64_t rows);

/// Without a split `tiles` workgroups run. `wanted` is the number of parts that is asked for. 0 chooses the
/// smallest number that fills the last wave of workgroups to at least 85 % of the best. The parts share the
/// keys that a tile of rows may see, with one part more if these may begin inside of one; with `keys_cut`
/// they share all keys, as no buffer holds those of one head.
[[nodiscard]] KvSplit choose_kv_split(const AttentionDesc& desc, const Capabilities& capabilities,
                                      const KernelConfig& config, std::int64_t tiles, bool keys_cut,
                                      std::int64_t wanted);

/// The most parts that are worth their partial results.
[[nodiscard]] std::int64_t most_kv_parts(const AttentionDesc& desc, const Capabilities& capabilities,
                                         const KernelConfig& config);

/// Parts of whole steps. `parts` of them hold `span` keys; the number of parts is the most that such a span
/// touches.
[[nodiscard]] KvSplit split_span(std::int64_t kv_length, std::int64_t span, std::int64_t parts,
                                 std::int64_t step);

/// The most parts that the rule makes for an idle device.
inline constexpr std::int64_t kMostPartsOfRule = 128;

/// The most parts that AttentionParams::window_parts can hold.
inline constexpr std::int64_t kMaxKvSplits = 65535;

/// Compute units of the device; a guess if the device does not say.
[[nodiscard]] std::int64_t compute_units(const Capabilities& capabilities);

/// Workgroups of a kernel that the device runs at a time.
[[nodiscard]] std::int64_t concurrent_workgroups(const Capabilities& capabilities,
                                                 const KernelConfig& config);

}  // namespace vkattn::detail
