// A Vulkan layer under which lavapipe before Mesa 25 does not unroll loops: it sets DontUnroll at each
// OpLoopMerge of the shaders for such a device, and changes nothing on other devices. Otherwise that driver
// would spend most of a test's time on unrolled code for pipelines that run once. Results stay the same,
// except in invocations with more than 65535 iterations, after which the driver stops
// (Capabilities::max_loop_iterations): rolled loops count towards them. So problems that are long for their
// kernel are compiled as without the layer. make_plan() of tests/gpu/support.hpp decides that by are_long()
// of tests/support/unrolled_loops.hpp. A test that makes its plans in another way uses UnrolledLoops. If a
// test fails under this layer only, with elements that were never written, it needs that. With
// VKATTN_TEST_UNROLLED_LOOPS=1 the layer does nothing, as in runs with all problems. The loader's interface
// is described in LoaderLayerInterface.md of Vulkan-Loader.
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "spirv/loops.hpp"
#include "support/vulkan_layer.hpp"

namespace {

using namespace vkattn::tests;

struct InstanceFunctions : InstanceBelow {
  PFN_vkGetPhysicalDeviceProperties properties = nullptr;

  void load() { take(properties, "vkGetPhysicalDeviceProperties"); }
};

struct DeviceFunctions : DeviceBelow {
  PFN_vkCreateShaderModule create_module = nullptr;
  bool unrolls_much = false;

  void load(const InstanceFunctions& functions, VkPhysicalDevice physical) {
    take(create_module, "vkCreateShaderModule");
    VkPhysicalDeviceProperties properties{};
    functions.properties(physical, &properties);
    unrolls_much = std::string_view(properties.deviceName).starts_with("llvmpipe") &&
                   VK_API_VERSION_MAJOR(properties.driverVersion) < 25;
  }
};

using RolledLoops = LayerOf<InstanceFunctions, DeviceFunctions>;

VKAPI_ATTR VkResult VKAPI_CALL create_shader_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                                                    const VkAllocationCallbacks* allocator,
                                                    VkShaderModule* module) {
  const DeviceFunctions functions = RolledLoops::devices().get(device);
  // Tests of long loops set it: tests/support/unrolled_loops.hpp.
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

VKATTN_TEST_LAYER_ENTRIES(vkattn_rolled_loops)

namespace {

const Named kOfDevices[] = {
    {"vkGetDeviceProcAddr", erased(vkattn_rolled_loops_device)},
    {"vkDestroyDevice", erased(RolledLoops::destroy_device)},
    {"vkCreateShaderModule", erased(create_shader_module)},
};
const Named kOfInstances[] = {
    {"vkGetInstanceProcAddr", erased(vkattn_rolled_loops_instance)},
    {"vkCreateInstance", erased(RolledLoops::create_instance)},
    {"vkDestroyInstance", erased(RolledLoops::destroy_instance)},
    {"vkCreateDevice", erased(RolledLoops::create_device)},
};

}  // namespace

VKATTN_TEST_LAYER(vkattn_rolled_loops, RolledLoops)
