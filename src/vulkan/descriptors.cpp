// Pools, sets and writes of storage buffers.
#include "vulkan/descriptors.hpp"

#include <algorithm>

#include "common/message.hpp"
#include "vulkan/debug.hpp"

namespace vkattn::detail {

DescriptorPools::~DescriptorPools() {
  for (const Pool& pool : pools_)
    device_->vk.vkDestroyDescriptorPool(device_->device, pool.handle, device_->allocator.get());
}

Result<void> DescriptorPools::add_pool(std::uint32_t sets) {
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, sets * storage_buffers_};
  VkDescriptorPoolCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  info.flags = VK_DESCRIPTOR_POOL_CREATE_FREE_DESCRIPTOR_SET_BIT;
  info.maxSets = sets;
  info.poolSizeCount = 1;
  info.pPoolSizes = &size;
  pools_.reserve(pools_.size() + 1);
  VkDescriptorPool handle = VK_NULL_HANDLE;
  if (VkResult result =
          device_->vk.vkCreateDescriptorPool(device_->device, &info, device_->allocator.get(), &handle);
      result != VK_SUCCESS) {
    return vulkan_error(result, "vkCreateDescriptorPool");
  }
  pools_.push_back({handle, sets, 0});
  name_object(*device_, VK_OBJECT_TYPE_DESCRIPTOR_POOL, handle, "descriptor pool");
  return {};
}

VkResult DescriptorPools::allocate(VkDescriptorPool pool, std::span<VkDescriptorSet> sets) const {
  std::vector<VkDescriptorSetLayout> many;
  if (sets.size() > 1) many.assign(sets.size(), layout_);
  VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  info.descriptorPool = pool;
  info.descriptorSetCount = static_cast<std::uint32_t>(sets.size());
  info.pSetLayouts = many.empty() ? &layout_ : many.data();
  return device_->vk.vkAllocateDescriptorSets(device_->device, &info, sets.data());
}

Result<VkDescriptorPool> DescriptorPools::take(std::span<VkDescriptorSet> sets, VkDescriptorPool callers) {
  if (callers != VK_NULL_HANDLE) {
    if (VkResult result = allocate(callers, sets); result != VK_SUCCESS) {
      return vulkan_error(result, "vkAllocateDescriptorSets from the pool that was given");
    }
    return VkDescriptorPool{VK_NULL_HANDLE};
  }
  const auto count = static_cast<std::uint32_t>(sets.size());
  const std::lock_guard lock(mutex_);
  for (Pool& pool : pools_) {
    if (pool.sets - pool.used < count) continue;
    const VkResult result = allocate(pool.handle, sets);
    // A pool in pieces refuses what it has room for.
    if (result == VK_ERROR_FRAGMENTED_POOL || result == VK_ERROR_OUT_OF_POOL_MEMORY) continue;
    if (result != VK_SUCCESS) return vulkan_error(result, "vkAllocateDescriptorSets");
    pool.used += count;
    return pool.handle;
  }
  std::uint32_t all = 0;
  for (const Pool& pool : pools_) all += pool.sets;
  if (Result<void> s = add_pool(std::max(all, count)); !s) return s.error();
  Pool& pool = pools_.back();
  if (VkResult result = allocate(pool.handle, sets); result != VK_SUCCESS) {
    return vulkan_error(result, "vkAllocateDescriptorSets");
  }
  pool.used = count;
  return pool.handle;
}

void DescriptorPools::give_back(std::span<const VkDescriptorSet> sets, VkDescriptorPool pool) noexcept {
  if (pool == VK_NULL_HANDLE) return;
  const std::lock_guard lock(mutex_);
  const auto count = static_cast<std::uint32_t>(sets.size());
  device_->vk.vkFreeDescriptorSets(device_->device, pool, count, sets.data());
  for (Pool& each : pools_) {
    if (each.handle == pool) each.used -= count;
  }
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
