// The driver that does nothing: see driver.hpp.
#include "failing_driver/driver.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/functions.hpp"
#include "vulkan/functions.hpp"

namespace vkattn::tests {

namespace {

bool is_memory_visible = false;
std::uint64_t last_handle = 0x1000000;  // beyond those that scenarios make up
std::map<VkDeviceMemory, std::vector<std::byte>> memories;
std::map<VkBuffer, VkDeviceSize> buffer_bytes;

template <class Handle>
Handle new_handle() {
  ++last_handle;
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(last_handle));
  } else {
    return last_handle;
  }
}

// --- What a function does that no other is written for: success, with a new handle where one is asked for.
// ---

template <class Out>
void give(Out** target) {
  if constexpr (!std::is_const_v<Out>) *target = new_handle<Out*>();
}
template <class Other>
void give(const Other& /*no output*/) {}

template <class Function>
struct Idle;
template <class Out, class... In>
struct Idle<Out(VKAPI_PTR*)(In...)> {
  static VKAPI_ATTR Out VKAPI_CALL call(In... in) {
    if constexpr (std::is_same_v<Out, VkResult>) {
      (give(in), ...);
      return VK_SUCCESS;
    }
  }
};

// --- Those that tell something. ---

template <class Item>
VkResult give_list(std::initializer_list<Item> items, std::uint32_t* count, Item* target) {
  if (target != nullptr) std::copy_n(items.begin(), std::min<std::size_t>(*count, items.size()), target);
  *count = static_cast<std::uint32_t>(items.size());
  return VK_SUCCESS;
}

VkExtensionProperties extension(const char* name) {
  VkExtensionProperties properties{};
  std::strncpy(properties.extensionName, name, sizeof(properties.extensionName) - 1);
  return properties;
}

VKAPI_ATTR VkResult VKAPI_CALL instance_version(std::uint32_t* version) {
  *version = VK_API_VERSION_1_3;
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL layers(std::uint32_t* count, VkLayerProperties* target) {
  VkLayerProperties validation{};
  std::strncpy(validation.layerName, "VK_LAYER_KHRONOS_validation", sizeof(validation.layerName) - 1);
  return give_list({validation}, count, target);
}

VKAPI_ATTR VkResult VKAPI_CALL instance_extensions(const char* /*layer*/, std::uint32_t* count,
                                                   VkExtensionProperties* target) {
  return give_list({extension(VK_EXT_DEBUG_UTILS_EXTENSION_NAME)}, count, target);
}

VKAPI_ATTR VkResult VKAPI_CALL device_extensions(VkPhysicalDevice /*device*/, const char* /*layer*/,
                                                 std::uint32_t* count, VkExtensionProperties* target) {
  return give_list({extension(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME),
                    extension(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME),
                    extension("VK_KHR_cooperative_matrix"), extension("VK_NV_shader_sm_builtins")},
                   count, target);
}

#ifdef VK_KHR_cooperative_matrix
VKAPI_ATTR VkResult VKAPI_CALL matrix_shapes(VkPhysicalDevice /*device*/, std::uint32_t* count,
                                             VkCooperativeMatrixPropertiesKHR* target) {
  VkCooperativeMatrixPropertiesKHR shape{VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR};
  shape.MSize = shape.NSize = shape.KSize = 16;
  shape.AType = shape.BType = VK_COMPONENT_TYPE_FLOAT16_KHR;
  shape.CType = shape.ResultType = VK_COMPONENT_TYPE_FLOAT32_KHR;
  shape.scope = VK_SCOPE_SUBGROUP_KHR;
  return give_list({shape}, count, target);
}
#endif

VKAPI_ATTR VkResult VKAPI_CALL physical_devices(VkInstance /*instance*/, std::uint32_t* count,
                                                VkPhysicalDevice* target) {
  return give_list({reinterpret_cast<VkPhysicalDevice>(std::uintptr_t{1})}, count, target);
}

VKAPI_ATTR void VKAPI_CALL properties(VkPhysicalDevice /*device*/, VkPhysicalDeviceProperties* target) {
  *target = {};
  target->apiVersion = VK_API_VERSION_1_3;
  target->vendorID = 0x10005;
  target->deviceType =
      is_memory_visible ? VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU : VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  std::strncpy(target->deviceName, "a driver that does nothing", sizeof(target->deviceName) - 1);
  VkPhysicalDeviceLimits& limits = target->limits;
  limits.maxComputeSharedMemorySize = 49152;
  limits.maxComputeWorkGroupInvocations = 1024;
  std::fill_n(limits.maxComputeWorkGroupSize, 3, 1024U);
  std::fill_n(limits.maxComputeWorkGroupCount, 3, 65535U);
  limits.maxStorageBufferRange = 1U << 30U;
  limits.maxPushConstantsSize = 256;
  limits.maxPerStageDescriptorStorageBuffers = 64;
  limits.minStorageBufferOffsetAlignment = 64;
  limits.timestampPeriod = 1;
}

VKAPI_ATTR void VKAPI_CALL properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2* target) {
  properties(device, &target->properties);
  for (auto* next = static_cast<VkBaseOutStructure*>(target->pNext); next != nullptr; next = next->pNext) {
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES) {
      auto* const subgroup = reinterpret_cast<VkPhysicalDeviceSubgroupProperties*>(next);
      subgroup->subgroupSize = 32;
      subgroup->supportedStages = VK_SHADER_STAGE_COMPUTE_BIT;
      subgroup->supportedOperations = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_VOTE_BIT |
                                      VK_SUBGROUP_FEATURE_ARITHMETIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    } else if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES) {
      reinterpret_cast<VkPhysicalDeviceMaintenance3Properties*>(next)->maxMemoryAllocationSize = 1U << 30U;
    } else if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PUSH_DESCRIPTOR_PROPERTIES_KHR) {
      reinterpret_cast<VkPhysicalDevicePushDescriptorPropertiesKHR*>(next)->maxPushDescriptors = 32;
    } else if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV) {
      // What fills the device is soon written.
      reinterpret_cast<VkPhysicalDeviceShaderSMBuiltinsPropertiesNV*>(next)->shaderSMCount = 1;
    }
  }
}

