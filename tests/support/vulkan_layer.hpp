// The common part of the tests' Vulkan layers. The loader's interface is described in LoaderLayerInterface.md
// of Vulkan-Loader.
#pragma once

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <map>
#include <mutex>
#include <span>
#include <string_view>

#define VKATTN_TEST_EXPORT __attribute__((visibility("default")))

namespace vkattn::tests {

// Functions by the loader's table, which a dispatchable handle begins with. A physical device has its
// instance's table.
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

// The loader's link to the next layer in the chain.
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

template <typename Function>
PFN_vkVoidFunction erased(Function* function) {
  return reinterpret_cast<PFN_vkVoidFunction>(function);
}

/// The functions of the next layer, for each instance and each device. A layer's own structures add
/// functions, which their load() takes from the next layer.
struct InstanceBelow {
  VkInstance instance = nullptr;
  PFN_vkGetInstanceProcAddr get = nullptr;
  PFN_vkDestroyInstance destroy = nullptr;

  template <typename Function>
  void take(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(get(instance, name));
  }
};
struct DeviceBelow {
  VkDevice device = nullptr;
  PFN_vkGetDeviceProcAddr get = nullptr;
  PFN_vkDestroyDevice destroy = nullptr;

  template <typename Function>
  void take(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(get(device, name));
  }
};

/// The instances and devices that go through a layer. It calls Instance::load(), and Device::load() with the
/// instance and the physical device.
template <typename Instance, typename Device>
struct LayerOf {
  static Kept<Instance>& instances() {
    static Kept<Instance> kept;
    return kept;
  }
  static Kept<Device>& devices() {
    static Kept<Device> kept;
    return kept;
  }

  static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info,
                                                        const VkAllocationCallbacks* allocator,
                                                        VkInstance* instance) {
    auto* link =
        link_of<VkLayerInstanceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
    if (link == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
    Instance below;
    below.get = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    PFN_vkCreateInstance create = nullptr;
    below.take(create, "vkCreateInstance");
    const VkResult result =
        create == nullptr ? VK_ERROR_INITIALIZATION_FAILED : create(info, allocator, instance);
    if (result != VK_SUCCESS) return result;
    below.instance = *instance;
    below.take(below.destroy, "vkDestroyInstance");
    below.load();
    instances().put(*instance, below);
    return VK_SUCCESS;
  }
  static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance instance,
                                                     const VkAllocationCallbacks* allocator) {
    if (instance != nullptr) instances().take(instance).destroy(instance, allocator);
  }

  static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical,
                                                      const VkDeviceCreateInfo* info,
                                                      const VkAllocationCallbacks* allocator,
                                                      VkDevice* device) {
    auto* link = link_of<VkLayerDeviceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    if (link == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
    const Instance functions = instances().get(physical);
    const auto get_of_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    Device below;
    below.get = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    const auto create =
        reinterpret_cast<PFN_vkCreateDevice>(get_of_instance(functions.instance, "vkCreateDevice"));
    const VkResult result =
        create == nullptr ? VK_ERROR_INITIALIZATION_FAILED : create(physical, info, allocator, device);
    if (result != VK_SUCCESS) return result;
    below.device = *device;
    below.take(below.destroy, "vkDestroyDevice");
    below.load(functions, physical);
    devices().put(*device, below);
    return VK_SUCCESS;
  }
  static VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks* allocator) {
    if (device != nullptr) devices().take(device).destroy(device, allocator);
  }

  /// The layer's own function of that name, or else the next layer's. With a null handle only the layer's
  /// own.
  /// @{
  static PFN_vkVoidFunction of_device(std::span<const Named> own, VkDevice device, std::string_view name) {
    for (const Named& each : own) {
      if (each.name == name) return each.function;
    }
    return device == nullptr ? nullptr : devices().get(device).get(device, name.data());
  }
  static PFN_vkVoidFunction of_instance(std::span<const Named> own, std::span<const Named> own_of_devices,
                                        VkInstance instance, std::string_view name) {
    for (const std::span<const Named> functions : {own, own_of_devices}) {
      for (const Named& each : functions) {
        if (each.name == name) return each.function;
      }
    }
    return instance == nullptr ? nullptr : instances().get(instance).get(instance, name.data());
  }
  /// @}
};

}  // namespace vkattn::tests

// The functions by which the loader enters a layer. They have names of their own, because a program that
// links libvulkan has functions with the usual names; the manifest tells the loader.
// VKATTN_TEST_LAYER_ENTRIES declares them for the lists kOfDevices and kOfInstances, which VKATTN_TEST_LAYER,
// at the end, looks up.
#define VKATTN_TEST_LAYER_ENTRIES(NAME)                                                                 \
  extern "C" {                                                                                          \
  VKATTN_TEST_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL NAME##_device(VkDevice, const char*);     \
  VKATTN_TEST_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL NAME##_instance(VkInstance, const char*); \
  }
#define VKATTN_TEST_LAYER(NAME, LAYER)                                        \
  PFN_vkVoidFunction NAME##_device(VkDevice device, const char* name) {       \
    return LAYER::of_device(kOfDevices, device, name);                        \
  }                                                                           \
  PFN_vkVoidFunction NAME##_instance(VkInstance instance, const char* name) { \
    return LAYER::of_instance(kOfInstances, kOfDevices, instance, name);      \
  }
