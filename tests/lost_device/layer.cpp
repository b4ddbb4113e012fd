// A Vulkan layer whose devices are lost. VKATTN_TEST_LOST_AFTER is the number of submissions that a device
// lives for, and VKATTN_TEST_LOSSES the number of devices that are lost; those made later live. Calls of a
// lost device give VK_ERROR_DEVICE_LOST, and the driver below sees none of them but destruction.
#include <atomic>
#include <cstdlib>
#include <memory>

#include "support/vulkan_layer.hpp"

namespace {

using namespace vkattn::tests;

long number(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtol(text, nullptr, 10);
}

struct InstanceFunctions : InstanceBelow {
  void load() {}
};

std::atomic<long> devices_made = 0;

struct DeviceFunctions : DeviceBelow {
  PFN_vkQueueSubmit submit = nullptr;
  PFN_vkQueuePresentKHR present = nullptr;
  PFN_vkQueueWaitIdle wait_queue = nullptr;
  PFN_vkDeviceWaitIdle wait_device = nullptr;
  PFN_vkWaitForFences wait_fences = nullptr;
  std::shared_ptr<std::atomic<long>> left;  // submissions

  void load(const InstanceFunctions& /*functions*/, VkPhysicalDevice /*physical*/) {
    take(submit, "vkQueueSubmit");
    take(present, "vkQueuePresentKHR");
    take(wait_queue, "vkQueueWaitIdle");
    take(wait_device, "vkDeviceWaitIdle");
    take(wait_fences, "vkWaitForFences");
    const bool is_lost_once = devices_made++ < number("VKATTN_TEST_LOSSES", 1);
    left =
        std::make_shared<std::atomic<long>>(is_lost_once ? number("VKATTN_TEST_LOST_AFTER", 100) : 1L << 40U);
  }
  [[nodiscard]] bool is_lost() const { return *left < 0; }
};

using Lost = LayerOf<InstanceFunctions, DeviceFunctions>;

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* submits,
                                      VkFence fence) {
  const DeviceFunctions functions = Lost::devices().get(queue);
  if (--*functions.left < 0) return VK_ERROR_DEVICE_LOST;
  return functions.submit(queue, count, submits, fence);
}
VKAPI_ATTR VkResult VKAPI_CALL present(VkQueue queue, const VkPresentInfoKHR* info) {
  const DeviceFunctions functions = Lost::devices().get(queue);
  return functions.is_lost() ? VK_ERROR_DEVICE_LOST : functions.present(queue, info);
}
VKAPI_ATTR VkResult VKAPI_CALL wait_queue(VkQueue queue) {
  const DeviceFunctions functions = Lost::devices().get(queue);
  return functions.is_lost() ? VK_ERROR_DEVICE_LOST : functions.wait_queue(queue);
}
// The driver's own work ends, so that nothing is destroyed under it.
VKAPI_ATTR VkResult VKAPI_CALL wait_device(VkDevice device) {
  const DeviceFunctions functions = Lost::devices().get(device);
  const VkResult result = functions.wait_device(device);
  return functions.is_lost() ? VK_ERROR_DEVICE_LOST : result;
}
VKAPI_ATTR VkResult VKAPI_CALL wait_fences(VkDevice device, std::uint32_t count, const VkFence* fences,
                                           VkBool32 all, std::uint64_t timeout) {
  const DeviceFunctions functions = Lost::devices().get(device);
  return functions.is_lost() ? VK_ERROR_DEVICE_LOST
                             : functions.wait_fences(device, count, fences, all, timeout);
}

}  // namespace

extern "C" {

VKATTN_TEST_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkattn_lost_device_device(VkDevice device,
                                                                                      const char* name);
VKATTN_TEST_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkattn_lost_device_instance(VkInstance instance,
                                                                                        const char* name);
}

namespace {

const Named kOfDevices[] = {
    {"vkGetDeviceProcAddr", erased(vkattn_lost_device_device)},
    {"vkDestroyDevice", erased(Lost::destroy_device)},
    {"vkQueueSubmit", erased(submit)},
    {"vkQueuePresentKHR", erased(present)},
    {"vkQueueWaitIdle", erased(wait_queue)},
    {"vkDeviceWaitIdle", erased(wait_device)},
    {"vkWaitForFences", erased(wait_fences)},
};
const Named kOfInstances[] = {
    {"vkGetInstanceProcAddr", erased(vkattn_lost_device_instance)},
    {"vkCreateInstance", erased(Lost::create_instance)},
    {"vkDestroyInstance", erased(Lost::destroy_instance)},
    {"vkCreateDevice", erased(Lost::create_device)},
};

}  // namespace

PFN_vkVoidFunction vkattn_lost_device_device(VkDevice device, const char* name) {
  return Lost::of_device(kOfDevices, device, name);
}
PFN_vkVoidFunction vkattn_lost_device_instance(VkInstance instance, const char* name) {
  return Lost::of_instance(kOfInstances, kOfDevices, instance, name);
}
