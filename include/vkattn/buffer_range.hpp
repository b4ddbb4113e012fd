/// @file
/// Where a tensor lies in device memory.
#pragma once

#include <vkattn/vulkan_types.h>

namespace vkattn {

/// A part of a buffer that holds one tensor.
struct BufferRange {
  VkBuffer buffer = {};  ///< the caller's, with VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
  /// The byte of the tensor's first element: any multiple of the element's size (and of the declared
  /// alignment).
  VkDeviceSize offset = 0;
  /// Bytes from there that the tensor may use: at least to the end of the 32-bit word in which its last
  /// element ends (range_bytes() of a plan).
  VkDeviceSize size = 0;
};

}  // namespace vkattn
