// The members of a device description that a caller must set, in C++ and in C.
#pragma once

#include <vkattn/result.hpp>

#include <cstdint>
#include <string_view>

#include "common/message.hpp"

namespace vkattn::detail {

/// Checks that all members were set; the first that was not is the error. `structure` is the name of the
/// structure.
template <class Desc>
[[nodiscard]] Result<void> check_members(const Desc& desc, std::string_view structure) {
  const auto is_null = [&](std::string_view member, std::string_view give) {
    return invalid(structure, "::", member, " is null: give ", give);
  };
  if (desc.instance == VK_NULL_HANDLE) return is_null("instance", "the VkInstance that has physical_device");
  if (desc.physical_device == VK_NULL_HANDLE) {
    return is_null("physical_device", "the VkPhysicalDevice that the VkDevice is made of");
  }
  if constexpr (requires { desc.device; }) {
    if (desc.device == VK_NULL_HANDLE) return is_null("device", "the VkDevice that all is to be made on");
  }
  if (desc.get_instance_proc_addr == nullptr) {
    return is_null("get_instance_proc_addr", "the loader's vkGetInstanceProcAddr, as vkattn links no loader");
  }
  if (desc.api_version == 0) {
    return invalid(structure, "::api_version is 0: give VkApplicationInfo::apiVersion of the instance");
  }
  if constexpr (requires { desc.parameter_buffer; }) {
    if (desc.parameter_buffer == VK_NULL_HANDLE) return {};
    if (desc.parameter_size >= VK_WHOLE_SIZE - desc.parameter_offset) {
      return invalid(structure, "::parameter_size is ", desc.parameter_size, " from parameter_offset ",
                     desc.parameter_offset, " on, which no buffer has: give bytes, not VK_WHOLE_SIZE");
    }
    if (desc.parameter_data == nullptr) {
      return is_null("parameter_data",
                     "the address at which byte parameter_offset of parameter_buffer is mapped");
    }
  }
  return {};
}

}  // namespace vkattn::detail
