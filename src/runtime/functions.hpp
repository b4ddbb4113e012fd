// The runtime's own Vulkan function tables, from the loader on: nothing in them is global, so that programs
// with a loader, a volk or a second runtime of their own go together with this one.
#pragma once

#include <vulkan/vulkan_core.h>

#include <vkattn/result.hpp>

namespace vkattn::detail {

#define VKATTN_RUNTIME_LOADER_FUNCTIONS(X) \
  X(vkCreateInstance)                      \
  X(vkEnumerateInstanceLayerProperties)    \
  X(vkEnumerateInstanceExtensionProperties)

#define VKATTN_RUNTIME_INSTANCE_FUNCTIONS(X)     \
  X(vkDestroyInstance)                           \
  X(vkEnumeratePhysicalDevices)                  \
  X(vkGetPhysicalDeviceProperties)               \
  X(vkGetPhysicalDeviceProperties2)              \
  X(vkGetPhysicalDeviceExternalBufferProperties) \
  X(vkGetPhysicalDeviceFeatures2)                \
  X(vkGetPhysicalDeviceMemoryProperties)         \
  X(vkGetPhysicalDeviceQueueFamilyProperties)    \
  X(vkEnumerateDeviceExtensionProperties)        \
  X(vkCreateDevice)                              \
  X(vkGetDeviceProcAddr)

#define VKATTN_RUNTIME_DEVICE_FUNCTIONS(X) \
  X(vkAllocateCommandBuffers)              \
  X(vkAllocateMemory)                      \
  X(vkBeginCommandBuffer)                  \
  X(vkBindBufferMemory)                    \
  X(vkCmdCopyBuffer)                       \
  X(vkCmdPipelineBarrier)                  \
  X(vkCmdResetQueryPool)                   \
  X(vkCmdWriteTimestamp)                   \
  X(vkCreateBuffer)                        \
  X(vkCreateCommandPool)                   \
  X(vkCreateFence)                         \
  X(vkCreateQueryPool)                     \
  X(vkDestroyBuffer)                       \
  X(vkDestroyCommandPool)                  \
  X(vkDestroyDevice)                       \
  X(vkDestroyFence)                        \
  X(vkDestroyQueryPool)                    \
  X(vkDeviceWaitIdle)                      \
  X(vkEndCommandBuffer)                    \
  X(vkFreeMemory)                          \
  X(vkGetBufferMemoryRequirements)         \
  X(vkGetDeviceQueue)                      \
  X(vkGetQueryPoolResults)                 \
  X(vkMapMemory)                           \
  X(vkMergePipelineCaches)                 \
  X(vkQueueSubmit)                         \
  X(vkQueueWaitIdle)                       \
  X(vkResetFences)                         \
  X(vkWaitForFences)

#define VKATTN_DECLARE_FUNCTION(NAME) PFN_##NAME NAME = nullptr;

struct LoaderFunctions {
  PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr = nullptr;
  PFN_vkEnumerateInstanceVersion vkEnumerateInstanceVersion = nullptr;  ///< null: Vulkan 1.0
  VKATTN_RUNTIME_LOADER_FUNCTIONS(VKATTN_DECLARE_FUNCTION)
};

struct RuntimeInstanceFunctions {
  VKATTN_RUNTIME_INSTANCE_FUNCTIONS(VKATTN_DECLARE_FUNCTION)
  // Null without VK_EXT_debug_utils.
  PFN_vkCreateDebugUtilsMessengerEXT vkCreateDebugUtilsMessengerEXT = nullptr;
  PFN_vkDestroyDebugUtilsMessengerEXT vkDestroyDebugUtilsMessengerEXT = nullptr;
};

struct RuntimeDeviceFunctions {
  VKATTN_RUNTIME_DEVICE_FUNCTIONS(VKATTN_DECLARE_FUNCTION)
  // Null without VK_EXT_external_memory_host.
  PFN_vkGetMemoryHostPointerPropertiesEXT vkGetMemoryHostPointerPropertiesEXT = nullptr;
};

#undef VKATTN_DECLARE_FUNCTION

/// Finds the Vulkan loader of the system; says what is missing where there is none.
[[nodiscard]] Result<LoaderFunctions> load_loader();
/// Fail where a function is missing, naming it; the others are there, so that what was made can be destroyed.
[[nodiscard]] Result<void> load_runtime_instance(const LoaderFunctions& loader, VkInstance instance,
                                                 RuntimeInstanceFunctions& functions);
[[nodiscard]] Result<void> load_runtime_device(const RuntimeInstanceFunctions& instance, VkDevice device,
                                               RuntimeDeviceFunctions& functions);

}  // namespace vkattn::detail
