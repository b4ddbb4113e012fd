// The library's own Vulkan function tables, filled from the caller's vkGetInstanceProcAddr: one list of names
// each.
#pragma once

#include <vulkan/vulkan_core.h>

#include <vkattn/result.hpp>

namespace vkattn::detail {

#define VKATTN_INSTANCE_FUNCTIONS(X)     \
  X(vkGetPhysicalDeviceProperties2)      \
  X(vkGetPhysicalDeviceMemoryProperties) \
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
  X(vkCreateDescriptorPool)        \
  X(vkDestroyDescriptorPool)       \
  X(vkAllocateDescriptorSets)      \
  X(vkUpdateDescriptorSets)        \
  X(vkCmdBindPipeline)             \
  X(vkCmdBindDescriptorSets)       \
  X(vkCmdPushConstants)            \
  X(vkCmdPipelineBarrier)          \
  X(vkCmdUpdateBuffer)             \
  X(vkCmdDispatch)

#define VKATTN_DECLARE_FUNCTION(NAME) PFN_##NAME NAME = nullptr;

struct InstanceFunctions {
  VKATTN_INSTANCE_FUNCTIONS(VKATTN_DECLARE_FUNCTION)
};

struct DeviceFunctions {
  VKATTN_DEVICE_FUNCTIONS(VKATTN_DECLARE_FUNCTION)
  // Null without their extensions.
  PFN_vkCmdPushDescriptorSetKHR vkCmdPushDescriptorSetKHR = nullptr;
  PFN_vkGetPipelineExecutablePropertiesKHR vkGetPipelineExecutablePropertiesKHR = nullptr;
  PFN_vkGetPipelineExecutableStatisticsKHR vkGetPipelineExecutableStatisticsKHR = nullptr;
  PFN_vkGetPipelineExecutableInternalRepresentationsKHR vkGetPipelineExecutableInternalRepresentationsKHR =
      nullptr;
};

#undef VKATTN_DECLARE_FUNCTION

/// The error of a table that lacks a function.
[[nodiscard]] Error missing_function(const char* name);

/// Fails where a function is missing, naming it.
[[nodiscard]] Result<InstanceFunctions> load_instance_functions(VkInstance instance,
                                                                PFN_vkGetInstanceProcAddr get_proc_addr);
[[nodiscard]] Result<DeviceFunctions> load_device_functions(VkDevice device,
                                                            PFN_vkGetDeviceProcAddr get_proc_addr);

}  // namespace vkattn::detail
