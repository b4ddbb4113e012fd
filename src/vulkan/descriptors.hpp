// Descriptor sets that hold storage buffers only, as all pipelines here have them.
#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "vulkan/device_state.hpp"

namespace vkattn::detail {

/// Sets of one allocation.
struct DescriptorSets {
  VkDescriptorPool pool = VK_NULL_HANDLE;
  bool is_callers = false;  ///< the pool, which the sets go with
  std::vector<VkDescriptorSet> sets;
};

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

  /// From a pool of the caller's, or where that is null from one of these.
  [[nodiscard]] Result<DescriptorSets> take(std::uint32_t count, VkDescriptorPool callers);
  /// Frees them, unless they lie in a pool of the caller's.
  void give_back(const DescriptorSets& sets) noexcept;

 private:
  struct Pool {
    VkDescriptorPool handle = VK_NULL_HANDLE;
    std::uint32_t sets = 0;
    std::uint32_t used = 0;
  };

  [[nodiscard]] Result<void> add_pool(std::uint32_t sets);
  [[nodiscard]] VkResult allocate(VkDescriptorPool pool, std::vector<VkDescriptorSet>& sets) const;

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
