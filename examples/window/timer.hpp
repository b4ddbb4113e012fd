// Times of attention on the device: two timestamps for each frame in flight.
#pragma once

#include "window/screen.hpp"

namespace window {

class Timer {
 public:
  Timer(const Gpu& gpu, std::uint32_t family) : device_(gpu.device) {
    VkPhysicalDeviceProperties properties{};
    vkGetPhysicalDeviceProperties(gpu.physical_device, &properties);
    tick_ns_ = static_cast<double>(properties.limits.timestampPeriod);
    bits_ = gpu.families[family].timestampValidBits;
    VkQueryPoolCreateInfo info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = 2 * kFramesInFlight;
    check(vkCreateQueryPool(device_, &info, nullptr, &queries_), "vkCreateQueryPool");
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { vkDestroyQueryPool(device_, queries_, nullptr); }

  // The first timestamp stands between the caller's barrier and another one. Without the latter lavapipe
  // writes it while what is timed runs already, which then seems shorter.
  void begin(const Frame& frame) {
    if (bits_ == 0) return;
    vkCmdResetQueryPool(frame.commands, queries_, 2 * frame.slot, 2);
    write(frame, 0);
    constexpr auto kAll = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    example::barrier(frame.commands, kAll, 0, kAll, 0);
  }
  void end(const Frame& frame) {
    if (bits_ == 0) return;
    write(frame, 1);
    is_written_[frame.slot] = true;
  }
  // What was timed in the frame that had this slot before, in nanoseconds. Nothing if nothing was, or if the
  // queue has no timestamps. Called once for a frame, after its slot is free.
  [[nodiscard]] std::optional<double> take(const Frame& frame) {
    if (!std::exchange(is_written_[frame.slot], false)) return std::nullopt;
    std::uint64_t ticks[2]{};
    check(vkGetQueryPoolResults(device_, queries_, 2 * frame.slot, 2, sizeof(ticks), ticks, sizeof(ticks[0]),
                                VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
          "vkGetQueryPoolResults");
    return static_cast<double>((ticks[1] - ticks[0]) & ~std::uint64_t{0} >> (64 - bits_)) * tick_ns_;
  }

 private:
  void write(const Frame& frame, std::uint32_t which) const {
    vkCmdWriteTimestamp(frame.commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_,
                        2 * frame.slot + which);
  }
  VkDevice device_;
  VkQueryPool queries_ = VK_NULL_HANDLE;
  double tick_ns_ = 0;
  std::uint32_t bits_ = 0;
  std::array<bool, kFramesInFlight> is_written_{};
};

}  // namespace window
