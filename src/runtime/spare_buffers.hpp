// Buffers that nobody holds any more, for the next ones of their size.
#pragma once

#include <vulkan/vulkan_core.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace vkattn::detail {

struct BufferState;

/// Keeps buffers when they are given up, because a driver takes tens of microseconds to make one and to free
/// it. Large ones are freed: what is done with them takes longer. Buffers may be given up on any thread.
class SpareBuffers {
 public:
  /// Keeps at most so many. Called before the first buffer.
  void set_most(std::size_t most);
  /// A buffer of exactly this size, whose content is left over; null if there is none.
  [[nodiscard]] std::unique_ptr<BufferState> take(VkDeviceSize bytes);
  /// Keeps a buffer, or frees it. It must be idle.
  void keep(std::unique_ptr<BufferState> buffer) noexcept;
  /// From now on nothing is taken or kept: the device may still use a buffer that was given up.
  void stop();
  /// Frees what is kept; false if that is nothing.
  bool clear();

 private:
  static constexpr VkDeviceSize kMostBytesOfOne = VkDeviceSize{16} << 20U;
  static constexpr VkDeviceSize kMostBytes = VkDeviceSize{64} << 20U;

  std::mutex mutex_;
  std::vector<std::unique_ptr<BufferState>> kept_;  ///< the one that was given up last at the end
  std::size_t most_ = 0;
  VkDeviceSize bytes_ = 0;
  bool is_stopped_ = false;
};

}  // namespace vkattn::detail
