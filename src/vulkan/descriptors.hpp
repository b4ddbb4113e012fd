// Descriptor sets that hold storage buffers only, as all pipelines here have them.
#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "vulkan/device_state.hpp"

namespace vkattn::detail {

/// Pools of one layout's sets, each as large as all before it, so that many bindings take few pools. Safe to
/// use from several threads.
class DescriptorPools {
 public:
  /// `storage_buffers` in each set.
  DescriptorPools(Shared<const DeviceState> device, VkDescriptorSetLayout layout,
                  std::uint32_t storage_buffers)
      : device_(std::move(device)), layout_(layout), storage_buffers_(storage_buffers) {}
  DescriptorPools(const DescriptorPools&) = delete;
  DescriptorPools& operator=(const DescriptorPools&) = delete;
  ~DescriptorPools();

  /// Allocates all of `sets` from a pool of the caller's, or if that is null from one of these. The result is
  /// the pool for give_back(): null if it is the caller's, with which the sets go.
  [[nodiscard]] Result<VkDescriptorPool> take(std::span<VkDescriptorSet> sets, VkDescriptorPool callers);
  /// Frees the sets, if there is a pool.
  void give_back(std::span<const VkDescriptorSet> sets, VkDescriptorPool pool) noexcept;

 private:
  struct Pool {
    VkDescriptorPool handle = VK_NULL_HANDLE;
    std::uint32_t sets = 0;
    std::uint32_t used = 0;
  };

  [[nodiscard]] Result<void> add_pool(std::uint32_t sets);
  [[nodiscard]] VkResult allocate(VkDescriptorPool pool, std::span<VkDescriptorSet> sets) const;

  const Shared<const DeviceState> device_;
  const VkDescriptorSetLayout layout_;
  const std::uint32_t storage_buffers_;
  std::mutex mutex_;
  std::vector<Pool> pools_;
};

/// A write for each binding from 0 on. They refer to `buffers`, which has as many.
void fill_buffer_writes(std::span<const VkDescriptorBufferInfo> buffers, VkDescriptorSet set,
                        std::span<VkWriteDescriptorSet> writes) noexcept;

}  // namespace vkattn::detail
