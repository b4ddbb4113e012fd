// Parameter memory: see parameter_memory.hpp.
#include "vulkan/parameter_memory.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/integers.hpp"
#include "common/message.hpp"
#include "vulkan/buffer_usage.hpp"
#include "vulkan/debug.hpp"

namespace vkattn::detail {

namespace {

constexpr VkDeviceSize kBlockBytes = VkDeviceSize{64} << 10U;

// Every device has a type that is host-visible and coherent; the best of them is the device's own memory too.
std::optional<std::uint32_t> memory_type(const VkPhysicalDeviceMemoryProperties& memory,
                                         std::uint32_t allowed) {
  constexpr VkMemoryPropertyFlags kCoherent =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  for (const VkMemoryPropertyFlags wanted : {kCoherent | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, kCoherent}) {
    for (std::uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
      const VkMemoryPropertyFlags flags = memory.memoryTypes[i].propertyFlags;
      if ((allowed >> i & 1U) != 0 && (flags & wanted) == wanted) return i;
    }
  }
  return std::nullopt;
}

}  // namespace

ParameterPiece& ParameterPiece::operator=(ParameterPiece&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(buffer_, other.buffer_);
  std::swap(offset_, other.offset_);
  std::swap(bytes_, other.bytes_);
  std::swap(data_, other.data_);
  return *this;
}

ParameterPiece::~ParameterPiece() {
  if (memory_) memory_->give_back(*this);
}

ParameterMemory::ParameterMemory(const DeviceHandles& handles, const CallersMemory& callers)
    : device_(handles), has_callers_(callers.buffer != VK_NULL_HANDLE) {
  if (!has_callers_) return;
  const VkDeviceSize first = round_up(callers.offset, device_.alignment);
  const VkDeviceSize lost = first - callers.offset;
  Block block;
  block.buffer = callers.buffer;
  block.first = first;
  block.bytes = callers.bytes > lost ? (callers.bytes - lost) / device_.alignment * device_.alignment : 0;
  block.data = block.bytes == 0 ? nullptr : callers.data + lost;
  if (block.bytes != 0) block.free.push_back({block.first, block.bytes});
  blocks_.push_back(std::move(block));
}

ParameterMemory::~ParameterMemory() {
  if (has_callers_) return;
  for (const Block& block : blocks_) destroy(block);
}

void ParameterMemory::destroy(const Block& block) const noexcept {
  device_.vk.vkDestroyBuffer(device_.device, block.buffer, device_.allocator.get());
  device_.vk.vkFreeMemory(device_.device, block.memory, device_.allocator.get());
}

VkResult ParameterMemory::create_block(Block& block) const {
  const DeviceFunctions& vk = device_.vk;
  VkBufferCreateInfo buffer_info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  buffer_info.size = block.bytes;
  buffer_info.usage = storage_usage(device_.has_addresses);
  VkResult result = null_on_failure(
      vk.vkCreateBuffer(device_.device, &buffer_info, device_.allocator.get(), &block.buffer), block.buffer);
  if (result != VK_SUCCESS) return result;
  VkMemoryRequirements needs{};
  vk.vkGetBufferMemoryRequirements(device_.device, block.buffer, &needs);
  const auto type = memory_type(device_.memory, needs.memoryTypeBits);
  if (!type) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  VkMemoryAllocateInfo memory_info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  memory_info.pNext = device_.has_addresses ? &kMemoryWithAddresses : nullptr;
  memory_info.allocationSize = needs.size;
  memory_info.memoryTypeIndex = *type;
  result = null_on_failure(
      vk.vkAllocateMemory(device_.device, &memory_info, device_.allocator.get(), &block.memory),
      block.memory);
  if (result != VK_SUCCESS) return result;
  result = vk.vkBindBufferMemory(device_.device, block.buffer, block.memory, 0);
  if (result != VK_SUCCESS) return result;
  void* data = nullptr;
  result =
      null_on_map_failure(vk.vkMapMemory(device_.device, block.memory, 0, VK_WHOLE_SIZE, 0, &data), data);
  block.data = static_cast<std::byte*>(data);
  return result;
}

Result<void> ParameterMemory::add_block(VkDeviceSize bytes) {
  Block block;
  block.bytes = std::max(bytes, kBlockBytes);
  block.free.push_back({0, block.bytes});
  blocks_.push_back(std::move(block));
  Block& made = blocks_.back();
  const VkResult result = create_block(made);
  if (result == VK_SUCCESS) {
    name_object(device_, VK_OBJECT_TYPE_BUFFER, made.buffer, "parameters");
    name_object(device_, VK_OBJECT_TYPE_DEVICE_MEMORY, made.memory, "parameters");
    return {};
  }
  destroy(made);
  blocks_.pop_back();
  return vulkan_error(result, "allocating memory for parameters");
}

bool ParameterMemory::take_from(Block& block, VkDeviceSize bytes, ParameterPiece& piece) {
  // Between n pieces are up to n + 1 gaps, and one more while a piece is given back, which must not need
  // memory.
  if (block.free.capacity() < block.pieces + 3) block.free.reserve(2 * (block.pieces + 3));
  const auto room = std::find_if(block.free.begin(), block.free.end(),
                                 [&](const Free& free) { return free.bytes >= bytes; });
  if (room == block.free.end()) return false;
  ++block.pieces;
  piece.memory_ = shared_from_this();
  piece.buffer_ = block.buffer;
  piece.offset_ = room->offset;
  piece.bytes_ = bytes;
  piece.data_ = block.data + (room->offset - block.first);
  room->offset += bytes;
  room->bytes -= bytes;
  if (room->bytes == 0) block.free.erase(room);
  return true;
}

VkDeviceSize ParameterMemory::piece_bytes(VkDeviceSize bytes) const noexcept {
  return round_up(std::max<VkDeviceSize>(bytes, 1), device_.alignment);
}

Result<ParameterPiece> ParameterMemory::take(VkDeviceSize bytes) {
  const std::lock_guard lock(mutex_);
  const VkDeviceSize rounded = piece_bytes(bytes);
  ParameterPiece piece;
  for (Block& block : blocks_) {
    if (take_from(block, rounded, piece)) return piece;
  }
  if (has_callers_) {
    return Error{ErrorCode::kOutOfMemory, VK_SUCCESS,
                 message("parameters of bindings take ", rounded,
                         " bytes (requirements() of the plan), and of the ", blocks_.front().bytes,
                         " that can be used of the device's parameter_size no piece so large is "
                         "free: give more, or destroy bindings")};
  }
  if (Result<void> status = add_block(rounded); !status) return status.error();
  (void)take_from(blocks_.back(), rounded, piece);
  return piece;
}

void ParameterMemory::give_back(const ParameterPiece& piece) noexcept {
  const std::lock_guard lock(mutex_);
  const auto block = std::find_if(blocks_.begin(), blocks_.end(),
                                  [&](const Block& other) { return other.buffer == piece.buffer_; });
  if (block == blocks_.end()) return;
  --block->pieces;
  std::vector<Free>& free = block->free;
  auto next =
      std::find_if(free.begin(), free.end(), [&](const Free& entry) { return entry.offset > piece.offset_; });
  next = free.insert(next, {piece.offset_, piece.bytes_});
  if (const auto after = next + 1; after != free.end() && next->offset + next->bytes == after->offset) {
    next->bytes += after->bytes;
    free.erase(after);
  }
  if (next != free.begin() && (next - 1)->offset + (next - 1)->bytes == next->offset) {
    (next - 1)->bytes += next->bytes;
    free.erase(next);
  }
  // One block is kept, as the next bindings will want it.
  if (blocks_.size() == 1 || free.front().bytes != block->bytes) return;
  destroy(*block);
  blocks_.erase(block);
}

}  // namespace vkattn::detail
