// Descriptor sets: see descriptors.hpp.
#include "vulkan/descriptors.hpp"

#include "common/message.hpp"

namespace vkattn::detail {

Result<void> allocate_buffer_sets(const DeviceState& device, VkDescriptorSetLayout layout,
                                  std::uint32_t count, std::uint32_t bindings, VkDescriptorPool& pool,
                                  std::vector<VkDescriptorSet>& sets) {
  const DeviceFunctions& vk = device.vk;
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, count * bindings};
  VkDescriptorPoolCreateInfo pool_info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  pool_info.maxSets = count;
  pool_info.poolSizeCount = 1;
  pool_info.pPoolSizes = &size;
  if (VkResult result = vk.vkCreateDescriptorPool(device.device, &pool_info, nullptr, &pool);
      result != VK_SUCCESS) {
    return vulkan_error(result, "vkCreateDescriptorPool");
  }
  const std::vector<VkDescriptorSetLayout> layouts(count, layout);
  VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  info.descriptorPool = pool;
  info.descriptorSetCount = count;
  info.pSetLayouts = layouts.data();
  sets.resize(count);
  if (VkResult result = vk.vkAllocateDescriptorSets(device.device, &info, sets.data());
      result != VK_SUCCESS) {
    return vulkan_error(result, "vkAllocateDescriptorSets");
  }
  return {};
}

void fill_buffer_writes(std::span<const VkDescriptorBufferInfo> buffers, VkDescriptorSet set,
                        std::span<VkWriteDescriptorSet> writes) noexcept {
  for (std::size_t i = 0; i < writes.size(); ++i) {
    writes[i] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    writes[i].dstSet = set;
    writes[i].dstBinding = static_cast<std::uint32_t>(i);
    writes[i].descriptorCount = 1;
    writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    writes[i].pBufferInfo = &buffers[i];
  }
}

}  // namespace vkattn::detail
