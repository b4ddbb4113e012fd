// Files of capabilities on disk.
#include <vkattn/runtime.hpp>

#include <vulkan/vulkan_core.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/message.hpp"
#include "common/path_text.hpp"
#include "runtime/input_file.hpp"
#include "runtime/json.hpp"
#include "vulkan/capability_fields.hpp"

namespace vkattn {

namespace {

using detail::Json;

Json json_of(const std::string& text) {
  return text;
}
Json json_of(DeviceType type) {
  for (const detail::DeviceTypeWord& row : detail::kDeviceTypeWords) {
    if (row.type == type) return row.word;
  }
  return detail::kDeviceTypeWords[0].word;
}
template <class Number>
requires(std::is_integral_v<Number>) Json json_of(Number number) {
  return number;
}
Json json_of(const std::array<std::uint32_t, 3>& numbers) {
  return Json::Array(numbers.begin(), numbers.end());
}
template <class Element>
Json json_of(const std::vector<Element>& elements) {
  Json::Array list;
  for (const Element& element : elements) {
    Json::Object json;
    detail::for_each_field(
        &element, [&](const char* name, auto member) { json.emplace_back(name, json_of(element.*member)); });
    list.emplace_back(std::move(json));
  }
  return list;
}

Json json_of(const Capabilities& device) {
  Json::Object json;
  detail::for_each_capability([&](std::string_view group, const char* name, auto member) {
    Json value = json_of(device.*member);
    if constexpr (std::is_same_v<decltype(member), std::uint32_t Capabilities::*>) {
      if (member == &Capabilities::api_version) {
        value = detail::message(VK_API_VERSION_MAJOR(device.api_version), ".",
                                VK_API_VERSION_MINOR(device.api_version), ".",
                                VK_API_VERSION_PATCH(device.api_version));
      }
    }
    if (group.empty()) {
      json.emplace_back(name, std::move(value));
      return;
    }
    if (json.back().first != group) json.emplace_back(group, Json::Object());
    std::get<Json::Object>(json.back().second.value).emplace_back(name, std::move(value));
  });
  return json;
}

}  // namespace

std::string capabilities_text(std::span<const Capabilities> devices) {
  Json::Array list;
  for (const Capabilities& device : devices) list.push_back(json_of(device));
  const Json file =
      Json::Object{{std::string(detail::kCapabilitiesVersionName), detail::kCapabilitiesVersion},
                   {"devices", std::move(list)}};
  return detail::to_text(file) + "\n";
}

Result<std::vector<Capabilities>> read_capabilities(const std::filesystem::path& path) {
  constexpr std::uintmax_t kMostBytes = std::uintmax_t{16} << 20U;
  return detail::without_exceptions([&]() -> Result<std::vector<Capabilities>> {
    const auto text = detail::read_input(path, kMostBytes);
    if (!text) {
      return Error{text.error().code, VK_SUCCESS,
                   detail::message(detail::path_text(path), " cannot be read: ", text.error().message)};
    }
    auto devices = parse_capabilities(*text);
    if (devices) return devices;
    return detail::invalid(detail::path_text(path), ": ", devices.error().message);
  });
}

}  // namespace vkattn
