// A Vulkan layer that adds a queue family to a device. The family is for compute and has one queue, which is
// that of the first family. lavapipe has one family, so a program that passes buffers between families could
// not be tested on it. The layer stands below the validation layer, which sees two families and reports an
// acquire without a release. This layer reports a release without an acquire. The driver below sees one
// family. It is for programs that use vkQueueSubmit and vkCmdPipelineBarrier and record each handover once.
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

#include "support/vulkan_layer.hpp"

namespace {

using namespace vkattn::tests;

struct InstanceFunctions : InstanceBelow {
  PFN_vkGetPhysicalDeviceQueueFamilyProperties families = nullptr;

  void load() { take(families, "vkGetPhysicalDeviceQueueFamilyProperties"); }
  [[nodiscard]] std::vector<VkQueueFamilyProperties> families_of(VkPhysicalDevice physical) const {
    std::uint32_t count = 0;
    families(physical, &count, nullptr);
    std::vector<VkQueueFamilyProperties> all(count);
    families(physical, &count, all.data());
    return all;
  }
};

/// A handle of this layer. The loader's table comes first, as in every dispatchable handle.
struct SecondQueue {
  const void* table = nullptr;
  VkQueue below = nullptr;
};

struct DeviceFunctions : DeviceBelow {
  PFN_vkGetDeviceQueue queue = nullptr;
  PFN_vkQueueSubmit submit = nullptr;
  PFN_vkQueueWaitIdle wait_idle = nullptr;
  PFN_vkCreateCommandPool create_pool = nullptr;
  PFN_vkAllocateCommandBuffers allocate = nullptr;
  PFN_vkCmdPipelineBarrier barrier = nullptr;
  std::uint32_t added_family = 0;
  std::shared_ptr<SecondQueue> second;

  void load(const InstanceFunctions& functions, VkPhysicalDevice physical) {
    take(queue, "vkGetDeviceQueue");
    take(submit, "vkQueueSubmit");
    take(wait_idle, "vkQueueWaitIdle");
    take(create_pool, "vkCreateCommandPool");
    take(allocate, "vkAllocateCommandBuffers");
    take(barrier, "vkCmdPipelineBarrier");
    added_family = static_cast<std::uint32_t>(functions.families_of(physical).size());
    second = std::make_shared<SecondQueue>();
  }
};

using TwoFamilies = LayerOf<InstanceFunctions, DeviceFunctions>;

/// Returns the driver's families and the added one. Copies as many as fit with `put`.
template <class Put>
void give_families(VkPhysicalDevice physical, std::uint32_t* count, bool has_room, const Put& put) {
  std::vector<VkQueueFamilyProperties> all = TwoFamilies::instances().get(physical).families_of(physical);
  all.push_back(all.front());
  all.back().queueFlags = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT;
  all.back().queueCount = 1;
  const auto size = static_cast<std::uint32_t>(all.size());
  *count = has_room ? std::min(*count, size) : size;
  for (std::uint32_t i = 0; has_room && i < *count; ++i) put(i, all[i]);
}

VKAPI_ATTR void VKAPI_CALL get_families(VkPhysicalDevice physical, std::uint32_t* count,
                                        VkQueueFamilyProperties* properties) {
  give_families(physical, count, properties != nullptr,
                [&](std::uint32_t i, const VkQueueFamilyProperties& its) { properties[i] = its; });
}

// Structures in the pNext chain of each properties structure stay unchanged.
VKAPI_ATTR void VKAPI_CALL get_families2(VkPhysicalDevice physical, std::uint32_t* count,
                                         VkQueueFamilyProperties2* properties) {
  give_families(physical, count, properties != nullptr,
                [&](std::uint32_t i, const VkQueueFamilyProperties& its) {
                  properties[i].queueFamilyProperties = its;
                });
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkDevice* device) {
  const std::size_t added = TwoFamilies::instances().get(physical).families_of(physical).size();
  std::vector<VkDeviceQueueCreateInfo> queues(info->pQueueCreateInfos,
                                              info->pQueueCreateInfos + info->queueCreateInfoCount);
  std::erase_if(queues, [&](const auto& queue) { return queue.queueFamilyIndex == added; });
  VkDeviceCreateInfo below = *info;
  below.queueCreateInfoCount = static_cast<std::uint32_t>(queues.size());
  below.pQueueCreateInfos = queues.data();
  return TwoFamilies::create_device(physical, &below, allocator, device);
}

/// The pools of the added family and their command buffers. Checks that each buffer that was released from or
/// to the family was acquired equally often.
class Handovers {
 public:
  void add_pool(VkCommandPool pool) {
    const std::lock_guard lock(mutex_);
    pools_.insert(pool);
  }
  void add_commands(VkCommandPool pool, VkCommandBuffer commands) {
    const std::lock_guard lock(mutex_);
    if (pools_.count(pool) != 0) commands_.insert(commands);
  }
  void add(VkCommandBuffer commands, const VkBufferMemoryBarrier& barrier, std::uint32_t added_family) {
    const std::lock_guard lock(mutex_);
    const bool is_from_added = barrier.srcQueueFamilyIndex == added_family;
    const bool is_release = is_from_added == (commands_.count(commands) != 0);
    released_[barrier.buffer] += is_release ? 1 : -1;
  }
  /// Whether the added family has a pool. Then some buffer must have been passed to it or from it.
  [[nodiscard]] bool are_expected() {
    const std::lock_guard lock(mutex_);
    return !pools_.empty();
  }
  [[nodiscard]] bool are_whole() {
    const std::lock_guard lock(mutex_);
    return !released_.empty() &&
           std::all_of(released_.begin(), released_.end(), [](const auto& each) { return each.second == 0; });
  }

