// A Vulkan without a device, for fuzz targets: it hands out handles, computes nothing, and ends the program
// at a use that the specification forbids. What it checks is what the library must get right whatever it is
// asked for: objects that are alive, ranges inside of what the caller gave, limits.
#pragma once

#include <vulkan/vulkan_core.h>

#include <vkattn/vkattn.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace vkattn::fuzz {

/// What the device is like.
struct FakeSettings {
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  std::uint32_t api_version = VK_API_VERSION_1_3;
  bool features = true;  ///< all of those that the library gains from, or none
  std::uint32_t min_subgroup = 32;
  std::uint32_t max_subgroup = 32;
  std::uint32_t invocations = 1024;
  std::uint32_t shared_bytes = 49152;
  std::uint32_t storage_buffers = 16;
  std::uint32_t groups = 65535;
  std::uint32_t range = 1U << 27U;
  std::uint32_t offset_alignment = 64;
  std::uint32_t fails_at = 0;  ///< the number of the call that fails, of those that can; 0: none
};

/// The one device there is. Made anew for each input.
class FakeVulkan {
 public:
  explicit FakeVulkan(const FakeSettings& settings);
  FakeVulkan(const FakeVulkan&) = delete;
  FakeVulkan& operator=(const FakeVulkan&) = delete;
  /// Ends the program where an object was not destroyed.
  ~FakeVulkan();

  [[nodiscard]] static vkattn_physical_device physical_device();
  /// A device of the C interface on which everything wanted is enabled; null where a call was to fail. The
  /// library's parameters lie in the memory that is given, which is bytes of a buffer from `offset` on;
  /// without any it takes memory by itself.
  [[nodiscard]] static vkattn_device* borrow(std::span<std::byte> parameters = {}, VkDeviceSize offset = 0);

  /// A buffer of the caller's, of which these bytes are given to the library.
  [[nodiscard]] static VkBuffer buffer(VkDeviceSize offset, VkDeviceSize size);
  /// A pool of the caller's, which dies with the device.
  [[nodiscard]] static VkDescriptorPool pool();
  [[nodiscard]] static VkCommandBuffer commands();
  /// Nothing is bound any more.
  static void begin_commands();
};

}  // namespace vkattn::fuzz
