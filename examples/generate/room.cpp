#include "generate/room.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace generate {

std::uint64_t memory_of(VkPhysicalDevice device) {
  VkPhysicalDeviceMemoryProperties memory{};
  vkGetPhysicalDeviceMemoryProperties(device, &memory);
  std::uint64_t largest = 0;
  for (std::uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    if ((memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0)
      largest = std::max<std::uint64_t>(largest, memory.memoryHeaps[i].size);
  }
  return largest == 0 ? ~std::uint64_t{0} : largest;
}

vkattn::Result<void> check_room(const Room& room, const Model& model, const Weights& weights,
                                const GraphOptions& options, std::uint64_t workspaces) {
  const Bytes caches = cache_bytes(model, options), numbers = NumberCounts(model, options).bytes();
  const std::pair<std::string, std::uint64_t> bound[] = {
      {"the tensor '" + weights.largest().name + "'", weights.largest().bytes},
      {"a layer's cache of " + std::to_string(options.context) + " keys", caches.largest},
      {"the largest buffer of a pass of " + std::to_string(options.chunk) + " tokens and " +
           std::to_string(options.texts) + " prompts",
       numbers.largest}};
  for (const auto& [what, bytes] : bound) {
    if (bytes > room.range)
      return refusal(what + " takes " + std::to_string(bytes) + " bytes, and maxStorageBufferRange of " +
                     room.device + " is " + std::to_string(room.range) + "; " + room.advice);
  }
  const std::uint64_t needed = weights.bytes() + caches.all + numbers.all + workspaces;
  if (needed > room.memory)
    return refusal("weights, cache, the numbers of a pass and workspaces take " + megabytes(needed) +
                   ", and " + room.device + " has " + megabytes(room.memory) + "; " + room.advice);
  return {};
}

std::string megabytes(std::uint64_t bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text.data();
}

}  // namespace generate
