// Buffers and images of engine_frame.cpp. VMA allocates them if its header was there when the project was
// configured; otherwise each has memory of its own.
#pragma once

#include "common.hpp"

#ifdef EXAMPLE_VMA
#define VMA_STATIC_VULKAN_FUNCTIONS 0
#define VMA_DYNAMIC_VULKAN_FUNCTIONS 1
#define VMA_IMPLEMENTATION
#include <vk_mem_alloc.h>
#endif

namespace engine {

using example::check;

#ifdef EXAMPLE_VMA

using Allocation = VmaAllocation;

class Memory {
 public:
  explicit Memory(const example::Gpu& gpu) {
    VmaVulkanFunctions functions{};
    functions.vkGetInstanceProcAddr = vkGetInstanceProcAddr;
    functions.vkGetDeviceProcAddr = vkGetDeviceProcAddr;
    VmaAllocatorCreateInfo info{};
    info.physicalDevice = gpu.physical_device;
    info.device = gpu.device;
    info.instance = gpu.instance;
    info.vulkanApiVersion = VK_API_VERSION_1_3;
    info.pVulkanFunctions = &functions;
    check(vmaCreateAllocator(&info, &allocator_), "vmaCreateAllocator");
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { vmaDestroyAllocator(allocator_); }

  // The host sees the buffer.
  void* create(const VkBufferCreateInfo& info, VkBuffer& buffer, Allocation& allocation) const {
    VmaAllocationCreateInfo how{};
    how.usage = VMA_MEMORY_USAGE_AUTO;
    how.flags = VMA_ALLOCATION_CREATE_MAPPED_BIT | VMA_ALLOCATION_CREATE_HOST_ACCESS_RANDOM_BIT;
    how.requiredFlags = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VmaAllocationInfo made{};
    check(vmaCreateBuffer(allocator_, &info, &how, &buffer, &allocation, &made), "vmaCreateBuffer");
    return made.pMappedData;
  }
  void create(const VkImageCreateInfo& info, VkImage& image, Allocation& allocation) const {
    VmaAllocationCreateInfo how{};
    how.usage = VMA_MEMORY_USAGE_AUTO;
    check(vmaCreateImage(allocator_, &info, &how, &image, &allocation, nullptr), "vmaCreateImage");
  }
  void destroy(VkBuffer buffer, Allocation allocation) const {
    vmaDestroyBuffer(allocator_, buffer, allocation);
  }
  void destroy(VkImage image, Allocation allocation) const { vmaDestroyImage(allocator_, image, allocation); }

 private:
  VmaAllocator allocator_ = nullptr;
};

#else

using Allocation = VkDeviceMemory;

class Memory {
 public:
  explicit Memory(const example::Gpu& gpu) : gpu_(gpu) {}

  // The host sees the buffer.
  void* create(const VkBufferCreateInfo& info, VkBuffer& buffer, Allocation& allocation) const {
    check(vkCreateBuffer(gpu_.device, &info, nullptr, &buffer), "vkCreateBuffer");
    VkMemoryRequirements needs{};
    vkGetBufferMemoryRequirements(gpu_.device, buffer, &needs);
    allocation =
        gpu_.allocate(needs, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    check(vkBindBufferMemory(gpu_.device, buffer, allocation, 0), "vkBindBufferMemory");
    void* mapped = nullptr;
    check(vkMapMemory(gpu_.device, allocation, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
    return mapped;
  }
  void create(const VkImageCreateInfo& info, VkImage& image, Allocation& allocation) const {
    check(vkCreateImage(gpu_.device, &info, nullptr, &image), "vkCreateImage");
    VkMemoryRequirements needs{};
    vkGetImageMemoryRequirements(gpu_.device, image, &needs);
    allocation = gpu_.allocate(needs, 0);
    check(vkBindImageMemory(gpu_.device, image, allocation, 0), "vkBindImageMemory");
  }
  void destroy(VkBuffer buffer, Allocation allocation) const {
    vkDestroyBuffer(gpu_.device, buffer, nullptr);
    vkFreeMemory(gpu_.device, allocation, nullptr);
  }
  void destroy(VkImage image, Allocation allocation) const {
    vkDestroyImage(gpu_.device, image, nullptr);
    vkFreeMemory(gpu_.device, allocation, nullptr);
  }

 private:
  const example::Gpu& gpu_;
};

#endif

// A storage buffer of floats or integers, which begins with zeros.
class Buffer {
 public:
  Buffer(const Memory& memory, VkDeviceSize bytes, VkBufferUsageFlags usage)
      : memory_(memory), bytes_(bytes) {
    VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    info.size = bytes;
    info.usage = usage;
    mapped_ = memory.create(info, handle_, allocation_);
    std::memset(mapped_, 0, static_cast<std::size_t>(bytes));
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { memory_.destroy(handle_, allocation_); }

  [[nodiscard]] VkBuffer handle() const { return handle_; }
  [[nodiscard]] vkattn::BufferRange range() const { return {handle_, 0, bytes_}; }
  template <class T = float>
  [[nodiscard]] std::span<const T> values() const {
    return {static_cast<const T*>(mapped_), static_cast<std::size_t>(bytes_) / sizeof(T)};
  }

 private:
  const Memory& memory_;
  VkDeviceSize bytes_;
  VkBuffer handle_ = VK_NULL_HANDLE;
  Allocation allocation_{};
  void* mapped_ = nullptr;
};

// A picture that is rendered to and copied from.
class Image {
 public:
  Image(const example::Gpu& gpu, const Memory& memory, VkExtent2D extent, VkFormat format)
      : device_(gpu.device), memory_(memory) {
    VkImageCreateInfo info{VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
    info.imageType = VK_IMAGE_TYPE_2D;
    info.format = format;
    info.extent = {extent.width, extent.height, 1};
    info.mipLevels = info.arrayLayers = 1;
    info.samples = VK_SAMPLE_COUNT_1_BIT;
    info.usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT;
    memory.create(info, handle_, allocation_);
    VkImageViewCreateInfo view{VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO};
    view.image = handle_;
    view.viewType = VK_IMAGE_VIEW_TYPE_2D;
    view.format = format;
    view.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    check(vkCreateImageView(device_, &view, nullptr, &view_), "vkCreateImageView");
  }
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;
  ~Image() {
    vkDestroyImageView(device_, view_, nullptr);
    memory_.destroy(handle_, allocation_);
  }

  [[nodiscard]] VkImage handle() const { return handle_; }
  [[nodiscard]] VkImageView view() const { return view_; }

 private:
  VkDevice device_;
  const Memory& memory_;
  VkImage handle_ = VK_NULL_HANDLE;
  VkImageView view_ = VK_NULL_HANDLE;
  Allocation allocation_{};
};

}  // namespace engine
