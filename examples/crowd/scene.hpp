// Stands in for rendering in frame_budget.cpp.
#pragma once

#include "common.hpp"

namespace crowd {

using example::check;

// A picture that is cleared and partly scaled.
class Scene {
 public:
  explicit Scene(const example::Gpu& gpu) : device_(gpu.device) {
    VkImageCreateInfo info{VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = VK_FORMAT_R8G8B8A8_UNORM;
    info.extent = {kExtent.width, kExtent.height, 1};
    info.mipLevels = info.arrayLayers = 1;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.usage = VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT;
    check(vkCreateImage(device_, &info, nullptr, &image_), "vkCreateImage");
    VkMemoryRequirements needs{};
    vkGetImageMemoryRequirements(device_, image_, &needs);
    memory_ = gpu.allocate(needs, 0);
    check(vkBindImageMemory(device_, image_, memory_, 0), "vkBindImageMemory");
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;
  ~Scene() {
    vkDestroyImage(device_, image_, nullptr);
    vkFreeMemory(device_, memory_, nullptr);
  }

  void record(VkCommandBuffer commands, std::size_t frame) const {
    constexpr VkImageSubresourceRange kAll{VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    constexpr auto kWidth = static_cast<std::int32_t>(kExtent.width);
    constexpr auto kHeight = static_cast<std::int32_t>(kExtent.height);
    transition(commands, VK_IMAGE_LAYOUT_UNDEFINED);
    const VkClearColorValue color{{static_cast<float>(frame % 60) / 60, 0.3F, 0.5F, 1}};
    vkCmdClearColorImage(commands, image_, VK_IMAGE_LAYOUT_GENERAL, &color, 1, &kAll);
    transition(commands, VK_IMAGE_LAYOUT_GENERAL);
    VkImageBlit blit{};
    blit.srcSubresource = blit.dstSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};
    blit.srcOffsets[1] = {kWidth / 4, kHeight, 1};
    blit.dstOffsets[0] = {kWidth / 2, 0, 0};
    blit.dstOffsets[1] = {kWidth, kHeight, 1};
    vkCmdBlitImage(commands, image_, VK_IMAGE_LAYOUT_GENERAL, image_, VK_IMAGE_LAYOUT_GENERAL, 1, &blit,
                   VK_FILTER_LINEAR);
  }

 private:
  static constexpr VkExtent2D kExtent{640, 360};

  void transition(VkCommandBuffer commands, VkImageLayout before) const {
    VkImageMemoryBarrier barrier{VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER};
    barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.oldLayout = before;
    barrier.newLayout = VK_IMAGE_LAYOUT_GENERAL;
    barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
    barrier.image = image_;
    barrier.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0,
                         nullptr, 0, nullptr, 1, &barrier);
  }

  VkDevice device_;
  VkImage image_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
};

}  // namespace crowd
