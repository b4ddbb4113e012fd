// What features add to a plan: passes, parameters in the workspace, positions.
#pragma once

#include "plan/plan_state.hpp"

namespace vkattn::detail {

/// The key position at which a row's keys end, relative to the row and the window: for AttentionParams.
/// Clamped so that adding a row and a key length cannot overflow; what lies beyond hides all keys or none.
[[nodiscard]] std::int32_t right_offset(const AttentionDesc& desc, const Window& window);

/// The key position at which they begin, likewise: for FeatureParams.
[[nodiscard]] std::int32_t left_offset(const AttentionDesc& desc, const Window& window);

/// Adds the passes that features ask for to the kernel's configuration.
[[nodiscard]] Status add_feature_passes(const AttentionDesc& desc, const Capabilities& capabilities,
                                        KernelConfig& config);

/// Lays out feature parameters, block masks and the like behind what the workspace already holds, for each
/// window.
[[nodiscard]] Status plan_features(PlanState& plan);

}  // namespace vkattn::detail
