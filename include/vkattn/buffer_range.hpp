// Where a tensor lies in device memory.
#pragma once

#include <vulkan/vulkan_core.h>

namespace vkattn {

/// A part of a buffer that holds one tensor. `offset` is the byte of the tensor's first element and may be
/// any multiple of the element's size (and of the declared alignment); `size` is the bytes from there that
/// the tensor may use, to the end of the 32-bit word in which its last element ends (range_bytes() of a
/// plan). The buffer needs VK_BUFFER_USAGE_STORAGE_BUFFER_BIT.
struct BufferRange {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceSize offset = 0;
  VkDeviceSize size = 0;
};

}  // namespace vkattn
