// Barriers of engine_frame.cpp, with Vulkan 1.3.
#pragma once

#include "common.hpp"

namespace engine {

// Uses synchronization2; its bits for these stages and accesses are those of Vulkan 1.0.
inline void barrier(VkCommandBuffer commands, VkPipelineStageFlags2 from, VkAccessFlags2 written,
                    VkPipelineStageFlags2 to, VkAccessFlags2 used) {
  const VkMemoryBarrier2 memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER_2, nullptr, from, written, to, used};
  VkDependencyInfo info{VK_STRUCTURE_TYPE_DEPENDENCY_INFO};
  info.memoryBarrierCount = 1;
  info.pMemoryBarriers = &memory;
  vkCmdPipelineBarrier2(commands, &info);
}

inline void image_barrier(VkCommandBuffer commands, VkImage image, VkImageLayout before, VkImageLayout after,
                          VkPipelineStageFlags2 from, VkAccessFlags2 written, VkPipelineStageFlags2 to,
                          VkAccessFlags2 used) {
  VkImageMemoryBarrier2 memory{VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER_2};
  memory.srcStageMask = from;
  memory.srcAccessMask = written;
  memory.dstStageMask = to;
  memory.dstAccessMask = used;
  memory.oldLayout = before;
  memory.newLayout = after;
  memory.srcQueueFamilyIndex = memory.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  memory.image = image;
  memory.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
  VkDependencyInfo info{VK_STRUCTURE_TYPE_DEPENDENCY_INFO};
  info.imageMemoryBarrierCount = 1;
  info.pImageMemoryBarriers = &memory;
  vkCmdPipelineBarrier2(commands, &info);
}

}  // namespace engine
