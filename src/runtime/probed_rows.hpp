// The rows of a device's accumulators, which the runtime probes when a plan is to use them.
#pragma once

#include <vkattn/capabilities.hpp>
#include <vkattn/runtime.hpp>

#include <string_view>

namespace vkattn::detail {

/// Runs the probe of matrices of these sizes on the runtime's device, seen as `device`. The layout has
/// lane_rows 0 if no kernel can use it.
[[nodiscard]] Result<RowLayout> run_row_probe(const Runtime& runtime, const Device& device,
                                              const RowLayout& sizes);

/// Probes what the kernel needs to know for this tile, unless it is known or needs nothing. The runtime's
/// device has it from then on. Without self-tests nothing runs. A probe that cannot run, or did not end in an
/// earlier program, leaves it unknown. Errors: a lost device.
[[nodiscard]] Result<void> probe_rows(const Runtime& runtime, const AttentionDesc& desc,
                                      std::string_view kernel, const TileSizes& tile);

}  // namespace vkattn::detail
