// Descriptor sets that hold storage buffers only, as all pipelines here have them.
#pragma once

#include <span>
#include <vector>

#include "vulkan/device_state.hpp"

namespace vkattn::detail {

/// Makes a pool, which the caller destroys even after an error, and in it `count` sets of `bindings` buffers.
[[nodiscard]] Result<void> allocate_buffer_sets(const DeviceState& device, VkDescriptorSetLayout layout,
                                                std::uint32_t count, std::uint32_t bindings,
                                                VkDescriptorPool& pool, std::vector<VkDescriptorSet>& sets);

/// A write for each binding from 0 on. They refer to `buffers`, which has as many.
void fill_buffer_writes(std::span<const VkDescriptorBufferInfo> buffers, VkDescriptorSet set,
                        std::span<VkWriteDescriptorSet> writes) noexcept;

}  // namespace vkattn::detail
