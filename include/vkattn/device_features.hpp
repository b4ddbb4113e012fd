/// @file
/// What to enable on a device before it is made: every extension and feature that the library gains from.
#pragma once

#include <vkattn/vulkan_types.h>
#include <vkattn/result.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace vkattn {

/// A physical device that a VkDevice is to be made of.
struct PhysicalDeviceDesc {
  VkInstance instance = {};                                    ///< that has physical_device
  VkPhysicalDevice physical_device = {};                       ///< what is asked
  PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr;  ///< as DeviceDesc has it
  std::uint32_t api_version = 0;  ///< VkApplicationInfo::apiVersion of the instance
  /// Extensions to do without, with what later versions of Vulkan took over of them, and features.
  std::span<const std::string_view> disabled_extensions;
};

/// A feature, or an extension without one, that the library gains from. Its texts are the library's own.
struct WantedFeature {
  std::string_view name;       ///< of the structure's member; empty: the extension alone
  std::string_view extension;  ///< to be enabled with it; empty: none with this version of Vulkan
  std::string_view gain;       ///< what is had from it
  bool is_supported = false;   ///< by the device, and not disabled
};

/// All there are. Errors: no such device or function, Vulkan below 1.1.
[[nodiscard]] Result<std::vector<WantedFeature>> wanted_features(const PhysicalDeviceDesc& device);

/// Memory for what enable_wanted() adds. It must not be moved, and live until the device is made and
/// borrowed.
using EnableMemory = std::array<std::uint64_t, 1024>;

/// Adds everything that is supported and wanted to the extensions and features of `info`, in place. Bits are
/// set in the structures of its chain (or in pEnabledFeatures), which must be writable. Missing structures
/// come to the end of the chain, and a longer list of extensions replaces the list; both lie in `memory`.
/// Nothing is taken away, and nothing is added twice. Afterwards give DeviceDesc the same:
/// enabled_extensions is ppEnabledExtensionNames, enabled_features is pNext, enabled_core_features is
/// pEnabledFeatures. Errors: as wanted_features(); kLimitExceeded if `memory` has no room, and then nothing
/// is written.
[[nodiscard]] Result<void> enable_wanted(const PhysicalDeviceDesc& device, VkDeviceCreateInfo& info,
                                         EnableMemory& memory);

}  // namespace vkattn
