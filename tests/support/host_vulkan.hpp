// A Vulkan on the host alone. It hands out handles, has memory that can be mapped, and computes nothing. So a
// program can make all calls of the library in microseconds, without a loader or a device. Fuzz targets and
// the failing driver run on it.
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
  kAll    ///< every feature that the library uses
};

/// The properties of the device.
struct HostSettings {
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  std::uint32_t api_version = VK_API_VERSION_1_3;
  HostFeatures features = HostFeatures::kAll;
  bool is_memory_visible =
      true;  ///< all memory is visible to the host, or only memory that is not the device's own
  std::uint32_t min_subgroup = 32;
  std::uint32_t max_subgroup = 32;
  std::uint32_t invocations = 1024;
  std::uint32_t shared_bytes = 49152;
  std::uint32_t storage_buffers = 16;
  std::uint32_t groups = 65535;
  std::uint32_t range = 1U << 27U;
  std::uint32_t offset_alignment = 64;
  std::uint32_t fails_at =
      0;  ///< the number of the call that fails, counting calls that can fail; 0: none fails
  std::uint64_t most_memory = 1U << 30U;  ///< of one allocation
  bool imports_host_memory = false;       ///< has VK_EXT_external_memory_host
};

/// The settings that the device has from the next call on.
[[nodiscard]] HostSettings& host_settings();

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL host_get_instance_proc_addr(VkInstance instance, const char* name);

/// While an object lives, a use that the specification forbids ends the program: of objects that are not
/// alive, of ranges that the caller did not give, beyond limits. Then only the functions that the library
/// needs exist, not those of the runtime. A fuzz target makes a new object for each input.
class HostVulkan {
 public:
  explicit HostVulkan(const HostSettings& settings);
  HostVulkan(const HostVulkan&) = delete;
  HostVulkan& operator=(const HostVulkan&) = delete;
  /// Ends the program if an object was not destroyed.
  ~HostVulkan();

  [[nodiscard]] static vkattn_physical_device physical_device();
  /// A device of the C interface on which every feature that the library wants is enabled. Null if a call was
  /// set to fail. The library's parameters lie in the given memory, which is bytes of a buffer from `offset`
  /// on. If none is given, the library allocates memory itself.
  [[nodiscard]] static vkattn_device* borrow(std::span<std::byte> parameters = {}, VkDeviceSize offset = 0);

  /// A buffer of the caller, of which these bytes are given to the library.
  [[nodiscard]] static VkBuffer buffer(VkDeviceSize offset, VkDeviceSize size);
  /// A pool of the caller, which is destroyed with the device.
  [[nodiscard]] static VkDescriptorPool pool();
  [[nodiscard]] static VkCommandBuffer commands();
  /// Forgets everything that was bound.
  static void begin_commands();
};

/// For host_vulkan.cpp: functions that report about the device, and functions of the runtime, which check
/// nothing. Null if none has that name.
/// @{
[[nodiscard]] PFN_vkVoidFunction function_that_tells(std::string_view name);
[[nodiscard]] PFN_vkVoidFunction function_of_runtime(std::string_view name);
/// @}

}  // namespace vkattn::tests
