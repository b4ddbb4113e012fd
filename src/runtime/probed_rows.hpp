// The rows of a device's accumulators, which the runtime probes when a plan is to use them.
#pragma once

#include <vkattn/runtime.hpp>

#include <string_view>

namespace vkattn::detail {

/// Probes what the kernel needs to know for this tile, unless it is known or needs nothing. The runtime's
/// device has it from then on. Without self-tests nothing runs. A probe that cannot run, or did not end in an
/// earlier program, leaves it unknown. Errors: a lost device.
[[nodiscard]] Result<void> probe_rows(const Runtime& runtime, const AttentionDesc& desc,
                                      std::string_view kernel, const TileSizes& tile);

}  // namespace vkattn::detail
