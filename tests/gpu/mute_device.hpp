// A device whose commands record nothing, so that no driver or layer allocates in the library's place.
#pragma once

#include <vkattn/device.hpp>

#include <cstddef>

#include "vulkan/device_state.hpp"

namespace vkattn::tests {

/// What would have been recorded.
struct MuteCounts {
  inline static std::size_t dispatches = 0;
  inline static std::size_t transfers = 0;
};

/// Of a device that GpuTest::device_with() made.
inline void mute(const Device& device) {
  // seen_through() made this state for this Device alone, and not as a constant.
  detail::DeviceFunctions& vk = const_cast<detail::DeviceState&>(device.state()).vk;
  vk.vkCmdBeginDebugUtilsLabelEXT = nullptr;
  vk.vkCmdEndDebugUtilsLabelEXT = nullptr;
  vk.vkCmdBindPipeline = [](auto...) {};
  vk.vkCmdBindDescriptorSets = [](auto...) {};
  vk.vkCmdPushConstants = [](auto...) {};
  vk.vkCmdPipelineBarrier = [](auto...) {};
  vk.vkCmdDispatch = [](auto...) { ++MuteCounts::dispatches; };
  vk.vkCmdUpdateBuffer = [](auto...) { ++MuteCounts::transfers; };
  if (vk.vkCmdPushDescriptorSetKHR != nullptr) vk.vkCmdPushDescriptorSetKHR = [](auto...) {};
}

}  // namespace vkattn::tests
