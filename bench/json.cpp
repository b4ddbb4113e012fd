// JSON forms that the commands of the tool share.
#include "json.hpp"

#include <vulkan/vulkan_core.h>

#include <vkattn/runtime.hpp>

#include "console.hpp"
#include "vulkan/capability_fields.hpp"

namespace vkattn {

std::string version_text(std::uint32_t vulkan_version) {
  return std::to_string(VK_API_VERSION_MAJOR(vulkan_version)) + "." +
         std::to_string(VK_API_VERSION_MINOR(vulkan_version)) + "." +
         std::to_string(VK_API_VERSION_PATCH(vulkan_version));
}

std::string device_type_text(DeviceType type) {
  for (const detail::DeviceTypeWord& row : detail::kDeviceTypeWords) {
    if (row.type == type) return std::string(row.word);
  }
  return "other";
}

Json device_json(const Capabilities& device) {
  return Json{{"name", device.device_name},
              {"type", device_type_text(device.device_type)},
              {"driver", device.driver_name},
              {"driver_info", device.driver_info},
              {"api_version", version_text(device.api_version)},
              {"vendor_id", device.vendor_id},
              {"device_id", device.device_id}};
}

Json capabilities_json(const Capabilities& device) {
  return Json::parse(capabilities_text({&device, 1}))["devices"][0];
}

namespace {

/// Null if there is no element.
Json first_json(const harness::ElementCount& count) {
  return count.elements == 0 ? Json() : Json(count.first.to_string());
}

}  // namespace

Json check_json(const harness::CheckReport& check) {
  return Json{{"passed", check.passed()},
              {"rows", check.rows_checked},
              {"elements", check.elements_checked},
              {"elements_unwritten", check.elements_unwritten},
              {"elements_nan", check.nan_for_number.elements + check.nan_expected.elements},
              {"elements_undefined", check.undefined.elements},
              {"elements_nan_for_number", check.nan_for_number.elements},
              {"first_nan_for_number", first_json(check.nan_for_number)},
              {"first_nan_expected", first_json(check.nan_expected)},
              {"guard_intact", check.guard_intact},
              {"largest_error", check.largest_error},
              {"largest_share_of_tolerance", check.largest_share},
              {"batch", check.where.batch},
              {"head", check.where.head},
              {"query", check.where.query},
              {"dim", check.where_output == harness::CheckedOutput::kOutput ? Json(check.where_index)
                                                                            : Json(check.where_text())},
              {"expected", check.expected},
              {"got", check.got}};
}

std::string dump_json(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string drawable(const std::string& text) {
  const std::string quoted =
      Json(console::printable(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(quoted).get<std::string>();
}

}  // namespace vkattn