VKAPI_ATTR void VKAPI_CALL features2(VkPhysicalDevice /*device*/, VkPhysicalDeviceFeatures2* target) {
  target->features.shaderInt16 = target->features.shaderInt64 = VK_TRUE;
  for (auto* next = static_cast<VkBaseOutStructure*>(target->pNext); next != nullptr; next = next->pNext) {
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES) {
      reinterpret_cast<VkPhysicalDevice16BitStorageFeatures*>(next)->storageBuffer16BitAccess = VK_TRUE;
    } else if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR) {
      reinterpret_cast<VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR*>(next)
          ->pipelineExecutableInfo = VK_TRUE;
    } else if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES) {
      reinterpret_cast<VkPhysicalDeviceShaderFloat16Int8Features*>(next)->shaderFloat16 = VK_TRUE;
    } else if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES) {
      reinterpret_cast<VkPhysicalDeviceVulkanMemoryModelFeatures*>(next)->vulkanMemoryModel = VK_TRUE;
#ifdef VK_KHR_cooperative_matrix
    } else if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR) {
      reinterpret_cast<VkPhysicalDeviceCooperativeMatrixFeaturesKHR*>(next)->cooperativeMatrix = VK_TRUE;
#endif
    }
  }
}

VKAPI_ATTR void VKAPI_CALL memory_properties(VkPhysicalDevice /*device*/,
                                             VkPhysicalDeviceMemoryProperties* target) {
  constexpr VkMemoryPropertyFlags kVisible =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  *target = {};
  target->memoryHeapCount = 1;
  target->memoryTypeCount = 2;
  target->memoryTypes[0].propertyFlags =
      VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | (is_memory_visible ? kVisible : 0);
  target->memoryTypes[1].propertyFlags = kVisible;
}

VKAPI_ATTR void VKAPI_CALL queue_families(VkPhysicalDevice /*device*/, std::uint32_t* count,
                                          VkQueueFamilyProperties* target) {
  VkQueueFamilyProperties family{};
  family.queueFlags = VK_QUEUE_COMPUTE_BIT;
  family.queueCount = 1;
  family.timestampValidBits = 64;
  (void)give_list({family}, count, target);
}

