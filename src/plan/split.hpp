// Cutting the keys into parts where a device would otherwise be idle (decode: few rows, many keys).
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/capabilities.hpp>

#include <cstdint>

#include "kernels/kernel.hpp"

namespace vkattn::detail {

struct KvSplit {
  std::int64_t splits = 1;
  std::int64_t keys = 0;  ///< of one part, a multiple of the kernel's key step; the last may be shorter
};

/// `tiles` workgroups run without a split. `wanted` is the number of parts asked for, 0 to choose: the
/// smallest number whose use of the last wave of workgroups is within 85 % of the best. Either is raised
/// where a driver would end the loops of a part early.
[[nodiscard]] KvSplit choose_kv_split(const AttentionDesc& desc, const Capabilities& capabilities,
                                      const KernelConfig& config, std::int64_t tiles, std::int64_t wanted);

/// At the most so many parts, of whole steps.
[[nodiscard]] KvSplit split_into(std::int64_t kv_length, std::int64_t parts, std::int64_t step);

/// What AttentionParams::window_parts can hold.
inline constexpr std::int64_t kMaxKvSplits = 65535;

/// Workgroups of a kernel that the device runs at a time, a guess where it does not say.
[[nodiscard]] std::int64_t concurrent_workgroups(const Capabilities& capabilities,
                                                 const KernelConfig& config);

}  // namespace vkattn::detail
