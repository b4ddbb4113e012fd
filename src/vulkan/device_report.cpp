// What a device tells of itself.
#include "common/message.hpp"
#include "vulkan/device_feature_table.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn {

namespace {

void add_name(std::string& list, std::string_view name) {
  list.append(list.empty() ? "" : ", ").append(name);
}

}  // namespace

std::string Device::describe() const {
  const Capabilities& c = state_->capabilities;
  std::string enabled, missing, unsupported;
  for (const detail::DeviceFeatureRow& row : detail::device_feature_table()) {
    if (c.*row.member) {
      add_name(enabled, row.name);
    } else if (state_->supported.*row.member) {
      missing += detail::message("not enabled: ", row.name, ": ", row.gain, "\n");
    } else {
      add_name(unsupported, row.name);
    }
  }
  return detail::message("device: ", c.device_name, ", Vulkan ", VK_API_VERSION_MAJOR(c.api_version), ".",
                         VK_API_VERSION_MINOR(c.api_version), ", driver ", c.driver_name, " ", c.driver_info,
                         "\n", "enabled: ", enabled.empty() ? "nothing" : enabled, "\n", missing,
                         "not supported: ", unsupported.empty() ? "nothing" : unsupported, "\n");
}

}  // namespace vkattn
