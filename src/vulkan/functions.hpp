// The library's own Vulkan function tables, filled from the caller's vkGetInstanceProcAddr: one list of names
// each.
#pragma once

#include <vulkan/vulkan_core.h>

#include <vkattn/result.hpp>

#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/message.hpp"

namespace vkattn::detail {

#define VKATTN_INSTANCE_FUNCTIONS(X)      \
  X(vkGetPhysicalDeviceProperties2)       \
  X(vkGetPhysicalDeviceFeatures2)         \
  X(vkEnumerateDeviceExtensionProperties) \
  X(vkGetPhysicalDeviceMemoryProperties)  \
  X(vkGetDeviceProcAddr)

#define VKATTN_DEVICE_FUNCTIONS(X) \
  X(vkCreateBuffer)                \
  X(vkDestroyBuffer)               \
  X(vkGetBufferMemoryRequirements) \
  X(vkBindBufferMemory)            \
  X(vkAllocateMemory)              \
  X(vkFreeMemory)                  \
  X(vkMapMemory)                   \
  X(vkCreateShaderModule)          \
  X(vkDestroyShaderModule)         \
  X(vkCreateDescriptorSetLayout)   \
  X(vkDestroyDescriptorSetLayout)  \
  X(vkCreatePipelineLayout)        \
  X(vkDestroyPipelineLayout)       \
  X(vkCreateComputePipelines)      \
  X(vkDestroyPipeline)             \
  X(vkCreatePipelineCache)         \
  X(vkDestroyPipelineCache)        \
  X(vkGetPipelineCacheData)        \
  X(vkCreateDescriptorPool)        \
  X(vkDestroyDescriptorPool)       \
  X(vkAllocateDescriptorSets)      \
  X(vkFreeDescriptorSets)          \
  X(vkUpdateDescriptorSets)        \
  X(vkCmdBindPipeline)             \
  X(vkCmdBindDescriptorSets)       \
  X(vkCmdPushConstants)            \
  X(vkCmdPipelineBarrier)          \
  X(vkCmdUpdateBuffer)             \
  X(vkCmdDispatch)                 \
  X(vkCmdWriteTimestamp)

#define VKATTN_DECLARE_FUNCTION(NAME) PFN_##NAME NAME = nullptr;

struct InstanceFunctions {
  VKATTN_INSTANCE_FUNCTIONS(VKATTN_DECLARE_FUNCTION)
};

struct DeviceFunctions {
  VKATTN_DEVICE_FUNCTIONS(VKATTN_DECLARE_FUNCTION)
  // Null without their extensions or versions.
  PFN_vkGetBufferDeviceAddress vkGetBufferDeviceAddress = nullptr;
  PFN_vkCmdPushDescriptorSetKHR vkCmdPushDescriptorSetKHR = nullptr;
  PFN_vkGetPipelineExecutablePropertiesKHR vkGetPipelineExecutablePropertiesKHR = nullptr;
  PFN_vkGetPipelineExecutableStatisticsKHR vkGetPipelineExecutableStatisticsKHR = nullptr;
  PFN_vkGetPipelineExecutableInternalRepresentationsKHR vkGetPipelineExecutableInternalRepresentationsKHR =
      nullptr;
  // Null where the instance has no VK_EXT_debug_utils.
  PFN_vkSetDebugUtilsObjectNameEXT vkSetDebugUtilsObjectNameEXT = nullptr;
  PFN_vkCmdBeginDebugUtilsLabelEXT vkCmdBeginDebugUtilsLabelEXT = nullptr;
  PFN_vkCmdEndDebugUtilsLabelEXT vkCmdEndDebugUtilsLabelEXT = nullptr;
};

#undef VKATTN_DECLARE_FUNCTION

/// All elements of a list of Vulkan's. `query(count, elements)` is the call of this name: it is asked for
/// their number first, then for them. Each is a copy of `blank` before, which has the structure's type.
template <class Element, class Query>
[[nodiscard]] Result<std::vector<Element>> read_list(const char* call, const Element& blank, Query&& query) {
  std::uint32_t count = 0;
  VkResult result = query(&count, static_cast<Element*>(nullptr));
  if (result != VK_SUCCESS) return vulkan_error(result, call);
  std::vector<Element> elements(count, blank);
  result = query(&count, elements.data());
  if (result < VK_SUCCESS) return vulkan_error(result, call);
  elements.resize(count);
  return elements;
}

/// Whether an extension is in a list of names, or of what a driver offers.
/// @{
[[nodiscard]] bool has_extension(std::span<const char* const> names, std::string_view name);
[[nodiscard]] bool has_extension(std::span<const VkExtensionProperties> offered, std::string_view name);
/// @}

/// The extensions that a device supports.
[[nodiscard]] Result<std::vector<VkExtensionProperties>> device_extensions(const InstanceFunctions& vk,
                                                                           VkPhysicalDevice device);

/// Sets the handle that a failed call was to create to null, as the call leaves it undefined.
template <class Handle>
[[nodiscard]] VkResult null_on_failure(VkResult result, Handle& handle) noexcept {
  if (result < VK_SUCCESS) handle = VK_NULL_HANDLE;
  return result;
}

/// The result of vkMapMemory. Where no address space is left, lavapipe reports success and gives mmap's -1.
[[nodiscard]] inline VkResult null_on_map_failure(VkResult result, void*& data) noexcept {
  const bool is_address = data != nullptr && std::bit_cast<std::intptr_t>(data) != -1;
  return null_on_failure(result == VK_SUCCESS && !is_address ? VK_ERROR_MEMORY_MAP_FAILED : result, data);
}

/// Host memory of Vulkan objects: the caller's callbacks, or the driver's own.
class Allocator {
 public:
  Allocator() = default;
  explicit Allocator(const VkAllocationCallbacks* callbacks) {
    if (callbacks != nullptr) callbacks_ = *callbacks;
  }
  /// For vkCreate... and vkDestroy...
  [[nodiscard]] const VkAllocationCallbacks* get() const {
    return callbacks_.pfnAllocation != nullptr ? &callbacks_ : nullptr;
  }

 private:
  VkAllocationCallbacks callbacks_{};
};

/// The error of a table that lacks a function.
[[nodiscard]] Error missing_function(const char* name);

/// Fails where a function is missing, naming it.
[[nodiscard]] Result<InstanceFunctions> load_instance_functions(VkInstance instance,
                                                                PFN_vkGetInstanceProcAddr get_proc_addr);
[[nodiscard]] Result<DeviceFunctions> load_device_functions(VkDevice device,
                                                            PFN_vkGetDeviceProcAddr get_proc_addr);
/// Loads the functions of VK_EXT_debug_utils, an extension of the instance: all or none.
void load_debug_functions(VkInstance instance, PFN_vkGetInstanceProcAddr get_proc_addr,
                          DeviceFunctions& functions);

}  // namespace vkattn::detail
