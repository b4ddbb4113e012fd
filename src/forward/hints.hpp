// What a device could do for a problem if more of it were enabled.
#pragma once

#include <string>

#include "forward/plan_state.hpp"

namespace vkattn::detail {

/// A line for describe() that names the features with which another kernel or another form of the kernel
/// would have been chosen; empty where there are none, and where the caller has asked for the kernel by name.
[[nodiscard]] std::string missed_form(const PlanState& plan);

}  // namespace vkattn::detail
