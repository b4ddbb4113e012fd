/// @file
/// A device that the application owns, described by what it enabled.
#pragma once

#include <vkattn/capabilities.hpp>
#include <vkattn/result.hpp>
#include <vkattn/shared.hpp>

#include <span>
#include <string>

namespace vkattn {

namespace detail {
struct DeviceState;
}

/// How much a message of the log matters.
enum class LogLevel : std::uint32_t {
  kDetail,   ///< devices and plans in words, as their describe() has them
  kInfo,     ///< what was compiled and what was found, and how long it took
  kWarning,  ///< what works less well than it could: a kernel passed over for a feature that is not enabled
};

/// A function of the caller that is told what happens: one text without a final newline for each call. The
/// thread that does the work calls it, and several threads may call it at once. It must not call the library.
/// Errors are not logged: they are returned.
struct Log {
  /// `text` ends with a 0 and lives during the call only.
  using Write = void (*)(void* user, LogLevel level, const char* text);
  Write write = nullptr;             ///< null: nothing is said
  void* user = nullptr;              ///< what `write` is given; the caller's
  LogLevel least = LogLevel::kInfo;  ///< what is below is not put into words
  Shared<const void> keeps;          ///< what `user` points to, if the log keeps it alive
};

/// A borrowed VkDevice. Vulkan cannot tell what an application enabled on a VkDevice, so the application says
/// it here. All pointers are read during Device::borrow only.
struct DeviceDesc {
  VkInstance instance = {};               ///< that has physical_device
  VkPhysicalDevice physical_device = {};  ///< that `device` was made of
  VkDevice device = {};                   ///< must outlive everything made with it
  /// The loader's entry point; the core library links no loader. With volk: vkGetInstanceProcAddr.
  PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr;
  /// VkApplicationInfo::apiVersion of the instance: must be given, for nothing tells it afterwards. The
  /// version used is the lower of this and the device's.
  std::uint32_t api_version = 0;
  /// Device extensions that were enabled.
  std::span<const char* const> enabled_extensions;
  /// The pNext chain of VkDeviceCreateInfo as it was passed (VkPhysicalDeviceFeatures2 and feature structs);
  /// null where nothing was enabled. A feature of an extension counts where the extension is enabled too.
  const void* enabled_features = nullptr;
  /// VkDeviceCreateInfo::pEnabledFeatures, where that was used in place of VkPhysicalDeviceFeatures2.
  const VkPhysicalDeviceFeatures* enabled_core_features = nullptr;
  /// Host memory of all Vulkan objects that the library makes. The structure is copied; its functions and
  /// what pUserData points at must live as long as the device and everything made with it. Null: the driver's
  /// own.
  const VkAllocationCallbacks* allocator = nullptr;
  Log log;  ///< of the device and everything made with it
  /// Memory of the caller's for the parameters of bindings (PlanRequirements::parameter_bytes for each), in
  /// place of blocks that the library allocates; best the device's own, as executions read it and may write
  /// it. It is a part of a buffer with VK_BUFFER_USAGE_STORAGE_BUFFER_BIT in memory that is host-visible,
  /// coherent, and mapped as long as the device and everything made with it live. One Device at a time uses
  /// it. Pieces begin at multiples of 64 and of minStorageBufferOffsetAlignment in the buffer; bytes before
  /// the first such multiple are lost. If no piece is left, making bindings fails (kOutOfMemory), also those
  /// of a SelfTest, which take as much as the plan's.
  /// @{
  VkBuffer parameter_buffer = {};     ///< null: the library takes memory
  VkDeviceSize parameter_offset = 0;  ///< of the first byte that the library may use
  VkDeviceSize parameter_size = 0;    ///< bytes from there on
  void* parameter_data = nullptr;     ///< where byte parameter_offset is mapped
  /// @}
  /// Whether bufferDeviceAddress is enabled, and every buffer that the library is given (tensors, workspaces,
  /// parameter_buffer) has VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT and memory that was allocated with
  /// VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT; PlanRequirements tells the usage too. CPUs gain from it
  /// (lavapipe: float32 prefill takes three quarters of the time, decode about half), as they check the
  /// bounds of each access by a descriptor. GPUs have nothing from it. Refused without the feature.
  bool buffer_addresses = false;
  /// What a Runtime on this device and driver has found (Capabilities::row_layouts). Block sizes that need to
  /// know it (with TileSizes::columns, on matrix units) are refused without it.
  std::span<const RowLayout> row_layouts;
};

/// A handle to a borrowed device: its function table and its Capabilities. Cheap to copy, immutable, safe to
/// share across threads. The VkDevice must outlive all copies, the plans made with them and their bindings.
/// The last of these frees the library's memory for parameters of bindings (blocks of 64 KiB, unless
/// DeviceDesc has memory).
class Device {
 public:
  /// Reads the device's properties and the enabled features. Errors: a device below Vulkan 1.1, a member of
  /// `desc` that is missing (named), or a function that cannot be loaded.
  [[nodiscard]] static Result<Device> borrow(const DeviceDesc& desc);

  /// What it can do, read once by borrow().
  [[nodiscard]] const Capabilities& capabilities() const;
  /// A few lines for a person: the device, what is enabled of what the library gains from, and what could be.
  [[nodiscard]] std::string describe() const;
  /// The borrowed handle.
  [[nodiscard]] VkDevice handle() const;

  /// For the library's own files.
  /// @{
  [[nodiscard]] const detail::DeviceState& state() const { return *state_; }
  [[nodiscard]] Shared<const detail::DeviceState> share() const { return state_; }
  /// @}

 private:
  friend struct detail::DeviceState;
  explicit Device(Shared<const detail::DeviceState> state) : state_(std::move(state)) {}
  Shared<const detail::DeviceState> state_;
};

}  // namespace vkattn
