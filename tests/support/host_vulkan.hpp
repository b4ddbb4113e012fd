// A Vulkan on the host alone: it hands out handles, has memory where that is mapped, and computes nothing. So
// a program goes through all calls of the library in microseconds, without a loader or a device. Fuzz targets
// and the failing driver run on it.
#pragma once

#include <vulkan/vulkan_core.h>

#include <vkattn/vkattn.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace vkattn::tests {

enum class HostFeatures {
  kNone,
  kSome,  ///< 16-bit storage, matrix units, statistics, and what these need
  kAll    ///< that the library gains from
};

/// What the device is like.
struct HostSettings {
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  std::uint32_t api_version = VK_API_VERSION_1_3;
  HostFeatures features = HostFeatures::kAll;
  bool is_memory_visible = true;  ///< all of it to the host, or only what is not the device's own
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

/// As the device is from the next call on.
[[nodiscard]] HostSettings& host_settings();

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL host_get_instance_proc_addr(VkInstance instance, const char* name);

/// While one lives, a use that the specification forbids ends the program: of objects that are not alive, of
/// ranges outside of what the caller gave, beyond limits. There are the library's functions alone then, not
/// those of the runtime. Made anew for each input.
class HostVulkan {
 public:
  explicit HostVulkan(const HostSettings& settings);
  HostVulkan(const HostVulkan&) = delete;
  HostVulkan& operator=(const HostVulkan&) = delete;
  /// Ends the program where an object was not destroyed.
  ~HostVulkan();

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

/// For host_vulkan.cpp: what the device tells of itself, and functions of the runtime, which have no checks.
/// Null where there is none of that name.
/// @{
[[nodiscard]] PFN_vkVoidFunction function_that_tells(std::string_view name);
[[nodiscard]] PFN_vkVoidFunction function_of_runtime(std::string_view name);
/// @}

}  // namespace vkattn::tests
