// Loading of the function tables.
#include "vulkan/functions.hpp"

#include <algorithm>

namespace vkattn::detail {

bool has_extension(std::span<const char* const> names, std::string_view name) {
  return std::ranges::any_of(names, [&](const char* each) { return name == each; });
}

bool has_extension(std::span<const VkExtensionProperties> offered, std::string_view name) {
  return std::ranges::any_of(offered,
                             [&](const VkExtensionProperties& each) { return name == each.extensionName; });
}

Result<std::vector<VkExtensionProperties>> device_extensions(const InstanceFunctions& vk,
                                                             VkPhysicalDevice device) {
  return read_list("vkEnumerateDeviceExtensionProperties", VkExtensionProperties{}, [&](auto... out) {
    return vk.vkEnumerateDeviceExtensionProperties(device, nullptr, out...);
  });
}

Error missing_function(const char* name) {
  return {ErrorCode::kUnsupported, VK_ERROR_INITIALIZATION_FAILED,
          message("the Vulkan driver does not provide ", name, "; vkattn needs Vulkan 1.1")};
}

Result<InstanceFunctions> load_instance_functions(VkInstance instance,
                                                  PFN_vkGetInstanceProcAddr get_proc_addr) {
  InstanceFunctions functions;
#define VKATTN_LOAD(NAME)                                                        \
  functions.NAME = reinterpret_cast<PFN_##NAME>(get_proc_addr(instance, #NAME)); \
  if (functions.NAME == nullptr) return missing_function(#NAME);
  VKATTN_INSTANCE_FUNCTIONS(VKATTN_LOAD)
#undef VKATTN_LOAD
  return functions;
}

Result<DeviceFunctions> load_device_functions(VkDevice device, PFN_vkGetDeviceProcAddr get_proc_addr) {
  DeviceFunctions functions;
#define VKATTN_LOAD(NAME)                                                      \
  functions.NAME = reinterpret_cast<PFN_##NAME>(get_proc_addr(device, #NAME)); \
  if (functions.NAME == nullptr) return missing_function(#NAME);
  VKATTN_DEVICE_FUNCTIONS(VKATTN_LOAD)
#undef VKATTN_LOAD
#define VKATTN_LOAD_OPTIONAL(NAME) \
  functions.NAME = reinterpret_cast<PFN_##NAME>(get_proc_addr(device, #NAME));
  VKATTN_LOAD_OPTIONAL(vkCmdPushDescriptorSetKHR)
  if (functions.vkCmdPushDescriptorSetKHR == nullptr) {  // as Vulkan 1.4 has it
    functions.vkCmdPushDescriptorSetKHR =
        reinterpret_cast<PFN_vkCmdPushDescriptorSetKHR>(get_proc_addr(device, "vkCmdPushDescriptorSet"));
  }
  VKATTN_LOAD_OPTIONAL(vkGetBufferDeviceAddress)
  VKATTN_LOAD_OPTIONAL(vkGetPipelineExecutablePropertiesKHR)
  VKATTN_LOAD_OPTIONAL(vkGetPipelineExecutableStatisticsKHR)
  VKATTN_LOAD_OPTIONAL(vkGetPipelineExecutableInternalRepresentationsKHR)
#undef VKATTN_LOAD_OPTIONAL
  return functions;
}

void load_debug_functions(VkInstance instance, PFN_vkGetInstanceProcAddr get_proc_addr,
                          DeviceFunctions& functions) {
#define VKATTN_LOAD(NAME) const auto NAME = reinterpret_cast<PFN_##NAME>(get_proc_addr(instance, #NAME));
  VKATTN_LOAD(vkSetDebugUtilsObjectNameEXT)
  VKATTN_LOAD(vkCmdBeginDebugUtilsLabelEXT)
  VKATTN_LOAD(vkCmdEndDebugUtilsLabelEXT)
#undef VKATTN_LOAD
  if (vkSetDebugUtilsObjectNameEXT == nullptr || vkCmdBeginDebugUtilsLabelEXT == nullptr ||
      vkCmdEndDebugUtilsLabelEXT == nullptr) {
    return;
  }
  functions.vkSetDebugUtilsObjectNameEXT = vkSetDebugUtilsObjectNameEXT;
  functions.vkCmdBeginDebugUtilsLabelEXT = vkCmdBeginDebugUtilsLabelEXT;
  functions.vkCmdEndDebugUtilsLabelEXT = vkCmdEndDebugUtilsLabelEXT;
}

}  // namespace vkattn::detail
