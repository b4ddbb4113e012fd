// What a device could do for a problem if more of it were enabled.
#pragma once

#include <functional>
#include <string>

#include "vulkan/device_state.hpp"

namespace vkattn::detail {

/// Kernel and shader that a problem gets on a device of these capabilities; empty where none accepts it.
using FormOn = std::function<std::string(const Capabilities&)>;

/// A line for describe() that names the features with which a problem would get another kernel or another
/// form of it; empty where there are none.
[[nodiscard]] std::string missed_form(const DeviceState& device, const FormOn& form);

}  // namespace vkattn::detail
