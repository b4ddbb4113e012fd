// Pieces of parameter memory are aligned, do not overlap, are used again, and are given back.
#include "vulkan/parameter_memory.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/must.hpp"

namespace vkattn::detail {
namespace {

// A device whose buffers and memory are numbers, and whose mapped memory is memory of the host.
struct FakeDevice {
  static inline int buffers = 0, allocations = 0;
  static inline bool out_of_memory = false;
  static inline std::uint64_t next = 1;

  // A handle is a pointer or a 64-bit number.
  template <class Handle>
  static Handle handle() {
    static_assert(sizeof(Handle) == sizeof(next));
    return std::bit_cast<Handle>(next++);
  }

  static ParameterMemory::DeviceHandles handles() {
    buffers = allocations = 0;
    out_of_memory = false;
    ParameterMemory::DeviceHandles device;
    device.alignment = 256;
    device.memory.memoryTypeCount = 2;
    device.memory.memoryTypes[0].propertyFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    device.memory.memoryTypes[1].propertyFlags =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    device.vk.vkCreateBuffer = [](VkDevice, const VkBufferCreateInfo*, const auto*, VkBuffer* buffer) {
      ++buffers;
      *buffer = handle<VkBuffer>();
      return VK_SUCCESS;
    };
    device.vk.vkDestroyBuffer = [](VkDevice, VkBuffer buffer, const auto*) {
      buffers -= buffer != VK_NULL_HANDLE ? 1 : 0;
    };
    device.vk.vkGetBufferMemoryRequirements = [](VkDevice, VkBuffer, VkMemoryRequirements* needs) {
      *needs = {65536, 256, 3};
    };
    device.vk.vkAllocateMemory = [](VkDevice, const VkMemoryAllocateInfo* info, const auto*,
                                    VkDeviceMemory* memory) {
      EXPECT_EQ(info->memoryTypeIndex, 1U) << "the host writes it";
      if (out_of_memory) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
      ++allocations;
      *memory = handle<VkDeviceMemory>();
      return VK_SUCCESS;
    };
    device.vk.vkFreeMemory = [](VkDevice, VkDeviceMemory memory, const auto*) {
      allocations -= memory != VK_NULL_HANDLE ? 1 : 0;
    };
    device.vk.vkBindBufferMemory = [](auto...) { return VK_SUCCESS; };
    device.vk.vkMapMemory = [](VkDevice, VkDeviceMemory, VkDeviceSize, VkDeviceSize, VkFlags, void** data) {
      static std::byte memory[4][1U << 20U];
      static int block = 0;
      *data = memory[block++ % 4];
      return VK_SUCCESS;
    };
    return device;
  }
};

TEST(ParameterMemory, PiecesAreAlignedAndApart) {
  const auto memory = std::make_shared<ParameterMemory>(FakeDevice::handles());
  std::vector<ParameterPiece> pieces;
  std::set<std::pair<VkBuffer, VkDeviceSize>> places;
  for (int i = 0; i < 400; ++i) {  // 512 bytes each: more than three blocks
    auto piece = tests::must(memory->take(300));
    EXPECT_EQ(piece.offset() % 256, 0U);
    for (const VkDeviceSize half : {piece.offset(), piece.offset() + 256}) {
      EXPECT_TRUE(places.emplace(piece.buffer(), half).second) << "twice";
    }
    pieces.push_back(std::move(piece));
  }
  EXPECT_EQ(FakeDevice::buffers, 4);
  EXPECT_EQ(FakeDevice::allocations, 4);
}

TEST(ParameterMemory, ObjectsHaveNames) {
  static std::vector<VkObjectType> named;
  ParameterMemory::DeviceHandles device = FakeDevice::handles();
  device.vk.vkSetDebugUtilsObjectNameEXT = [](VkDevice, const VkDebugUtilsObjectNameInfoEXT* info) {
    EXPECT_STREQ(info->pObjectName, "vkattn parameters");
    named.push_back(info->objectType);
    return VK_SUCCESS;
  };
  EXPECT_TRUE(std::make_shared<ParameterMemory>(device)->take(1).ok());
  EXPECT_EQ(named, (std::vector{VK_OBJECT_TYPE_BUFFER, VK_OBJECT_TYPE_DEVICE_MEMORY}));
}

TEST(ParameterMemory, WhatIsGivenBackIsUsedAgain) {
  auto memory = std::make_shared<ParameterMemory>(FakeDevice::handles());
  {
    std::vector<ParameterPiece> pieces;
    for (int i = 0; i < 256; ++i) pieces.push_back(memory->take(256).value());  // a whole block
    EXPECT_EQ(FakeDevice::buffers, 1);
    // Gives back every second piece, and then the others. Neighbouring free pieces must become one piece
    // again.
    for (std::size_t i = 0; i < pieces.size(); i += 2) pieces[i] = ParameterPiece();
    EXPECT_TRUE(memory->take(256).ok());
    EXPECT_EQ(FakeDevice::buffers, 1);
    const ParameterPiece wide = memory->take(512).value();
    EXPECT_EQ(FakeDevice::buffers, 2) << "no two free pieces are neighbours";
  }
  EXPECT_EQ(FakeDevice::buffers, 1) << "one block is kept";
  EXPECT_TRUE(memory->take(65536).ok()) << "whole again";
  EXPECT_EQ(FakeDevice::buffers, 1);
  memory.reset();
  EXPECT_EQ(FakeDevice::buffers, 0);
  EXPECT_EQ(FakeDevice::allocations, 0);
}

TEST(ParameterMemory, APieceKeepsTheMemoryAlive) {
  auto memory = std::make_shared<ParameterMemory>(FakeDevice::handles());
  ParameterPiece piece = memory->take(100000).value();  // more than a block
  memory.reset();
  EXPECT_EQ(FakeDevice::buffers, 1);
  piece = ParameterPiece();
  EXPECT_EQ(FakeDevice::buffers, 0);
}

TEST(ParameterMemory, NoMemoryIsAnErrorAndLeavesNothing) {
  const auto memory = std::make_shared<ParameterMemory>(FakeDevice::handles());
  FakeDevice::out_of_memory = true;
  EXPECT_TRUE(tests::is_refused(memory->take(256), ErrorCode::kOutOfMemory, {}));
  EXPECT_EQ(FakeDevice::buffers, 0);
  FakeDevice::out_of_memory = false;
  EXPECT_TRUE(memory->take(256).ok());
}

TEST(ParameterMemory, AnAddressThatIsNoneIsAnErrorAndLeavesNothing) {
  static void* address = nullptr;
  for (const std::intptr_t wrong : {0, -1}) {
    address = std::bit_cast<void*>(wrong);
    ParameterMemory::DeviceHandles device = FakeDevice::handles();
    device.vk.vkMapMemory = [](VkDevice, VkDeviceMemory, VkDeviceSize, VkDeviceSize, VkFlags, void** data) {
      *data = address;
      return VK_SUCCESS;
    };
    const auto memory = std::make_shared<ParameterMemory>(device);
    EXPECT_TRUE(tests::is_refused(memory->take(256), ErrorCode::kVulkan, {"VK_ERROR_MEMORY_MAP_FAILED"}));
    EXPECT_EQ(FakeDevice::buffers, 0);
    EXPECT_EQ(FakeDevice::allocations, 0);
  }
}

// The memory begins at an offset that no piece may have. Nothing else is taken, and the caller's buffer
// stays.
TEST(ParameterMemory, OfTheCallersIsAllThatIsTaken) {
  const ParameterMemory::DeviceHandles device = FakeDevice::handles();
  std::array<std::byte, 1000> mapped{};
  const auto buffer = FakeDevice::handle<VkBuffer>();
  const ParameterMemory::CallersMemory callers{buffer, 100, mapped.size(), mapped.data()};
  auto memory = std::make_shared<ParameterMemory>(device, callers);
  {
    std::vector<ParameterPiece> pieces;
    for (int i = 0; i < 3; ++i) pieces.push_back(tests::must(memory->take(200)));
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      EXPECT_EQ(pieces[i].buffer(), buffer);
      EXPECT_EQ(pieces[i].offset(), 256 * (i + 1));
      EXPECT_EQ(pieces[i].data(), mapped.data() + (pieces[i].offset() - 100));
    }
    EXPECT_TRUE(tests::is_refused(memory->take(1), ErrorCode::kOutOfMemory,
                                  {"parameters of bindings take 256 bytes", "of the 768 that"}));
    pieces[1] = ParameterPiece();
    EXPECT_EQ(tests::must(memory->take(256)).offset(), 512U);
  }
  EXPECT_EQ(tests::must(memory->take(768)).offset(), 256U) << "whole again";
  memory.reset();
  EXPECT_EQ(FakeDevice::buffers, 0);
  EXPECT_EQ(FakeDevice::allocations, 0);
  const auto too_small = std::make_shared<ParameterMemory>(
      device, ParameterMemory::CallersMemory{buffer, 1, 255, mapped.data()});
  EXPECT_FALSE(too_small->take(1).ok());
}

// For the thread sanitizer. On a real device the driver's locks would order the threads.
TEST(ParameterMemory, IsSharedByThreads) {
  const auto memory = std::make_shared<ParameterMemory>(FakeDevice::handles());
  std::array<bool, 3> all_taken{};
  std::vector<std::thread> threads;
  for (bool& mine : all_taken) {
    threads.emplace_back([&memory, &mine] {
      mine = true;
      for (VkDeviceSize i = 1; i <= 50; ++i) {
        const auto first = memory->take(64 * i);
        const auto second = memory->take(64);
        mine = mine && first.ok() && second.ok() && first->data() != second->data();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const bool mine : all_taken) EXPECT_TRUE(mine);
}

}  // namespace
}  // namespace vkattn::detail
