// The members of a Device: the borrowed handles, the function table, the capabilities.
#pragma once

#include <vkattn/device.hpp>

#include "vulkan/functions.hpp"
#include "vulkan/parameter_memory.hpp"

namespace vkattn::detail {

class SharedPipelines;

struct DeviceState {
  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical_device = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr;
  DeviceFunctions vk;
  InstanceFunctions instance_vk;
  Allocator allocator;
  Log log;
  Capabilities capabilities;
  Capabilities supported;                       ///< as if enable_wanted() had enabled everything
  std::shared_ptr<ParameterMemory> parameters;  ///< of all bindings on the device
  std::shared_ptr<SharedPipelines> pipelines;   ///< of all programs on it

  /// The same device seen through other capabilities, for tests of what a weaker device would do: lower a
  /// limit, clear a feature. Claiming more than the device has is undefined.
  [[nodiscard]] Device seen_through(Capabilities other) const;
};

/// The sources of capabilities.
struct CapabilitySource {
  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical_device = VK_NULL_HANDLE;
  PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr;
  std::uint32_t api_version = VK_API_VERSION_1_1;  ///< of the instance
  std::span<const char* const> extensions;         ///< enabled device extensions
  const void* features = nullptr;                  ///< chain of enabled features
  const VkPhysicalDeviceFeatures* core_features = nullptr;
};

/// Properties of the physical device and the features that the source says are enabled.
[[nodiscard]] Result<Capabilities> read_capabilities(const CapabilitySource& source);

}  // namespace vkattn::detail
