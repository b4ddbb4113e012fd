// A Vulkan layer whose devices are lost. VKATTN_TEST_LOST_AFTER is the number of submissions that a device
// lives for, VKATTN_TEST_LOST_AFTER_WAITS that of waits for a queue, VKATTN_TEST_LOST_AFTER_CREATIONS that of
// buffers, pipelines and swapchains, and VKATTN_TEST_LOSSES the number of devices that are lost; those made
// later live. Submissions, presents, waits and the creation of these objects give VK_ERROR_DEVICE_LOST then,
// when the driver's own work has ended: a program may destroy everything of a lost device at once. Other
// calls reach the driver. VKATTN_TEST_LOST_OPENINGS is the number of devices whose creation gives it.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "support/vulkan_layer.hpp"

namespace {

using namespace vkattn::tests;

constexpr std::int64_t kNever = std::int64_t{1} << 40U;

std::int64_t number(const char* name, std::int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

struct InstanceFunctions : InstanceBelow {
  void load() {}
};

std::atomic<std::int64_t> devices_made = 0, openings = 0;

struct DeviceFunctions : DeviceBelow {
  PFN_vkQueueSubmit submit = nullptr;
  PFN_vkQueuePresentKHR present = nullptr;
  PFN_vkQueueWaitIdle wait_queue = nullptr;
  PFN_vkDeviceWaitIdle wait_device = nullptr;
  PFN_vkWaitForFences wait_fences = nullptr;
  PFN_vkCreateBuffer create_buffer = nullptr;
  PFN_vkCreateComputePipelines create_compute = nullptr;
  PFN_vkCreateGraphicsPipelines create_graphics = nullptr;
  PFN_vkCreateSwapchainKHR create_swapchain = nullptr;
  struct Left {
    std::atomic<std::int64_t> submissions, waits, creations;
  };
  std::shared_ptr<Left> left;

  void load(const InstanceFunctions& /*functions*/, VkPhysicalDevice /*physical*/) {
    take(submit, "vkQueueSubmit");
    take(present, "vkQueuePresentKHR");
    take(wait_queue, "vkQueueWaitIdle");
    take(wait_device, "vkDeviceWaitIdle");
    take(wait_fences, "vkWaitForFences");
    take(create_buffer, "vkCreateBuffer");
    take(create_compute, "vkCreateComputePipelines");
    take(create_graphics, "vkCreateGraphicsPipelines");
    take(create_swapchain, "vkCreateSwapchainKHR");
    const bool is_lost_once = devices_made++ < number("VKATTN_TEST_LOSSES", 1);
    left = std::make_shared<Left>();
    left->submissions = is_lost_once ? number("VKATTN_TEST_LOST_AFTER", kNever) : kNever;
    left->waits = is_lost_once ? number("VKATTN_TEST_LOST_AFTER_WAITS", kNever) : kNever;
    left->creations = is_lost_once ? number("VKATTN_TEST_LOST_AFTER_CREATIONS", kNever) : kNever;
  }
  [[nodiscard]] bool is_lost() const {
    return left->submissions < 0 || left->waits < 0 || left->creations < 0;
  }
  // The result of a call of a lost device, after the driver's own work.
  [[nodiscard]] VkResult lost() const {
    (void)wait_device(device);
    return VK_ERROR_DEVICE_LOST;
  }
};

using Lost = LayerOf<InstanceFunctions, DeviceFunctions>;

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* submits,
                                      VkFence fence) {
  const DeviceFunctions functions = Lost::devices().get(queue);
  --functions.left->submissions;
  if (functions.is_lost()) return functions.lost();
  return functions.submit(queue, count, submits, fence);
}
VKAPI_ATTR VkResult VKAPI_CALL present(VkQueue queue, const VkPresentInfoKHR* info) {
  const DeviceFunctions functions = Lost::devices().get(queue);
  return functions.is_lost() ? functions.lost() : functions.present(queue, info);
}
VKAPI_ATTR VkResult VKAPI_CALL wait_queue(VkQueue queue) {
  const DeviceFunctions functions = Lost::devices().get(queue);
  --functions.left->waits;
  return functions.is_lost() ? functions.lost() : functions.wait_queue(queue);
}
VKAPI_ATTR VkResult VKAPI_CALL wait_device(VkDevice device) {
  const DeviceFunctions functions = Lost::devices().get(device);
  return functions.is_lost() ? functions.lost() : functions.wait_device(device);
}
VKAPI_ATTR VkResult VKAPI_CALL wait_fences(VkDevice device, std::uint32_t count, const VkFence* fences,
                                           VkBool32 all, std::uint64_t timeout) {
  const DeviceFunctions functions = Lost::devices().get(device);
  if (functions.is_lost()) return functions.lost();
  return functions.wait_fences(device, count, fences, all, timeout);
}

// A call of the table that creates something.
template <auto DeviceFunctions::*Function, class... Arguments>
VkResult create(VkDevice device, Arguments... arguments) {
  const DeviceFunctions functions = Lost::devices().get(device);
  --functions.left->creations;
  return functions.is_lost() ? functions.lost() : (functions.*Function)(device, arguments...);
}
VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkBuffer* buffer) {
  return create<&DeviceFunctions::create_buffer>(device, info, allocator, buffer);
}
VKAPI_ATTR VkResult VKAPI_CALL create_compute(VkDevice device, VkPipelineCache cache, std::uint32_t count,
                                              const VkComputePipelineCreateInfo* infos,
                                              const VkAllocationCallbacks* allocator, VkPipeline* pipelines) {
  return create<&DeviceFunctions::create_compute>(device, cache, count, infos, allocator, pipelines);
}
VKAPI_ATTR VkResult VKAPI_CALL create_graphics(VkDevice device, VkPipelineCache cache, std::uint32_t count,
                                               const VkGraphicsPipelineCreateInfo* infos,
                                               const VkAllocationCallbacks* allocator,
                                               VkPipeline* pipelines) {
  return create<&DeviceFunctions::create_graphics>(device, cache, count, infos, allocator, pipelines);
}
VKAPI_ATTR VkResult VKAPI_CALL create_swapchain(VkDevice device, const VkSwapchainCreateInfoKHR* info,
                                                const VkAllocationCallbacks* allocator,
                                                VkSwapchainKHR* swapchain) {
  return create<&DeviceFunctions::create_swapchain>(device, info, allocator, swapchain);
}
VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkDevice* device) {
  if (openings++ < number("VKATTN_TEST_LOST_OPENINGS", 0)) return VK_ERROR_DEVICE_LOST;
  return Lost::create_device(physical, info, allocator, device);
}

}  // namespace

VKATTN_TEST_LAYER_ENTRIES(vkattn_lost_device)

namespace {

const Named kOfDevices[] = {
    {"vkGetDeviceProcAddr", erased(vkattn_lost_device_device)},
    {"vkDestroyDevice", erased(Lost::destroy_device)},
    {"vkQueueSubmit", erased(submit)},
    {"vkQueuePresentKHR", erased(present)},
    {"vkQueueWaitIdle", erased(wait_queue)},
    {"vkDeviceWaitIdle", erased(wait_device)},
    {"vkWaitForFences", erased(wait_fences)},
    {"vkCreateBuffer", erased(create_buffer)},
    {"vkCreateComputePipelines", erased(create_compute)},
    {"vkCreateGraphicsPipelines", erased(create_graphics)},
    {"vkCreateSwapchainKHR", erased(create_swapchain)},
};
const Named kOfInstances[] = {
    {"vkGetInstanceProcAddr", erased(vkattn_lost_device_instance)},
    {"vkCreateInstance", erased(Lost::create_instance)},
    {"vkDestroyInstance", erased(Lost::destroy_instance)},
    {"vkCreateDevice", erased(create_device)},
};

}  // namespace

VKATTN_TEST_LAYER(vkattn_lost_device, Lost)