VKAPI_ATTR void VKAPI_CALL device_queue(VkDevice /*device*/, std::uint32_t /*family*/,
                                        std::uint32_t /*index*/, VkQueue* queue) {
  *queue = new_handle<VkQueue>();
}

// --- Memory. ---

VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice /*device*/, const VkBufferCreateInfo* info,
                                             const VkAllocationCallbacks* /*callbacks*/, VkBuffer* buffer) {
  *buffer = new_handle<VkBuffer>();
  buffer_bytes[*buffer] = info->size;
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL destroy_buffer(VkDevice /*device*/, VkBuffer buffer,
                                          const VkAllocationCallbacks* /*callbacks*/) {
  buffer_bytes.erase(buffer);
}

VKAPI_ATTR void VKAPI_CALL buffer_requirements(VkDevice /*device*/, VkBuffer buffer,
                                               VkMemoryRequirements* target) {
  *target = {buffer_bytes[buffer], 64, 3};
}

VKAPI_ATTR VkResult VKAPI_CALL allocate_memory(VkDevice /*device*/, const VkMemoryAllocateInfo* info,
                                               const VkAllocationCallbacks* /*callbacks*/,
                                               VkDeviceMemory* memory) {
  *memory = new_handle<VkDeviceMemory>();
  memories[*memory].reserve(static_cast<std::size_t>(info->allocationSize));
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice /*device*/, VkDeviceMemory memory,
                                       const VkAllocationCallbacks* /*callbacks*/) {
  memories.erase(memory);
}

VKAPI_ATTR VkResult VKAPI_CALL map_memory(VkDevice /*device*/, VkDeviceMemory memory, VkDeviceSize offset,
                                          VkDeviceSize /*size*/, VkMemoryMapFlags /*flags*/, void** data) {
  std::vector<std::byte>& bytes = memories[memory];
  bytes.resize(bytes.capacity());
  *data = bytes.data() + offset;
  return VK_SUCCESS;
}

// --- Pipelines, sets, results. ---

VKAPI_ATTR VkResult VKAPI_CALL allocate_sets(VkDevice /*device*/, const VkDescriptorSetAllocateInfo* info,
                                             VkDescriptorSet* sets) {
  std::generate_n(sets, info->descriptorSetCount, new_handle<VkDescriptorSet>);
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL cache_data(VkDevice /*device*/, VkPipelineCache /*cache*/, std::size_t* bytes,
                                          void* data) {
  *bytes = 16;
  if (data != nullptr) std::memset(data, 1, *bytes);
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL executables(VkDevice /*device*/, const VkPipelineInfoKHR* /*pipeline*/,
                                           std::uint32_t* count, VkPipelineExecutablePropertiesKHR* target) {
  VkPipelineExecutablePropertiesKHR one{VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR};
  one.subgroupSize = 32;
  return give_list({one}, count, target);
}

VKAPI_ATTR VkResult VKAPI_CALL statistics(VkDevice /*device*/, const VkPipelineExecutableInfoKHR* /*which*/,
                                          std::uint32_t* count, VkPipelineExecutableStatisticKHR* target) {
  return give_list({{VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR}}, count, target);
}

VKAPI_ATTR VkResult VKAPI_CALL representations(VkDevice /*device*/,
                                               const VkPipelineExecutableInfoKHR* /*which*/,
                                               std::uint32_t* count,
                                               VkPipelineExecutableInternalRepresentationKHR* target) {
  *count = 1;
  if (target == nullptr) return VK_SUCCESS;
  target->isText = VK_TRUE;
  target->dataSize = 4;
  if (target->pData != nullptr) std::memcpy(target->pData, "add", 4);
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL query_results(VkDevice /*device*/, VkQueryPool /*pool*/, std::uint32_t first,
                                             std::uint32_t count, std::size_t /*bytes*/, void* data,
                                             VkDeviceSize stride, VkQueryResultFlags /*flags*/) {
  // So long that what is timed runs twice, for drivers that compile at the first time.
  constexpr std::uint64_t kTicks = 20'000'000;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t ticks = kTicks * (first + i);
    std::memcpy(static_cast<std::byte*>(data) + i * stride, &ticks, sizeof(ticks));
  }
  return VK_SUCCESS;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc_addr(VkDevice /*device*/, const char* name) {
  return idle_driver_get_instance_proc_addr(VK_NULL_HANDLE, name);
}

using Functions = std::map<std::string_view, PFN_vkVoidFunction>;

template <class Function>
PFN_vkVoidFunction pointer(Function function) {
  return reinterpret_cast<PFN_vkVoidFunction>(function);
}

Functions make_functions() {
  Functions all;
#define VKATTN_IDLE(NAME) all[#NAME] = pointer(&Idle<PFN_##NAME>::call);
  VKATTN_DEVICE_FUNCTIONS(VKATTN_IDLE)
  VKATTN_RUNTIME_DEVICE_FUNCTIONS(VKATTN_IDLE)
  VKATTN_IDLE(vkCreateInstance)
  VKATTN_IDLE(vkDestroyInstance)
  VKATTN_IDLE(vkCreateDevice)
  VKATTN_IDLE(vkCreateDebugUtilsMessengerEXT)
  VKATTN_IDLE(vkDestroyDebugUtilsMessengerEXT)
  VKATTN_IDLE(vkSetDebugUtilsObjectNameEXT)
  VKATTN_IDLE(vkCmdBeginDebugUtilsLabelEXT)
  VKATTN_IDLE(vkCmdEndDebugUtilsLabelEXT)
  VKATTN_IDLE(vkCmdPushDescriptorSetKHR)
#undef VKATTN_IDLE
#define VKATTN_OWN(NAME, FUNCTION)   \
  {                                  \
    const PFN_##NAME own = FUNCTION; \
    all[#NAME] = pointer(own);       \
  }
  VKATTN_OWN(vkEnumerateInstanceVersion, instance_version)
  VKATTN_OWN(vkEnumerateInstanceLayerProperties, layers)
  VKATTN_OWN(vkEnumerateInstanceExtensionProperties, instance_extensions)
  VKATTN_OWN(vkEnumerateDeviceExtensionProperties, device_extensions)
  VKATTN_OWN(vkEnumeratePhysicalDevices, physical_devices)
  VKATTN_OWN(vkGetPhysicalDeviceProperties, properties)
  VKATTN_OWN(vkGetPhysicalDeviceProperties2, properties2)
  VKATTN_OWN(vkGetPhysicalDeviceFeatures2, features2)
  VKATTN_OWN(vkGetPhysicalDeviceMemoryProperties, memory_properties)
  VKATTN_OWN(vkGetPhysicalDeviceQueueFamilyProperties, queue_families)
  VKATTN_OWN(vkGetDeviceQueue, device_queue)
  VKATTN_OWN(vkGetDeviceProcAddr, device_proc_addr)
  VKATTN_OWN(vkCreateBuffer, create_buffer)
  VKATTN_OWN(vkDestroyBuffer, destroy_buffer)
  VKATTN_OWN(vkGetBufferMemoryRequirements, buffer_requirements)
  VKATTN_OWN(vkAllocateMemory, allocate_memory)
  VKATTN_OWN(vkFreeMemory, free_memory)
  VKATTN_OWN(vkMapMemory, map_memory)
  VKATTN_OWN(vkAllocateDescriptorSets, allocate_sets)
  VKATTN_OWN(vkGetPipelineCacheData, cache_data)
  VKATTN_OWN(vkGetPipelineExecutablePropertiesKHR, executables)
  VKATTN_OWN(vkGetPipelineExecutableStatisticsKHR, statistics)
  VKATTN_OWN(vkGetPipelineExecutableInternalRepresentationsKHR, representations)
  VKATTN_OWN(vkGetQueryPoolResults, query_results)
#ifdef VK_KHR_cooperative_matrix
  VKATTN_OWN(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR, matrix_shapes)
#endif
#undef VKATTN_OWN
  return all;
}

}  // namespace

void make_memory_visible(bool is_visible) {
  is_memory_visible = is_visible;
}

PFN_vkVoidFunction idle_driver_get_instance_proc_addr(VkInstance /*instance*/, const char* name) {
  static const Functions functions = make_functions();
  const auto function = functions.find(name);
  return function != functions.end() ? function->second : nullptr;
}

}  // namespace vkattn::tests
