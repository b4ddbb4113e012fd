// The better form of a kernel that a device would run with more features enabled.
#pragma once

#include <functional>
#include <string>

#include "vulkan/device_state.hpp"

namespace vkattn::detail {

/// The kernel and shader for a problem on a device of these capabilities; empty if no kernel accepts it.
using FormOn = std::function<std::string(const Capabilities&)>;

/// A line of describe() that names the features with which a problem would get another kernel or form; empty
/// if there are none.
[[nodiscard]] std::string missed_form(const DeviceState& device, const FormOn& form);

}  // namespace vkattn::detail
