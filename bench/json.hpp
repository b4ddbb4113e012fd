// JSON forms that the commands of the tool share.
#pragma once

#include <vkattn/capabilities.hpp>

#include <nlohmann/json.hpp>
#include <string>

#include "harness/problem_run.hpp"

namespace vkattn {

using Json = nlohmann::ordered_json;

/// A version as text, such as "1.3.230".
[[nodiscard]] std::string version_text(std::uint32_t vulkan_version);
/// "discrete GPU", "integrated GPU", "virtual GPU", "CPU" or "other".
[[nodiscard]] std::string device_type_text(DeviceType type);

/// The facts that identify a device in a result.
[[nodiscard]] Json device_json(const Capabilities& device);
/// Everything that parse_capabilities() reads of a device.
[[nodiscard]] Json capabilities_json(const Capabilities& device);
[[nodiscard]] Json check_json(const harness::CheckReport& check);
/// Indented text with a line break at the end. Bytes that are not UTF-8 (in driver strings) are replaced.
[[nodiscard]] std::string dump_json(const Json& json);
/// Text that can be drawn: without control characters. Bytes that are not UTF-8 (in driver strings) are
/// replaced.
[[nodiscard]] std::string drawable(const std::string& text);

}  // namespace vkattn
