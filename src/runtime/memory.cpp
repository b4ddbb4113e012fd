// Buffers and copies between host and device.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "common/integers.hpp"
#include "runtime/runtime_state.hpp"
#include "vulkan/buffer_usage.hpp"
#include "vulkan/functions.hpp"

namespace vkattn {

namespace detail {

namespace {

constexpr VkDeviceSize kStagingBytes = VkDeviceSize{4} << 20U;

// The memory type with all `wanted` flags, or -1.
int find_memory_type(const VkPhysicalDeviceMemoryProperties& memory, std::uint32_t allowed,
                     VkMemoryPropertyFlags wanted) {
  for (std::uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    if ((allowed & (1U << i)) != 0 && (memory.memoryTypes[i].propertyFlags & wanted) == wanted) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

bool has_addresses(const RuntimeState& state) {
  return state.device->capabilities().buffer_addresses;
}

// Devices that share the host's memory use mapped memory; others use their own, and copies are staged.
int choose_memory_type(const RuntimeState& state, std::uint32_t allowed, bool staging) {
  constexpr VkMemoryPropertyFlags kMapped =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const DeviceType type = state.device->capabilities().device_type;
  const bool shares_memory = type == DeviceType::kCpu || type == DeviceType::kIntegratedGpu;
  constexpr VkMemoryPropertyFlags kPreferences[] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                                                    kMapped | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, kMapped, 0};
  const std::size_t first = staging || shares_memory ? 1 : 0, end = staging ? 3 : 4;
  for (const VkMemoryPropertyFlags flags : std::span(kPreferences).subspan(first, end - first)) {
    const int found = find_memory_type(state.memory, allowed, flags);
    if (found >= 0) return found;
  }
  return -1;
}

VkResult allocate(RuntimeState& state, BufferState& buffer, bool staging) {
  VkMemoryRequirements requirements;
  state.vk.vkGetBufferMemoryRequirements(state.handle, buffer.buffer, &requirements);
  const int type = choose_memory_type(state, requirements.memoryTypeBits, staging);
  if (type < 0) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  if (has_addresses(state)) info.pNext = &kMemoryWithAddresses;
  info.allocationSize = requirements.size;
  info.memoryTypeIndex = static_cast<std::uint32_t>(type);
  const auto take_memory = [&] {
    return null_on_failure(state.vk.vkAllocateMemory(state.handle, &info, nullptr, &buffer.memory),
                           buffer.memory);
  };
  VkResult result = take_memory();
  if (result != VK_SUCCESS && result != VK_ERROR_DEVICE_LOST && state.spare_buffers.clear())
    result = take_memory();  // where the spare buffers were
  if (result != VK_SUCCESS) return result;
  result = state.vk.vkBindBufferMemory(state.handle, buffer.buffer, buffer.memory, 0);
  if (result != VK_SUCCESS) return result;
  constexpr VkMemoryPropertyFlags kMapped =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  if ((state.memory.memoryTypes[type].propertyFlags & kMapped) != kMapped) return VK_SUCCESS;
  return null_on_map_failure(
      state.vk.vkMapMemory(state.handle, buffer.memory, 0, VK_WHOLE_SIZE, 0, &buffer.mapped), buffer.mapped);
}

// Copies between a buffer and the staging buffer on the device, ordered against everything before and after.
Result<void> copy_staged(RuntimeState& state, VkBuffer from, VkDeviceSize from_offset, VkBuffer to,
                         VkDeviceSize to_offset, VkDeviceSize bytes) {
  if (Result<void> status = begin_commands(state); !status) return status;
  const VkBufferCopy region{from_offset, to_offset, bytes};
  state.vk.vkCmdCopyBuffer(state.commands, from, to, 1, &region);
  return submit_and_wait(state);
}

Result<void> check_range(const Buffer& buffer, VkDeviceSize offset, std::size_t bytes) {
  if (offset > buffer.size() || bytes > buffer.size() - offset) {
    return invalid("bytes ", offset, " to ", offset + bytes, " are outside of a buffer of ", buffer.size(),
                   " bytes");
  }
  return {};
}

Result<void> ensure_staging(RuntimeState& state) {
  if (state.staging) return {};
  auto staging = create_buffer(state, kStagingBytes, true);
  if (!staging) return staging.error();
  state.staging = *std::move(staging);
  return {};
}

}  // namespace

BufferState::~BufferState() {
  if (vk == nullptr) return;
  vk->vkDestroyBuffer(device, buffer, nullptr);
  vk->vkFreeMemory(device, memory, nullptr);
}

namespace {

// Whether a buffer may lie in so many bytes of whole pages.
bool may_import(const RuntimeState& state, VkDeviceSize page_bytes) {
  const Capabilities& capabilities = state.device->capabilities();
  const VkDeviceSize most = std::min<VkDeviceSize>(
      {capabilities.max_buffer_size, capabilities.max_memory_allocation_bytes, SIZE_MAX});
  return page_bytes != 0 && page_bytes <= most;  // 0: the bytes were too many to be rounded up
}

// Makes a buffer that lies in so many bytes of whole pages, which begin at `pages`.
VkResult import_pages(RuntimeState& state, void* pages, VkDeviceSize page_bytes, BufferState& buffer) {
  constexpr auto kKind = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  VkMemoryHostPointerPropertiesEXT host{VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
  if (VkResult result = state.vk.vkGetMemoryHostPointerPropertiesEXT(state.handle, kKind, pages, &host);
      result != VK_SUCCESS) {
    return result;
  }
  const VkExternalMemoryBufferCreateInfo external{VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                  nullptr, kKind};
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, &external};
  info.size = buffer.size;
  info.usage = buffer_usage(has_addresses(state));
  if (VkResult result = null_on_failure(state.vk.vkCreateBuffer(state.handle, &info, nullptr, &buffer.buffer),
                                        buffer.buffer);
      result != VK_SUCCESS) {
    return result;
  }
  VkMemoryRequirements requirements;
  state.vk.vkGetBufferMemoryRequirements(state.handle, buffer.buffer, &requirements);
  const int type =
      find_memory_type(state.memory, requirements.memoryTypeBits & host.memoryTypeBits,
                       VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
  if (type < 0 || requirements.size > page_bytes) return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  const VkImportMemoryHostPointerInfoEXT imported{VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
                                                  has_addresses(state) ? &kMemoryWithAddresses : nullptr,
                                                  kKind, pages};
  const VkMemoryAllocateInfo allocation{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &imported, page_bytes,
                                        static_cast<std::uint32_t>(type)};
  if (VkResult result = null_on_failure(
          state.vk.vkAllocateMemory(state.handle, &allocation, nullptr, &buffer.memory), buffer.memory);
      result != VK_SUCCESS) {
    return result;
  }
  return state.vk.vkBindBufferMemory(state.handle, buffer.buffer, buffer.memory, 0);
}

std::unique_ptr<BufferState> new_state(RuntimeState& state, VkDeviceSize bytes) {
  auto buffer = std::make_unique<BufferState>();
  buffer->device = state.handle;
  buffer->vk = &state.vk;
  buffer->size = bytes;
  return buffer;
}

bool is_out_of_memory(VkResult result) {
  return result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

VkResult take_large_pages(RuntimeState& state, VkDeviceSize page_bytes, BufferState& buffer) {
  buffer.pages = LargePages::of(static_cast<std::size_t>(page_bytes));
  buffer.mapped = buffer.pages.data();
  if (buffer.mapped == nullptr) return VK_ERROR_OUT_OF_HOST_MEMORY;
  return import_pages(state, buffer.mapped, page_bytes, buffer);
}

// Null where neither the system nor the driver gives it; the driver's own memory may do. Fails if the device
// is lost.
Result<std::unique_ptr<BufferState>> buffer_in_large_pages(RuntimeState& state, VkDeviceSize bytes) {
  constexpr VkDeviceSize kLeast = 262144;  // smaller ones stay in a core's caches
  const VkDeviceSize page_bytes = round_up(bytes, kSmallestPage);
  if (!state.has_large_pages || bytes < kLeast || !may_import(state, page_bytes))
    return std::unique_ptr<BufferState>();
  auto buffer = new_state(state, bytes);
  VkResult result = take_large_pages(state, page_bytes, *buffer);
  if (is_out_of_memory(result) && state.spare_buffers.clear()) {  // where the spare buffers were
    buffer = new_state(state, bytes);
    result = take_large_pages(state, page_bytes, *buffer);
  }
  if (result == VK_SUCCESS) return buffer;
  if (result == VK_ERROR_DEVICE_LOST) return runtime_error(state, result, "importing the host's memory");
  if (!is_out_of_memory(result)) state.has_large_pages = false;  // the driver would refuse the next one too
  return std::unique_ptr<BufferState>();
}

}  // namespace

ImportedMemory import_memory(RuntimeState& state, std::span<const std::byte> bytes) {
  constexpr std::size_t kLeast = 16384;  // copying less takes less
  if (!state.imports_host_memory || bytes.size() < kLeast) return {};
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
  const auto begin = static_cast<std::uintptr_t>(first / kSmallestPage * kSmallestPage);
  const VkDeviceSize size = round_up(VkDeviceSize{first} + bytes.size(), kSmallestPage) - begin;
  if (!may_import(state, size)) return {};
  auto buffer = new_state(state, size);
  const VkResult result = import_pages(state, reinterpret_cast<void*>(begin), size, *buffer);
  if (result == VK_ERROR_DEVICE_LOST) state.lost = true;  // who copies then is told
  if (result != VK_SUCCESS) return {};
  return {std::move(buffer), first - begin};
}

Result<std::unique_ptr<BufferState>> create_buffer(RuntimeState& state, VkDeviceSize bytes, bool staging) {
  if (Result<void> s = check_not_lost(state); !s) return s.error();
  const Capabilities& capabilities = state.device->capabilities();
  if (bytes > capabilities.max_buffer_size) {
    return limit_exceeded("a buffer of ", bytes, " bytes was asked for; maxBufferSize is ",
                          capabilities.max_buffer_size);
  }
  if (bytes > capabilities.max_memory_allocation_bytes) {
    return limit_exceeded("a buffer of ", bytes, " bytes was asked for; maxMemoryAllocationSize is ",
                          capabilities.max_memory_allocation_bytes);
  }
  if (!staging) {
    if (auto spare = state.spare_buffers.take(bytes)) return spare;
    auto large = buffer_in_large_pages(state, bytes);
    if (!large) return large.error();
    if (*large != nullptr) {
      (*large)->spares = &state.spare_buffers;
      return large;
    }
  }
  auto buffer = new_state(state, bytes);
  buffer->spares = staging ? nullptr : &state.spare_buffers;
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = std::max<VkDeviceSize>(bytes, 4);
  info.usage = buffer_usage(has_addresses(state));
  if (VkResult result = null_on_failure(
          state.vk.vkCreateBuffer(state.handle, &info, nullptr, &buffer->buffer), buffer->buffer);
      result != VK_SUCCESS) {
    return runtime_error(state, result, "vkCreateBuffer");
  }
  if (VkResult result = allocate(state, *buffer, staging); result != VK_SUCCESS) {
    Error error = runtime_error(state, result, "vkAllocateMemory");
    error.message += message(" for a buffer of ", bytes, " bytes");
    return error;
  }
  return buffer;
}

}  // namespace detail

using detail::BufferState;

Buffer::Buffer(std::unique_ptr<BufferState> state) : state_(std::move(state)) {}
Buffer::Buffer(Buffer&&) noexcept = default;
Buffer& Buffer::operator=(Buffer&& other) noexcept {
  Buffer(std::move(other)).state_.swap(state_);  // the temporary gives up what was here
  return *this;
}
Buffer::Buffer() noexcept = default;
Buffer::~Buffer() {
  if (state_ && state_->spares != nullptr) state_->spares->keep(std::move(state_));
}

VkBuffer Buffer::handle() const {
  return state_ ? state_->buffer : VK_NULL_HANDLE;
}
VkDeviceSize Buffer::size() const {
  return state_ ? state_->size : 0;
}
BufferRange Buffer::range(VkDeviceSize offset) const {
  return {handle(), offset, offset < size() ? size() - offset : 0};
}

std::uint64_t Runtime::memory_bytes() const {
  const VkPhysicalDeviceMemoryProperties& memory = state_->memory;
  const int type = detail::choose_memory_type(*state_, ~0U, false);
  return type < 0 ? 0 : memory.memoryHeaps[memory.memoryTypes[type].heapIndex].size;
}

Result<Buffer> Runtime::create_buffer(VkDeviceSize bytes) const {
  return detail::without_exceptions([&]() -> Result<Buffer> {
    auto buffer = detail::create_buffer(*state_, bytes, false);
    if (!buffer) return buffer.error();
    return Buffer(*std::move(buffer));
  });
}

std::span<std::byte> Runtime::mapped(const Buffer& buffer) const {
  if (!buffer.state_ || buffer.state_->mapped == nullptr) return {};
  return {static_cast<std::byte*>(buffer.state_->mapped), static_cast<std::size_t>(buffer.size())};
}

Result<void> Runtime::write(const Buffer& buffer, VkDeviceSize offset,
                            std::span<const std::byte> bytes) const {
  return detail::without_exceptions([&]() -> Result<void> {
    if (Result<void> status = detail::check_not_lost(*state_); !status) return status;
    if (Result<void> status = detail::check_range(buffer, offset, bytes.size()); !status) return status;
    if (bytes.empty()) return {};
    if (const auto target = mapped(buffer); !target.empty()) {
      std::memcpy(target.data() + offset, bytes.data(), bytes.size());
      return {};
    }
    if (Result<void> status = detail::ensure_staging(*state_); !status) return status;
    const BufferState& staging = *state_->staging;
    const auto most = static_cast<std::size_t>(staging.size);
    for (std::size_t done = 0; done < bytes.size(); done += most) {
      const std::size_t piece = std::min(bytes.size() - done, most);
      std::memcpy(staging.mapped, bytes.data() + done, piece);
      if (Result<void> status =
              detail::copy_staged(*state_, staging.buffer, 0, buffer.handle(), offset + done, piece);
          !status) {
        return status;
      }
    }
    return {};
  });
}

Result<void> Runtime::read(const Buffer& buffer, VkDeviceSize offset, std::span<std::byte> bytes) const {
  return detail::without_exceptions([&]() -> Result<void> {
    if (Result<void> status = detail::check_not_lost(*state_); !status) return status;
    if (Result<void> status = detail::check_range(buffer, offset, bytes.size()); !status) return status;
    if (bytes.empty()) return {};
    if (const auto source = mapped(buffer); !source.empty()) {
      std::memcpy(bytes.data(), source.data() + offset, bytes.size());
      return {};
    }
    if (Result<void> status = detail::ensure_staging(*state_); !status) return status;
    const BufferState& staging = *state_->staging;
    const auto most = static_cast<std::size_t>(staging.size);
    for (std::size_t done = 0; done < bytes.size(); done += most) {
      const std::size_t piece = std::min(bytes.size() - done, most);
      if (Result<void> status =
              detail::copy_staged(*state_, buffer.handle(), offset + done, staging.buffer, 0, piece);
          !status) {
        return status;
      }
      std::memcpy(bytes.data() + done, staging.mapped, piece);
    }
    return {};
  });
}

}  // namespace vkattn
