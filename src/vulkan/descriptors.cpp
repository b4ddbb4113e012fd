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

VkResult DescriptorPools::allocate(VkDescriptorPool pool, std::vector<VkDescriptorSet>& sets) const {
  const std::vector<VkDescriptorSetLayout> layouts(sets.size(), layout_);
  VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  info.descriptorPool = pool;
  info.descriptorSetCount = static_cast<std::uint32_t>(layouts.size());
  info.pSetLayouts = layouts.data();
  return device_->vk.vkAllocateDescriptorSets(device_->device, &info, sets.data());
}

Result<DescriptorSets> DescriptorPools::take(std::uint32_t count, VkDescriptorPool callers) {
  DescriptorSets taken;
  taken.sets.resize(count);
  if (callers != VK_NULL_HANDLE) {
    taken.pool = callers;
    taken.is_callers = true;
    if (VkResult result = allocate(callers, taken.sets); result != VK_SUCCESS) {
      return vulkan_error(result, "vkAllocateDescriptorSets from the pool that was given");
    }
    return taken;
  }
  const std::lock_guard lock(mutex_);
  const auto has_room = [&](const Pool& pool) { return pool.sets - pool.used >= count; };
  for (Pool& pool : pools_) {
    if (!has_room(pool)) continue;
    const VkResult result = allocate(pool.handle, taken.sets);
    // A pool in pieces refuses what it has room for.
    if (result == VK_ERROR_FRAGMENTED_POOL || result == VK_ERROR_OUT_OF_POOL_MEMORY) continue;
    if (result != VK_SUCCESS) return vulkan_error(result, "vkAllocateDescriptorSets");
    pool.used += count;
    taken.pool = pool.handle;
    return taken;
  }
  std::uint32_t all = 0;
  for (const Pool& pool : pools_) all += pool.sets;
  if (Result<void> s = add_pool(std::max(all, count)); !s) return s.error();
  Pool& pool = pools_.back();
  if (VkResult result = allocate(pool.handle, taken.sets); result != VK_SUCCESS) {
    return vulkan_error(result, "vkAllocateDescriptorSets");
  }
  pool.used = count;
  taken.pool = pool.handle;
  return taken;
}

void DescriptorPools::give_back(const DescriptorSets& taken) noexcept {
  if (taken.is_callers || taken.sets.empty()) return;
  const std::lock_guard lock(mutex_);
  const auto count = static_cast<std::uint32_t>(taken.sets.size());
  device_->vk.vkFreeDescriptorSets(device_->device, taken.pool, count, taken.sets.data());
  for (Pool& pool : pools_) {
    if (pool.handle == taken.pool) pool.used -= count;
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
