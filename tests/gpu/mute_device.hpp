// A device whose commands record nothing, so that no driver or layer allocates during a test of the library.
#pragma once

#include <cstddef>

#include "gpu/support.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::tests {

/// Counts the commands that were not recorded.
struct MuteCounts {
  inline static std::size_t dispatches = 0;
  inline static std::size_t transfers = 0;
};

inline void mute(const Device& device) {
  detail::DeviceFunctions& vk = own_state(device).vk;
  vk.vkCmdBeginDebugUtilsLabelEXT = nullptr;
  vk.vkCmdEndDebugUtilsLabelEXT = nullptr;
  vk.vkCmdBindPipeline = [](auto...) {};
  vk.vkCmdBindDescriptorSets = [](auto...) {};
  vk.vkCmdPushConstants = [](auto...) {};
  vk.vkCmdPipelineBarrier = [](auto...) {};
  vk.vkCmdDispatch = [](auto...) { ++MuteCounts::dispatches; };
  vk.vkCmdWriteTimestamp = [](auto...) {};
  vk.vkCmdUpdateBuffer = [](auto...) { ++MuteCounts::transfers; };
  // The validation layer allocates in it.
  if (vk.vkGetBufferDeviceAddress != nullptr) {
    vk.vkGetBufferDeviceAddress = [](auto...) { return VkDeviceAddress{4096}; };
  }
  if (vk.vkCmdPushDescriptorSetKHR != nullptr) vk.vkCmdPushDescriptorSetKHR = [](auto...) {};
}

}  // namespace vkattn::tests
