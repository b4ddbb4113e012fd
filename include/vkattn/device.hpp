// A device that the application owns, described by what it enabled.
#pragma once

#include <vkattn/capabilities.hpp>
#include <vkattn/result.hpp>

#include <memory>
#include <span>

namespace vkattn {

namespace detail {
struct DeviceState;
}

/// A borrowed VkDevice. Vulkan cannot tell what an application enabled on a VkDevice, so the application says
/// it here. All pointers are read during Device::borrow only.
struct DeviceDesc {
  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical_device = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  /// The loader's entry point; the core library links no loader. With volk: vkGetInstanceProcAddr.
  PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr;
  /// VkApplicationInfo::apiVersion of the instance. The version used is the lower of this and the device's.
  std::uint32_t api_version = VK_API_VERSION_1_1;
  /// Device extensions that were enabled.
  std::span<const char* const> enabled_extensions;
  /// The pNext chain of VkDeviceCreateInfo as it was passed (VkPhysicalDeviceFeatures2 and feature structs);
  /// null where nothing was enabled.
  const void* enabled_features = nullptr;
  /// VkDeviceCreateInfo::pEnabledFeatures, where that was used in place of VkPhysicalDeviceFeatures2.
  const VkPhysicalDeviceFeatures* enabled_core_features = nullptr;
};

/// A handle to a borrowed device: its function table and its Capabilities. Cheap to copy, immutable, safe to
/// share across threads. The VkDevice must outlive all copies, the plans made with them and their bindings:
/// some kilobytes of memory for parameters of bindings go with the last of them.
class Device {
 public:
  /// Reads the device's properties and the enabled features. Fails on a device below Vulkan 1.1 or a function
  /// that cannot be loaded.
  [[nodiscard]] static Result<Device> borrow(const DeviceDesc& desc);

  /// What it can do, read once by borrow().
  [[nodiscard]] const Capabilities& capabilities() const;
  /// The borrowed handle.
  [[nodiscard]] VkDevice handle() const;

  /// For the library's own files.
  [[nodiscard]] const detail::DeviceState& state() const { return *state_; }
  [[nodiscard]] std::shared_ptr<const detail::DeviceState> share() const { return state_; }

 private:
  friend struct detail::DeviceState;
  explicit Device(std::shared_ptr<const detail::DeviceState> state) : state_(std::move(state)) {}
  std::shared_ptr<const detail::DeviceState> state_;
};

}  // namespace vkattn
