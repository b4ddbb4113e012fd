// The device of the Vulkan on the host: what it reports, and the functions that the runtime needs. See
// host_vulkan.hpp.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/functions.hpp"
#include "support/host_vulkan.hpp"
#include "vulkan/device_feature_table.hpp"
#include "vulkan/functions.hpp"

namespace vkattn::tests {
namespace {

template <class Handle>
Handle new_handle() {
  static std::uint64_t last_handle = 0x2000000;  // larger than the handles of all other objects
  ++last_handle;
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(last_handle));
  } else {
    return last_handle;
  }
}

// --- The default for functions without code of their own: success, and a new handle if one is asked for. ---

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

// --- What the device reports. ---

template <class Item>
VkResult give_list(std::span<const Item> items, std::uint32_t* count, Item* target) {
  if (target != nullptr) std::copy_n(items.begin(), std::min<std::size_t>(*count, items.size()), target);
  *count = static_cast<std::uint32_t>(items.size());
  return VK_SUCCESS;
}
template <class Item>
VkResult give_list(std::initializer_list<Item> items, std::uint32_t* count, Item* target) {
  return give_list(std::span<const Item>(items.begin(), items.size()), count, target);
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

/// Whether the device has the feature. HostFeatures::kSome means the listed features.
bool is_there(const detail::DeviceFeatureRow& row) {
  constexpr std::string_view kSome[] = {
      "storageBuffer16BitAccess", "shaderInt16",    "shaderInt64",      "shaderFloat16", "vulkanMemoryModel",
      "pipelineExecutableInfo",   "pushDescriptor", "cooperativeMatrix"};
  if (host_settings().features != HostFeatures::kSome) return host_settings().features == HostFeatures::kAll;
  return std::ranges::find(kSome, row.name) != std::end(kSome);
}

VKAPI_ATTR void VKAPI_CALL features2(VkPhysicalDevice /*device*/, VkPhysicalDeviceFeatures2* all) {
  for (auto* it = reinterpret_cast<VkBaseOutStructure*>(all); it != nullptr; it = it->pNext) {
    for (const detail::DeviceFeatureRow& row : detail::device_feature_table()) {
      const VkBool32 value = is_there(row) ? VK_TRUE : VK_FALSE;
      for (const detail::FeaturePlace& place : {row.place, row.core_place}) {
        if (!place.is_somewhere() || place.type != it->sType) continue;
        std::memcpy(reinterpret_cast<std::byte*>(it) + place.byte, &value, sizeof(value));
      }
    }
  }
}

VKAPI_ATTR VkResult VKAPI_CALL device_extensions(VkPhysicalDevice /*device*/, const char* /*layer*/,
                                                 std::uint32_t* count, VkExtensionProperties* target) {
  std::set<std::string_view> names;
  for (const detail::DeviceFeatureRow& row : detail::device_feature_table()) {
    if (row.extension != nullptr && is_there(row)) names.insert(row.extension);
  }
  if (host_settings().features == HostFeatures::kSome)
    names.insert({VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME, "VK_NV_shader_sm_builtins"});
  if (host_settings().features == HostFeatures::kAll) {
    for (const detail::DeviceExtensionRow& row : detail::device_extension_table())
      names.insert(row.extension);
  }
  if (host_settings().imports_host_memory) names.insert(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  std::vector<VkExtensionProperties> all;
  for (const std::string_view name : names) all.push_back(extension(name.data()));
  return give_list(std::span<const VkExtensionProperties>(all), count, target);
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

template <class Structure>
Structure* found(VkBaseOutStructure* structure, VkStructureType type) {
  return structure->sType == type ? reinterpret_cast<Structure*>(structure) : nullptr;
}

void fill_properties(VkBaseOutStructure* it) {
  const HostSettings& settings = host_settings();
  if (auto* const sizes = found<VkPhysicalDeviceSubgroupSizeControlProperties>(
          it, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES)) {
    sizes->minSubgroupSize = settings.min_subgroup;
    sizes->maxSubgroupSize = settings.max_subgroup;
    sizes->maxComputeWorkgroupSubgroups = settings.invocations / settings.min_subgroup;
    sizes->requiredSubgroupSizeStages = VK_SHADER_STAGE_COMPUTE_BIT;
  }
  if (auto* const subgroup = found<VkPhysicalDeviceSubgroupProperties>(
          it, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES)) {
    subgroup->subgroupSize = settings.max_subgroup;
    subgroup->supportedStages = VK_SHADER_STAGE_COMPUTE_BIT;
    subgroup->supportedOperations = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_VOTE_BIT |
                                    VK_SUBGROUP_FEATURE_ARITHMETIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
  }
  if (auto* const maintenance = found<VkPhysicalDeviceMaintenance3Properties>(
          it, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES)) {
    maintenance->maxMemoryAllocationSize = settings.most_memory;
  }
  if (auto* const host = found<VkPhysicalDeviceExternalMemoryHostPropertiesEXT>(
          it, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT)) {
    host->minImportedHostPointerAlignment = 4096;
  }
  if (auto* const push = found<VkPhysicalDevicePushDescriptorPropertiesKHR>(
          it, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PUSH_DESCRIPTOR_PROPERTIES_KHR)) {
    push->maxPushDescriptors = 32;
  }
  if (auto* const units = found<VkPhysicalDeviceShaderSMBuiltinsPropertiesNV>(
          it, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV)) {
    units->shaderSMCount = 1;  // so that few workgroups fill the device
  }
}

/// Knows only of buffers that can also be copied from and to, which those of the runtime are.
VKAPI_ATTR void VKAPI_CALL external_buffers(VkPhysicalDevice /*device*/,
                                            const VkPhysicalDeviceExternalBufferInfo* info,
                                            VkExternalBufferProperties* target) {
  constexpr VkBufferUsageFlags kUsage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  target->externalMemoryProperties = {};
  if (!host_settings().imports_host_memory || (info->usage & kUsage) != kUsage) return;
  target->externalMemoryProperties.externalMemoryFeatures = VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT;
  target->externalMemoryProperties.compatibleHandleTypes = info->handleType;
}

VKAPI_ATTR VkResult VKAPI_CALL host_pointer(VkDevice /*device*/, VkExternalMemoryHandleTypeFlagBits /*kind*/,
                                            const void* /*pages*/, VkMemoryHostPointerPropertiesEXT* target) {
  target->memoryTypeBits = 3;
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL properties(VkPhysicalDevice /*device*/, VkPhysicalDeviceProperties* target) {
  const HostSettings& settings = host_settings();
  VkPhysicalDeviceProperties& it = *target;
  it = {};
  it.apiVersion = settings.api_version;
  it.deviceType = settings.type;
  it.vendorID = 0x1234;
  it.deviceID = 7;
  it.driverVersion = 42;
  std::strncpy(it.deviceName, "A device", sizeof(it.deviceName) - 1);
  VkPhysicalDeviceLimits& limits = it.limits;
  limits.maxComputeSharedMemorySize = settings.shared_bytes;
  limits.maxComputeWorkGroupInvocations = settings.invocations;
  std::fill_n(limits.maxComputeWorkGroupSize, 3, settings.invocations);
  std::fill_n(limits.maxComputeWorkGroupCount, 3, settings.groups);
  limits.maxStorageBufferRange = settings.range;
  limits.maxPushConstantsSize = 128;
  limits.maxPerStageDescriptorStorageBuffers = settings.storage_buffers;
  limits.minStorageBufferOffsetAlignment = settings.offset_alignment;
  limits.timestampPeriod = 1;
}

VKAPI_ATTR void VKAPI_CALL properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2* all) {
  properties(device, &all->properties);
  for (auto* next = static_cast<VkBaseOutStructure*>(all->pNext); next != nullptr; next = next->pNext) {
    fill_properties(next);
  }
}

VKAPI_ATTR void VKAPI_CALL memory_properties(VkPhysicalDevice /*device*/,
                                             VkPhysicalDeviceMemoryProperties* target) {
  constexpr VkMemoryPropertyFlags kVisible =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  *target = {};
  target->memoryHeapCount = 1;
  target->memoryHeaps[0].size = VkDeviceSize{1} << 33U;
  target->memoryTypeCount = 2;
  target->memoryTypes[0].propertyFlags =
      VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | (host_settings().is_memory_visible ? kVisible : 0);
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

// --- Results. ---

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
  // So long that timed work runs just twice. The first time may contain the compilation of the driver.
  constexpr std::uint64_t kTicks = 20'000'000;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t ticks = kTicks * (first + i);
    std::memcpy(static_cast<std::byte*>(data) + i * stride, &ticks, sizeof(ticks));
  }
  return VK_SUCCESS;
}

using Functions = std::map<std::string_view, PFN_vkVoidFunction>;

template <class Function>
PFN_vkVoidFunction pointer(Function function) {
  return reinterpret_cast<PFN_vkVoidFunction>(function);
}

#define VKATTN_OWN(NAME, FUNCTION)   \
  {                                  \
    const PFN_##NAME own = FUNCTION; \
    all[#NAME] = pointer(own);       \
  }
Functions functions_that_tell() {
  Functions all;
  VKATTN_OWN(vkGetPhysicalDeviceProperties2, properties2)
  VKATTN_OWN(vkGetPhysicalDeviceFeatures2, features2)
  VKATTN_OWN(vkEnumerateDeviceExtensionProperties, device_extensions)
  VKATTN_OWN(vkGetPhysicalDeviceMemoryProperties, memory_properties)
  return all;
}

Functions functions_of_runtime() {
  Functions all;
#define VKATTN_IDLE(NAME) all[#NAME] = pointer(&Idle<PFN_##NAME>::call);
  VKATTN_RUNTIME_DEVICE_FUNCTIONS(VKATTN_IDLE)
  VKATTN_IDLE(vkCreateInstance)
  VKATTN_IDLE(vkDestroyInstance)
  VKATTN_IDLE(vkCreateDevice)
  VKATTN_IDLE(vkCreateDebugUtilsMessengerEXT)
  VKATTN_IDLE(vkDestroyDebugUtilsMessengerEXT)
  VKATTN_IDLE(vkSetDebugUtilsObjectNameEXT)
  VKATTN_IDLE(vkCmdBeginDebugUtilsLabelEXT)
  VKATTN_IDLE(vkCmdEndDebugUtilsLabelEXT)
#undef VKATTN_IDLE
  VKATTN_OWN(vkEnumerateInstanceVersion, instance_version)
  VKATTN_OWN(vkEnumerateInstanceLayerProperties, layers)
  VKATTN_OWN(vkEnumerateInstanceExtensionProperties, instance_extensions)
  VKATTN_OWN(vkEnumeratePhysicalDevices, physical_devices)
  VKATTN_OWN(vkGetPhysicalDeviceProperties, properties)
  VKATTN_OWN(vkGetPhysicalDeviceQueueFamilyProperties, queue_families)
  VKATTN_OWN(vkGetDeviceQueue, device_queue)
  VKATTN_OWN(vkGetPhysicalDeviceExternalBufferProperties, external_buffers)
  VKATTN_OWN(vkGetMemoryHostPointerPropertiesEXT, host_pointer)
  VKATTN_OWN(vkGetPipelineExecutablePropertiesKHR, executables)
  VKATTN_OWN(vkGetPipelineExecutableStatisticsKHR, statistics)
  VKATTN_OWN(vkGetPipelineExecutableInternalRepresentationsKHR, representations)
  VKATTN_OWN(vkGetQueryPoolResults, query_results)
#ifdef VK_KHR_cooperative_matrix
  VKATTN_OWN(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR, matrix_shapes)
#endif
  return all;
}
#undef VKATTN_OWN

PFN_vkVoidFunction find(const Functions& functions, std::string_view name) {
  const auto function = functions.find(name);
  return function != functions.end() ? function->second : nullptr;
}

}  // namespace

PFN_vkVoidFunction function_that_tells(std::string_view name) {
  static const Functions functions = functions_that_tell();
  return find(functions, name);
}

PFN_vkVoidFunction function_of_runtime(std::string_view name) {
  static const Functions functions = functions_of_runtime();
  return find(functions, name);
}

}  // namespace vkattn::tests
