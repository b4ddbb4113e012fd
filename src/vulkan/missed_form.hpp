// The better form of a kernel that a device would run with more features enabled.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "vulkan/device_feature_table.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::detail {

/// The kernel and shader for a problem on a device of these capabilities; empty if no kernel accepts it.
using FormOn = std::function<std::string(const Capabilities&)>;

/// The features that a device of capabilities `all` has more than one of `some`, and with which `form` is
/// another: no more of them than that form needs. None, and no form, if there is no such form.
struct MissedFeatures {
  std::vector<const DeviceFeatureRow*> rows;
  std::string form;
};
[[nodiscard]] MissedFeatures missed_features(const Capabilities& some, const Capabilities& all,
                                             const FormOn& form);

/// The extension to enable with a feature for this version of Vulkan; null: none.
[[nodiscard]] const char* extension_of(const DeviceFeatureRow& row, std::uint32_t api_version);

/// A line of describe() that names the features with which a problem would get another kernel or form; empty
/// if there are none.
[[nodiscard]] std::string missed_form(const DeviceState& device, const FormOn& form);

}  // namespace vkattn::detail
