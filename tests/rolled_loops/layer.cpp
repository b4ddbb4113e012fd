// A Vulkan layer under which lavapipe before Mesa 25 keeps loops as they are written: it sets DontUnroll at
// each OpLoopMerge of the shaders that such a device is given, and changes nothing on others. That driver
// takes most of a test's time over unrolled code, for pipelines that run once. Results are the same, but for
// invocations beyond the 65535 iterations after which it leaves them (Capabilities::max_loop_iterations):
// rolled loops count towards them. So problems that are long for their kernel are compiled as without the
// layer: make_plan() of tests/gpu/support.hpp sees to it, by are_long() of tests/support/unrolled_loops.hpp,
// and UnrolledLoops where a test makes its plans otherwise. A test that fails under this layer only, with
// elements that were never written, wants one. With VKATTN_TEST_UNROLLED_LOOPS=1 the layer does nothing, as
// where all problems run. The loader's interface: LoaderLayerInterface.md of Vulkan-Loader.
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "support/vulkan_layer.hpp"
#include "vulkan/loops.hpp"

namespace {

using namespace vkattn::tests;

struct InstanceFunctions {
  VkInstance instance = nullptr;
  PFN_vkGetInstanceProcAddr get = nullptr;
  PFN_vkDestroyInstance destroy = nullptr;
  PFN_vkGetPhysicalDeviceProperties properties = nullptr;
};

struct DeviceFunctions {
  PFN_vkGetDeviceProcAddr get = nullptr;
  PFN_vkDestroyDevice destroy = nullptr;
  PFN_vkCreateShaderModule create_module = nullptr;
  bool unrolls_much = false;
};

Kept<InstanceFunctions>& instances() {
  static Kept<InstanceFunctions> kept;
  return kept;
}

Kept<DeviceFunctions>& devices() {
  static Kept<DeviceFunctions> kept;
  return kept;
}

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info,
                                               const VkAllocationCallbacks* allocator, VkInstance* instance) {
  PFN_vkGetInstanceProcAddr get = nullptr;
  const VkResult result = create_below(info, allocator, instance, get);
  if (result != VK_SUCCESS) return result;
  instances().put(
      *instance,
      {*instance, get, reinterpret_cast<PFN_vkDestroyInstance>(get(*instance, "vkDestroyInstance")),
       reinterpret_cast<PFN_vkGetPhysicalDeviceProperties>(get(*instance, "vkGetPhysicalDeviceProperties"))});
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks* allocator) {
  if (instance != nullptr) instances().take(instance).destroy(instance, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkDevice* device) {
  const InstanceFunctions functions = instances().get(physical);
  PFN_vkGetDeviceProcAddr get = nullptr;
  const VkResult result = create_below(functions.instance, physical, info, allocator, device, get);
  if (result != VK_SUCCESS) return result;
  VkPhysicalDeviceProperties properties{};
  functions.properties(physical, &properties);
  devices().put(*device, {get, reinterpret_cast<PFN_vkDestroyDevice>(get(*device, "vkDestroyDevice")),
                          reinterpret_cast<PFN_vkCreateShaderModule>(get(*device, "vkCreateShaderModule")),
                          std::string_view(properties.deviceName).starts_with("llvmpipe") &&
                              VK_API_VERSION_MAJOR(properties.driverVersion) < 25});
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks* allocator) {
  if (device != nullptr) devices().take(device).destroy(device, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL create_shader_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                                                    const VkAllocationCallbacks* allocator,
                                                    VkShaderModule* module) {
  const DeviceFunctions functions = devices().get(device);
  // Set by tests of long loops: tests/support/unrolled_loops.hpp.
  if (!functions.unrolls_much || std::getenv("VKATTN_TEST_UNROLLED_LOOPS") != nullptr) {
    return functions.create_module(device, info, allocator, module);
  }
  std::vector<std::uint32_t> spirv(info->pCode, info->pCode + info->codeSize / sizeof(std::uint32_t));
  vkattn::detail::keep_loops(spirv);
  VkShaderModuleCreateInfo changed = *info;
  changed.pCode = spirv.data();
  return functions.create_module(device, &changed, allocator, module);
}

}  // namespace

// Names of their own, as a program that links libvulkan has functions of the usual ones. The manifest tells
// the loader.
extern "C" {

VKATTN_TEST_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkattn_rolled_loops_device(VkDevice device,
                                                                                       const char* name) {
  static const Named own[] = {
      {"vkGetDeviceProcAddr", erased(vkattn_rolled_loops_device)},
      {"vkDestroyDevice", erased(destroy_device)},
      {"vkCreateShaderModule", erased(create_shader_module)},
  };
  if (PFN_vkVoidFunction function = find(own, name); function != nullptr || device == nullptr)
    return function;
  return devices().get(device).get(device, name);
}

VKATTN_TEST_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkattn_rolled_loops_instance(VkInstance instance,
                                                                                         const char* name) {
  static const Named own[] = {
      {"vkGetInstanceProcAddr", erased(vkattn_rolled_loops_instance)},
      {"vkCreateInstance", erased(create_instance)},
      {"vkDestroyInstance", erased(destroy_instance)},
      {"vkCreateDevice", erased(create_device)},
  };
  if (PFN_vkVoidFunction function = find(own, name); function != nullptr) return function;
  if (PFN_vkVoidFunction function = vkattn_rolled_loops_device(nullptr, name); function != nullptr)
    return function;
  return instance == nullptr ? nullptr : instances().get(instance).get(instance, name);
}
}
