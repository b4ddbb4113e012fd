// Parts of Vulkan that these programs need and an engine has anyway: buffers that the host sees, command
// pools, a timeline; and a plain formula to compare with.
#pragma once

#include <string_view>

#include "common_device.hpp"

namespace example {

// A buffer with memory of its own. The host sees it, unless it is the device's alone. The Gpu outlives it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Gpu& gpu, VkDeviceSize bytes, VkBufferUsageFlags usage, bool is_devices = false) : Buffer() {
    gpu_ = &gpu;
    bytes_ = bytes;
    VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    info.size = bytes;
    info.usage = usage;
    check(vkCreateBuffer(gpu.device, &info, nullptr, &handle_), "vkCreateBuffer");
    VkMemoryRequirements needs{};
    vkGetBufferMemoryRequirements(gpu.device, handle_, &needs);
    constexpr VkMemoryPropertyFlags kDevices = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    constexpr VkMemoryPropertyFlags kHosts =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    memory_ = gpu.allocate(needs, is_devices ? kDevices : kHosts);
    check(vkBindBufferMemory(gpu.device, handle_, memory_, 0), "vkBindBufferMemory");
    if (is_devices) return;
    check(vkMapMemory(gpu.device, memory_, 0, VK_WHOLE_SIZE, 0, &mapped_), "vkMapMemory");
  }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(bytes_, other.bytes_);
    std::swap(handle_, other.handle_);
    std::swap(memory_, other.memory_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }
  ~Buffer() {
    if (gpu_ == nullptr) return;
    vkDestroyBuffer(gpu_->device, handle_, nullptr);
    vkFreeMemory(gpu_->device, memory_, nullptr);
  }

  [[nodiscard]] VkBuffer handle() const { return handle_; }
  [[nodiscard]] vkattn::BufferRange range() const { return {handle_, 0, bytes_}; }
  template <class T = float>
  [[nodiscard]] std::span<T> values() const {
    return {static_cast<T*>(mapped_), static_cast<std::size_t>(bytes_) / sizeof(T)};
  }

 private:
  const Gpu* gpu_ = nullptr;
  VkDeviceSize bytes_ = 0;
  VkBuffer handle_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  void* mapped_ = nullptr;
};

// The workspace of a plan; an empty Buffer if the plan needs none.
inline Buffer make_workspace(const Gpu& gpu, const vkattn::AttentionPlan& plan) {
  const vkattn::PlanRequirements needs = plan.requirements();
  return needs.workspace_bytes == 0 ? Buffer()
                                    : Buffer(gpu, needs.workspace_bytes, needs.workspace_usage, true);
}

// For a program that takes up to `most` words and no options. Prints the help if it is asked for, or the
// usage if the words are wrong, and gives the program's exit code then.
inline std::optional<int> help_code(int count, char** words, int most, const char* usage) {
  bool is_wrong = count > most + 1;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--help" || word == "-h") {
      std::printf("Usage: %s\n", usage);
      return EXIT_SUCCESS;
    }
    is_wrong = is_wrong || word.starts_with("-");
  }
  if (!is_wrong) return std::nullopt;
  std::fprintf(stderr, "Usage: %s\n", usage);
  return EXIT_FAILURE;
}

// A command pool of one family. It owns its command buffers.
class CommandPool {
 public:
  CommandPool(const Gpu& gpu, std::uint32_t family) : device_(gpu.device) {
    VkCommandPoolCreateInfo info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    info.queueFamilyIndex = family;
    check(vkCreateCommandPool(device_, &info, nullptr, &handle_), "vkCreateCommandPool");
  }
  CommandPool(const CommandPool&) = delete;
  CommandPool& operator=(const CommandPool&) = delete;
  ~CommandPool() { vkDestroyCommandPool(device_, handle_, nullptr); }

  [[nodiscard]] VkCommandBuffer allocate() const {
    VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    info.commandPool = handle_;
    info.commandBufferCount = 1;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    check(vkAllocateCommandBuffers(device_, &info, &commands), "vkAllocateCommandBuffers");
    return commands;
  }

 private:
  VkDevice device_;
  VkCommandPool handle_ = VK_NULL_HANDLE;
};

inline void begin(VkCommandBuffer commands) {
  VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  check(vkBeginCommandBuffer(commands, &info), "vkBeginCommandBuffer");
}

inline void barrier(VkCommandBuffer commands, VkPipelineStageFlags from, VkAccessFlags written,
                    VkPipelineStageFlags to, VkAccessFlags used) {
  const VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, written, used};
  vkCmdPipelineBarrier(commands, from, to, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

// Submits what `record` records, and waits: while a program loads, or if it has nothing else to do.
template <class Record>
void execute(VkQueue queue, const CommandPool& pool, const Record& record) {
  const VkCommandBuffer commands = pool.allocate();
  begin(commands);
  record(commands);
  check(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
  VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  check(vkQueueSubmit(queue, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
  check(vkQueueWaitIdle(queue), "vkQueueWaitIdle");
}

// A semaphore that counts; it needs the feature timelineSemaphore. The destructor waits for the device, so no
// other thread may use a queue meanwhile.
class Timeline {
 public:
  explicit Timeline(const Gpu& gpu) : device_(gpu.device) {
    VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    const VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type, 0};
    check(vkCreateSemaphore(device_, &info, nullptr, &handle_), "vkCreateSemaphore");
  }
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;
  // The host sees a value before the driver's thread is done with the submission's semaphores: Mesa 22.3
  // still takes the lock of the semaphore that the submission waited for. When the device is idle it is done.
  ~Timeline() {
    vkDeviceWaitIdle(device_);
    vkDestroySemaphore(device_, handle_, nullptr);
  }

  [[nodiscard]] VkSemaphore handle() const { return handle_; }
  void wait(std::uint64_t value) const {
    VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
    info.semaphoreCount = 1;
    info.pSemaphores = &handle_;
    info.pValues = &value;
    check(vkWaitSemaphores(device_, &info, UINT64_MAX), "vkWaitSemaphores");
  }

 private:
  VkDevice device_;
  VkSemaphore handle_ = VK_NULL_HANDLE;
};

// softmax(q K^T / sqrt(dim)) V of one query. The rows of `keys` and `values` are as long as the query.
inline std::vector<double> plain_attention(std::span<const float> query, std::span<const float> keys,
                                           std::span<const float> values) {
  const std::size_t dim = query.size(), count = keys.size() / dim;
  std::vector<double> output(dim);
  double sum = 0;
  for (std::size_t j = 0; j < count; ++j) {
    double score = 0;
    for (std::size_t d = 0; d < dim; ++d)
      score += static_cast<double>(query[d]) * static_cast<double>(keys[j * dim + d]);
    const double weight = std::exp(score / std::sqrt(static_cast<double>(dim)));
    sum += weight;
    for (std::size_t d = 0; d < dim; ++d) output[d] += weight * static_cast<double>(values[j * dim + d]);
  }
  for (double& value : output) value /= sum;
  return output;
}

// The largest difference, or NaN if there is one.
inline double largest_difference(std::span<const float> got, std::span<const double> expected) {
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - expected[i]);
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(difference)) break;
  }
  return largest;
}

}  // namespace example
