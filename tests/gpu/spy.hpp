// Records what the library says and changes while it records, in place of the driver.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "vulkan/device_state.hpp"

namespace vkattn::tests {

/// The recorded names, labels and state.
struct Spy {
  inline static std::vector<std::string> names, labels;
  inline static int open_labels = 0;
  inline static std::uint32_t pushed_bytes = 0, dispatches = 0;
  inline static std::vector<std::string> unexpected;

  static void reset() {
    names.clear();
    labels.clear();
    unexpected.clear();
    open_labels = 0;
    pushed_bytes = dispatches = 0;
  }
  static void expect(bool holds, const char* what) {
    if (!holds) unexpected.emplace_back(what);
  }
  static void watch_debug(detail::DeviceFunctions& vk) {
    vk.vkSetDebugUtilsObjectNameEXT = [](VkDevice, const VkDebugUtilsObjectNameInfoEXT* info) {
      names.emplace_back(info->pObjectName);
      return VK_SUCCESS;
    };
    vk.vkCmdBeginDebugUtilsLabelEXT = [](VkCommandBuffer, const VkDebugUtilsLabelEXT* info) {
      labels.emplace_back(info->pLabelName);
      ++open_labels;
    };
    vk.vkCmdEndDebugUtilsLabelEXT = [](VkCommandBuffer) { --open_labels; };
  }
  static void watch_state(detail::DeviceFunctions& vk) {
    vk.vkCmdBeginDebugUtilsLabelEXT = nullptr;  // it changes no state, and there is no command buffer
    vk.vkCmdEndDebugUtilsLabelEXT = nullptr;
    vk.vkCmdBindPipeline = [](VkCommandBuffer, VkPipelineBindPoint point, VkPipeline) {
      expect(point == VK_PIPELINE_BIND_POINT_COMPUTE, "a pipeline of another bind point");
    };
    vk.vkCmdBindDescriptorSets = [](VkCommandBuffer, VkPipelineBindPoint point, VkPipelineLayout,
                                    std::uint32_t first, std::uint32_t count, const VkDescriptorSet*,
                                    std::uint32_t dynamic, const std::uint32_t*) {
      expect(point == VK_PIPELINE_BIND_POINT_COMPUTE && first == 0 && count == 1 && dynamic == 0,
             "another descriptor set than 0");
    };
    vk.vkCmdPushDescriptorSetKHR = [](VkCommandBuffer, VkPipelineBindPoint point, VkPipelineLayout,
                                      std::uint32_t set, std::uint32_t, const VkWriteDescriptorSet*) {
      expect(point == VK_PIPELINE_BIND_POINT_COMPUTE && set == 0, "another descriptor set than 0");
    };
    vk.vkCmdPushConstants = [](VkCommandBuffer, VkPipelineLayout, VkShaderStageFlags stages,
                               std::uint32_t offset, std::uint32_t size, const void*) {
      expect(stages == VK_SHADER_STAGE_COMPUTE_BIT && offset == 0, "push constants of another stage");
      pushed_bytes = std::max(pushed_bytes, size);
    };
    vk.vkCmdPipelineBarrier = [](VkCommandBuffer, VkPipelineStageFlags from, VkPipelineStageFlags to,
                                 VkDependencyFlags, std::uint32_t, const VkMemoryBarrier*, std::uint32_t,
                                 const VkBufferMemoryBarrier*, std::uint32_t, const VkImageMemoryBarrier*) {
      const VkPipelineStageFlags ours = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
      expect(((from | to) & ~ours) == 0, "a barrier of other stages");
    };
    vk.vkCmdUpdateBuffer = [](auto...) {};
    vk.vkCmdDispatch = [](auto...) { ++dispatches; };
    vk.vkCmdWriteTimestamp = [](auto...) { expect(false, "timestamps that nobody asked for"); };
  }
};

}  // namespace vkattn::tests
