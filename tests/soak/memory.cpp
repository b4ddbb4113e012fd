// Counts memory: see memory.hpp. It replaces the global operators new and delete in programs that link this
// file.
#include "soak/memory.hpp"

#include <atomic>
#include <cstdlib>
#include <map>
#include <new>

#include "runtime/runtime_state.hpp"

namespace {

std::atomic<std::int64_t> live{0};

void* allocated(std::size_t bytes) {
  void* const memory = std::malloc(bytes != 0 ? bytes : 1);
  if (memory == nullptr) std::abort();
  live.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void released(void* memory) {
  if (memory == nullptr) return;
  live.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

// The forms for arrays, without exceptions and with sizes call these.
void* operator new(std::size_t bytes) {
  return allocated(bytes);
}
void operator delete(void* memory) noexcept {
  released(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  released(memory);
}

namespace vkattn::soak {
namespace {

/// The driver's functions, and the memory that they gave.
struct Counted {
  PFN_vkAllocateMemory allocate = nullptr;
  PFN_vkFreeMemory free = nullptr;
  std::map<VkDeviceMemory, VkDeviceSize> pieces;
  std::uint64_t bytes = 0;
};

Counted& counted() {
  static Counted all;
  return all;
}

VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo* info,
                                        const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
  const VkResult result = counted().allocate(device, info, callbacks, memory);
  if (result != VK_SUCCESS) return result;
  counted().pieces[*memory] = info->allocationSize;
  counted().bytes += info->allocationSize;
  return result;
}

VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice device, VkDeviceMemory memory,
                                       const VkAllocationCallbacks* callbacks) {
  const auto found = counted().pieces.find(memory);
  if (found != counted().pieces.end()) {
    counted().bytes -= found->second;
    counted().pieces.erase(found);
  }
  counted().free(device, memory, callbacks);
}

}  // namespace

std::int64_t live_allocations() noexcept {
  return live.load(std::memory_order_relaxed);
}

void count_device_memory(const Runtime& runtime) {
  detail::RuntimeDeviceFunctions& vk = detail::RuntimeState::of(runtime).vk;
  counted().allocate = vk.vkAllocateMemory;
  counted().free = vk.vkFreeMemory;
  vk.vkAllocateMemory = &allocate;
  vk.vkFreeMemory = &free_memory;
}

DeviceMemory device_memory() {
  return {counted().bytes, counted().pieces.size()};
}

}  // namespace vkattn::soak
