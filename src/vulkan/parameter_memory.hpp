// Small pieces of host-visible memory for parameters that push constants have no room for. The host writes
// them once, every execution reads them.
#pragma once

#include <vkattn/result.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "vulkan/functions.hpp"

namespace vkattn::detail {

class ParameterMemory;

/// A piece of a ParameterMemory, given back by the destructor. Move-only; empty when default-constructed.
class ParameterPiece {
 public:
  ParameterPiece() = default;
  ParameterPiece(ParameterPiece&& other) noexcept { *this = std::move(other); }
  ParameterPiece& operator=(ParameterPiece&& other) noexcept;
  ~ParameterPiece();

  [[nodiscard]] VkBuffer buffer() const { return buffer_; }
  /// A multiple of minStorageBufferOffsetAlignment.
  [[nodiscard]] VkDeviceSize offset() const { return offset_; }
  /// Coherent: a submission sees everything that the host has written before it.
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  friend class ParameterMemory;
  std::shared_ptr<ParameterMemory> memory_;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceSize offset_ = 0;
  VkDeviceSize bytes_ = 0;
  std::byte* data_ = nullptr;
};

/// Deals out pieces of buffers of some kilobytes, so that many bindings take few of a device's allocations;
/// or pieces of one buffer of the caller's. One for each device; safe to use from several threads.
class ParameterMemory : public std::enable_shared_from_this<ParameterMemory> {
 public:
  /// The device's handles and numbers that it uses.
  struct DeviceHandles {
    VkDevice device = VK_NULL_HANDLE;
    DeviceFunctions vk;
    Allocator allocator{};
    VkPhysicalDeviceMemoryProperties memory{};
    VkDeviceSize alignment = 256;  ///< of each piece
    bool has_addresses = false;    ///< buffers have addresses
  };
  /// A part of a buffer of the caller's, in coherent mapped memory. A null buffer: there is none.
  struct CallersMemory {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceSize offset = 0, bytes = 0;
    std::byte* data = nullptr;  ///< where byte `offset` is mapped
  };
  explicit ParameterMemory(const DeviceHandles& handles) : device_(handles) {}
  ParameterMemory(const DeviceHandles& handles, const CallersMemory& callers);
  ParameterMemory(const ParameterMemory&) = delete;
  ParameterMemory& operator=(const ParameterMemory&) = delete;
  ~ParameterMemory();

  /// Errors: no memory, or none left of the caller's.
  [[nodiscard]] Result<ParameterPiece> take(VkDeviceSize bytes);
  /// Bytes of the piece that so many bytes take.
  [[nodiscard]] VkDeviceSize piece_bytes(VkDeviceSize bytes) const noexcept;

 private:
  friend class ParameterPiece;
  struct Free {
    VkDeviceSize offset = 0, bytes = 0;
  };
  struct Block {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    std::byte* data = nullptr;  ///< of byte `first`
    VkDeviceSize first = 0, bytes = 0;
    std::size_t pieces = 0;  ///< that are taken
    /// By offset, no two of them neighbours. Its capacity suffices for giving back all pieces.
    std::vector<Free> free;
  };

  [[nodiscard]] Result<void> add_block(VkDeviceSize bytes);
  [[nodiscard]] VkResult create_block(Block& block) const;
  [[nodiscard]] bool take_from(Block& block, VkDeviceSize bytes, ParameterPiece& piece);
  void give_back(const ParameterPiece& piece) noexcept;
  void destroy(const Block& block) const noexcept;

  const DeviceHandles device_;
  const bool has_callers_ = false;  ///< there is one block, the caller's
  std::mutex mutex_;
  std::list<Block> blocks_;
};

}  // namespace vkattn::detail
