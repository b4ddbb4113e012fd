// What the tests' Vulkan layers have in common. The loader's interface: LoaderLayerInterface.md of
// Vulkan-Loader.
#pragma once

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <map>
#include <mutex>
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

template <typename Function>
PFN_vkVoidFunction erased(Function* function) {
  return reinterpret_cast<PFN_vkVoidFunction>(function);
}

}  // namespace vkattn::tests
