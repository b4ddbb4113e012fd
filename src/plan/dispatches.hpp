// From a chosen kernel to windows, parts of the keys, workspace and the list of dispatches.
#pragma once

#include "plan/plan_state.hpp"

namespace vkattn::detail {

/// Fills in everything of the plan that lies between the kernel's configuration and its pipelines.
[[nodiscard]] Status plan_dispatches(PlanState& plan);

/// Parts of the keys that a window holds.
[[nodiscard]] std::int64_t window_parts(const KvSplit& split, const Window& window);

}  // namespace vkattn::detail
