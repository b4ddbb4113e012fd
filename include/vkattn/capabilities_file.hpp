/// @file
/// Capabilities of devices that are not there, from a file.
#pragma once

#include <vkattn/capabilities.hpp>
#include <vkattn/result.hpp>

#include <string_view>
#include <vector>

namespace vkattn {

/// The devices of a text that `vkattn devices --json` has written, in its order, without those that it says
/// cannot be used. Every feature that could be enabled counts as enabled. A field that is missing is as
/// Capabilities has it at first: a feature that is not there, a limit that is the least of Vulkan. Errors: a
/// text that is torn, of another version, or has a field that this version does not know, a value that its
/// field cannot have, or no device.
[[nodiscard]] Result<std::vector<Capabilities>> parse_capabilities(std::string_view text);

}  // namespace vkattn
