// How storage buffers and their memory are made.
#pragma once

#include <vulkan/vulkan_core.h>

namespace vkattn::detail {

/// The usage of a storage buffer, which may have an address.
[[nodiscard]] constexpr VkBufferUsageFlags storage_usage(bool has_address) {
  return VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
         (has_address ? VkBufferUsageFlags{VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT}
                      : VkBufferUsageFlags{0});
}

/// The usage of the runtime's buffers, which can also be copied from and to.
[[nodiscard]] constexpr VkBufferUsageFlags buffer_usage(bool has_address) {
  return storage_usage(has_address) | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
}

/// What the memory of buffers with addresses is allocated with.
inline constexpr VkMemoryAllocateFlagsInfo kMemoryWithAddresses{
    VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO, nullptr, VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT, 0};

}  // namespace vkattn::detail
