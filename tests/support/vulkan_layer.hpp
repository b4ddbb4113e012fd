// What the tests' Vulkan layers have in common. The loader's interface: LoaderLayerInterface.md of
// Vulkan-Loader.
#pragma once

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <map>
#include <mutex>
#include <span>
#include <string_view>

#define VKATTN_TEST_EXPORT __attribute__((visibility("default")))

namespace vkattn::tests {

// By the loader's table that a dispatchable handle begins with: a physical device has its instance's.
template <typename Functions>
class Kept {
 public:
  template <typename Handle>
  void put(Handle handle, const Functions& functions) {
    const std::lock_guard lock(mutex_);
    kept_[table(handle)] = functions;
  }
  template <typename Handle>
  Functions get(Handle handle) {
    const std::lock_guard lock(mutex_);
    return kept_[table(handle)];
  }
  template <typename Handle>
  Functions take(Handle handle) {
    const std::lock_guard lock(mutex_);
    const Functions functions = kept_[table(handle)];
    kept_.erase(table(handle));
    return functions;
  }

 private:
  template <typename Handle>
  static const void* table(Handle handle) {
    return *reinterpret_cast<const void* const*>(handle);
  }
  std::mutex mutex_;
  std::map<const void*, Functions> kept_;
};

// The loader's link of the chain to the next layer.
template <typename Link>
Link* link_of(const void* next, VkStructureType type) {
  for (auto* each = static_cast<const VkBaseInStructure*>(next); each != nullptr; each = each->pNext) {
    if (each->sType != type) continue;
    const auto* link = reinterpret_cast<const Link*>(each);
    if (link->function == VK_LAYER_LINK_INFO) return const_cast<Link*>(link);
  }
  return nullptr;
}

struct Named {
  std::string_view name;
  PFN_vkVoidFunction function;
};

/// The one of that name; null where there is none.
inline PFN_vkVoidFunction find(std::span<const Named> functions, std::string_view name) {
  for (const Named& each : functions) {
    if (each.name == name) return each.function;
  }
  return nullptr;
}

/// Has the next layer make the instance, and gives its vkGetInstanceProcAddr.
inline VkResult create_below(const VkInstanceCreateInfo* info, const VkAllocationCallbacks* allocator,
                             VkInstance* instance, PFN_vkGetInstanceProcAddr& get) {
  auto* link = link_of<VkLayerInstanceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  if (link == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  get = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(get(nullptr, "vkCreateInstance"));
  return create == nullptr ? VK_ERROR_INITIALIZATION_FAILED : create(info, allocator, instance);
}

/// Has the next layer make the device, and gives its vkGetDeviceProcAddr.
inline VkResult create_below(VkInstance instance, VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                             const VkAllocationCallbacks* allocator, VkDevice* device,
                             PFN_vkGetDeviceProcAddr& get) {
  auto* link = link_of<VkLayerDeviceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
  if (link == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  const auto get_of_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  get = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create = reinterpret_cast<PFN_vkCreateDevice>(get_of_instance(instance, "vkCreateDevice"));
  return create == nullptr ? VK_ERROR_INITIALIZATION_FAILED : create(physical, info, allocator, device);
}

template <typename Function>
PFN_vkVoidFunction erased(Function* function) {
  return reinterpret_cast<PFN_vkVoidFunction>(function);
}

}  // namespace vkattn::tests
