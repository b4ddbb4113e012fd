// The errors of each function: see faults.hpp. FailingDriver.ErrorsAreThoseOfTheRegistry compares them with
// vk.xml.
#include "failing_driver/faults.hpp"

#include <map>

namespace vkattn::tests {

std::vector<VkResult> documented_errors(const std::string& function) {
  using Errors = std::vector<VkResult>;
  static const std::map<std::string, Errors> kWithoutOutOfDeviceMemory{
      {"vkEnumerateInstanceVersion", {VK_ERROR_OUT_OF_HOST_MEMORY}},
      {"vkCreateDebugUtilsMessengerEXT", {VK_ERROR_OUT_OF_HOST_MEMORY}},
      {"vkResetFences", {VK_ERROR_OUT_OF_DEVICE_MEMORY}},
      {"vkGetMemoryHostPointerPropertiesEXT", {VK_ERROR_OUT_OF_HOST_MEMORY}},
      {"vkFreeDescriptorSets", {}}};
  static const std::map<std::string, Errors> kFurther{
      {"vkAllocateDescriptorSets", {VK_ERROR_FRAGMENTED_POOL, VK_ERROR_OUT_OF_POOL_MEMORY}},
      {"vkCreateComputePipelines", {VK_ERROR_INVALID_SHADER_NV}},
      {"vkCreateDescriptorPool", {VK_ERROR_FRAGMENTATION_EXT}},
      {"vkCreateDevice",
       {VK_ERROR_INITIALIZATION_FAILED, VK_ERROR_EXTENSION_NOT_PRESENT, VK_ERROR_FEATURE_NOT_PRESENT,
        VK_ERROR_TOO_MANY_OBJECTS, VK_ERROR_DEVICE_LOST}},
      {"vkCreateInstance",
       {VK_ERROR_INITIALIZATION_FAILED, VK_ERROR_LAYER_NOT_PRESENT, VK_ERROR_EXTENSION_NOT_PRESENT,
        VK_ERROR_INCOMPATIBLE_DRIVER}},
      {"vkCreateShaderModule", {VK_ERROR_INVALID_SHADER_NV}},
      {"vkDeviceWaitIdle", {VK_ERROR_DEVICE_LOST}},
      {"vkEnumeratePhysicalDevices", {VK_ERROR_INITIALIZATION_FAILED}},
      {"vkGetQueryPoolResults", {VK_ERROR_DEVICE_LOST}},
      {"vkMapMemory", {VK_ERROR_MEMORY_MAP_FAILED}},
      {"vkQueueSubmit", {VK_ERROR_DEVICE_LOST}},
      {"vkQueueWaitIdle", {VK_ERROR_DEVICE_LOST}},
      {"vkWaitForFences", {VK_ERROR_DEVICE_LOST}}};
  if (const auto all = kWithoutOutOfDeviceMemory.find(function); all != kWithoutOutOfDeviceMemory.end()) {
    return all->second;
  }
  Errors errors{VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY};
  if (const auto more = kFurther.find(function); more != kFurther.end()) {
    errors.insert(errors.end(), more->second.begin(), more->second.end());
  }
  return errors;
}

ErrorCode expected_code(const Fault& fault) {
  const bool is_of_compiler =
      fault.function == "vkCreateComputePipelines" || fault.function == "vkCreateShaderModule";
  if (is_of_compiler && fault.error == VK_ERROR_INVALID_SHADER_NV) return ErrorCode::kUnsupported;
  switch (fault.error) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return ErrorCode::kOutOfMemory;
    case VK_ERROR_DEVICE_LOST:
      return ErrorCode::kDeviceLost;
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return ErrorCode::kNotFound;
    default:
      return ErrorCode::kVulkan;
  }
}

}  // namespace vkattn::tests