 private:
  std::mutex mutex_;
  std::set<VkCommandPool> pools_;
  std::set<VkCommandBuffer> commands_;
  std::map<VkBuffer, int> released_;
};

Handovers& handovers() {
  static Handovers all;
  return all;
}

VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks* allocator) {
  if (handovers().are_expected() && !handovers().are_whole())
    std::fprintf(stderr, "a handover between queue families is missing, or one half of it\n");
  TwoFamilies::destroy_device(device, allocator);
}

VKAPI_ATTR void VKAPI_CALL get_queue(VkDevice device, std::uint32_t family, std::uint32_t index,
                                     VkQueue* queue) {
  const DeviceFunctions functions = TwoFamilies::devices().get(device);
  if (family != functions.added_family) return functions.queue(device, family, index, queue);
  functions.queue(device, 0, 0, &functions.second->below);
  functions.second->table = *reinterpret_cast<const void* const*>(device);
  *queue = reinterpret_cast<VkQueue>(functions.second.get());
}

// The queue of the driver.
VkQueue below(VkQueue queue, const DeviceFunctions& functions) {
  return queue == reinterpret_cast<VkQueue>(functions.second.get()) ? functions.second->below : queue;
}

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* submits,
                                      VkFence fence) {
  const DeviceFunctions functions = TwoFamilies::devices().get(queue);
  return functions.submit(below(queue, functions), count, submits, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL wait_idle(VkQueue queue) {
  const DeviceFunctions functions = TwoFamilies::devices().get(queue);
  return functions.wait_idle(below(queue, functions));
}

VKAPI_ATTR VkResult VKAPI_CALL create_pool(VkDevice device, const VkCommandPoolCreateInfo* info,
                                           const VkAllocationCallbacks* allocator, VkCommandPool* pool) {
  const DeviceFunctions functions = TwoFamilies::devices().get(device);
  VkCommandPoolCreateInfo changed = *info;
  const bool is_added = changed.queueFamilyIndex == functions.added_family;
  if (is_added) changed.queueFamilyIndex = 0;
  const VkResult result = functions.create_pool(device, &changed, allocator, pool);
  if (result == VK_SUCCESS && is_added) handovers().add_pool(*pool);
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkCommandBufferAllocateInfo* info,
                                        VkCommandBuffer* commands) {
  const VkResult result = TwoFamilies::devices().get(device).allocate(device, info, commands);
  for (std::uint32_t i = 0; result == VK_SUCCESS && i < info->commandBufferCount; ++i) {
    handovers().add_commands(info->commandPool, commands[i]);
  }
  return result;
}

VKAPI_ATTR void VKAPI_CALL barrier(VkCommandBuffer commands, VkPipelineStageFlags from,
                                   VkPipelineStageFlags to, VkDependencyFlags flags,
                                   std::uint32_t memory_count, const VkMemoryBarrier* memory,
                                   std::uint32_t buffer_count, const VkBufferMemoryBarrier* buffers,
                                   std::uint32_t image_count, const VkImageMemoryBarrier* images) {
  const DeviceFunctions functions = TwoFamilies::devices().get(commands);
  std::vector<VkBufferMemoryBarrier> changed(buffers, buffers + buffer_count);
  for (VkBufferMemoryBarrier& each : changed) {
    const bool is_ours = each.srcQueueFamilyIndex == functions.added_family ||
                         each.dstQueueFamilyIndex == functions.added_family;
    if (!is_ours) continue;
    if (each.srcQueueFamilyIndex != each.dstQueueFamilyIndex)
      handovers().add(commands, each, functions.added_family);
    each.srcQueueFamilyIndex = each.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  }
  functions.barrier(commands, from, to, flags, memory_count, memory, buffer_count, changed.data(),
                    image_count, images);
}

}  // namespace

VKATTN_TEST_LAYER_ENTRIES(vkattn_two_families)

namespace {

const Named kOfDevices[] = {
    {"vkGetDeviceProcAddr", erased(vkattn_two_families_device)},
    {"vkDestroyDevice", erased(destroy_device)},
    {"vkGetDeviceQueue", erased(get_queue)},
    {"vkQueueSubmit", erased(submit)},
    {"vkQueueWaitIdle", erased(wait_idle)},
    {"vkCreateCommandPool", erased(create_pool)},
    {"vkAllocateCommandBuffers", erased(allocate)},
    {"vkCmdPipelineBarrier", erased(barrier)},
};
const Named kOfInstances[] = {
    {"vkGetInstanceProcAddr", erased(vkattn_two_families_instance)},
    {"vkCreateInstance", erased(TwoFamilies::create_instance)},
    {"vkDestroyInstance", erased(TwoFamilies::destroy_instance)},
    {"vkCreateDevice", erased(create_device)},
    {"vkGetPhysicalDeviceQueueFamilyProperties", erased(get_families)},
    {"vkGetPhysicalDeviceQueueFamilyProperties2", erased(get_families2)},
    {"vkGetPhysicalDeviceQueueFamilyProperties2KHR", erased(get_families2)},
};

}  // namespace

VKATTN_TEST_LAYER(vkattn_two_families, TwoFamilies)
