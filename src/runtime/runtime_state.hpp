// The state that the runtime's parts share.
#pragma once

#include <vulkan/vulkan_core.h>

#include <vkattn/device_features.hpp>
#include <vkattn/pipeline_cache.hpp>
#include <vkattn/runtime.hpp>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/message.hpp"
#include "runtime/functions.hpp"
#include "runtime/kept_pipelines.hpp"
#include "runtime/large_pages.hpp"
#include "runtime/spare_buffers.hpp"
#include "runtime/test_outcomes.hpp"

namespace vkattn::detail {

/// An instance, with a messenger if validation was asked for.
struct Instance {
  VkInstance handle = VK_NULL_HANDLE;
  bool is_borrowed = false;  ///< the application destroys it
  LoaderFunctions loader;
  RuntimeInstanceFunctions vk;
  std::uint32_t api_version = VK_API_VERSION_1_1;
  VkDebugUtilsMessengerEXT messenger = VK_NULL_HANDLE;
  std::mutex messages_mutex;
  std::vector<std::string> messages;

  Instance() = default;
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  ~Instance();
};

/// Loads the loader and makes an instance. The error says what is missing.
[[nodiscard]] Result<std::unique_ptr<Instance>> create_instance(const RuntimeOptions& options);

/// A VkDeviceCreateInfo with the features and extensions to enable, and nothing else.
struct DeviceFeatures {
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  EnableMemory memory;
};

/// A physical device with what vkattn would enable on it.
struct PhysicalDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  std::unique_ptr<DeviceFeatures> features;
  bool imports_host_memory = false;  ///< VK_EXT_external_memory_host is among the features
  DeviceInfo info;
  std::uint32_t queue_family = 0;
  std::uint32_t timestamp_bits = 0;
};

/// Lists the devices. The names in RuntimeOptions::disabled_extensions are left out of each device's
/// features. VK_EXT_external_memory_host is in them if compute() shall use arrays where they lie, and on CPUs
/// also for large pages.
[[nodiscard]] Result<std::vector<PhysicalDevice>> enumerate_devices(const Instance& instance,
                                                                    const std::string& disabled_list,
                                                                    bool imports_arrays);

/// The index of the device that `wanted` names (a number or part of a name), or of the best; `reason` gets a
/// line for each device.
[[nodiscard]] Result<std::size_t> choose_device(const std::vector<PhysicalDevice>& devices,
                                                const std::string& wanted, std::string& reason);

struct BufferState {
  VkDevice device = VK_NULL_HANDLE;
  const RuntimeDeviceFunctions* vk = nullptr;
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkDeviceSize size = 0;
  void* mapped = nullptr;
  LargePages pages;                ///< the memory, if it is no allocation of the driver
  SpareBuffers* spares = nullptr;  ///< where it goes when it is given up; null: it is freed

  BufferState() = default;
  BufferState(const BufferState&) = delete;
  BufferState& operator=(const BufferState&) = delete;
  ~BufferState();
};

struct RuntimeState {
  std::unique_ptr<Instance> instance;
  VkPhysicalDevice physical_device = VK_NULL_HANDLE;
  VkDevice handle = VK_NULL_HANDLE;
  bool is_borrowed = false;  ///< the application destroys the device
  RuntimeDeviceFunctions vk;
  std::optional<Device> device;
  std::vector<Device>
      former_devices;  ///< the same with fewer row layouts; callers may refer to their capabilities
  VkQueue queue = VK_NULL_HANDLE;
  std::uint32_t queue_family = 0;
  double timestamp_period_ns = 0;
  std::uint64_t timestamp_mask = 0;
  std::uint32_t device_index = 0;  ///< in list_devices()
  std::string choice;
  VkPhysicalDeviceMemoryProperties memory{};
  VkCommandPool command_pool = VK_NULL_HANDLE;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  VkFence fence = VK_NULL_HANDLE;
  VkQueryPool queries = VK_NULL_HANDLE;
  std::optional<PipelineCache> pipeline_cache;
  std::filesystem::path cache_file;  ///< empty: not kept on disk
  KeptPipelines kept_pipelines;      ///< in cache_file
  std::unique_ptr<BufferState> staging;
  bool imports_host_memory = false;  ///< arrays of compute() are used where they lie
  bool has_large_pages = false;      ///< large buffers are in LargePages; until the driver refuses some
  SpareBuffers spare_buffers;
  Shared<const Tuning> tuning;  ///< null where no file was given
  bool run_self_tests = true;   ///< else only outcomes that are kept count
  bool times_kernels = true;    ///< compares those on matrix units with the next without
  SelfTests self_tests;
  std::vector<AttentionPlan> kept_plans;  ///< of compute() by descriptor, the last one used at the end
  std::size_t most_kept_plans = 0;
  bool lost = false;          ///< sticky: the device answers nothing any more
  bool is_recording = false;  ///< `commands` was begun and not ended
  bool is_submitted = false;  ///< `commands` may run still: nobody could wait for them
  bool is_fence_signalled = false;

  /// The state of a runtime, for the library's own files.
  [[nodiscard]] static RuntimeState& of(const Runtime& runtime) { return *runtime.state_; }

  RuntimeState() = default;
  RuntimeState(const RuntimeState&) = delete;
  RuntimeState& operator=(const RuntimeState&) = delete;
  ~RuntimeState();
};

/// Notes device loss and makes the Error.
[[nodiscard]] Error runtime_error(RuntimeState& state, Error error);
[[nodiscard]] Error runtime_error(RuntimeState& state, VkResult result, const char* call);
/// The Error of a device that was lost earlier.
[[nodiscard]] Result<void> check_not_lost(const RuntimeState& state);

[[nodiscard]] Result<std::unique_ptr<BufferState>> create_buffer(RuntimeState& state, VkDeviceSize bytes,
                                                                 bool staging);
/// Host memory as a buffer of the device.
struct ImportedMemory {
  std::unique_ptr<BufferState> buffer;  ///< null: the memory is to be copied
  VkDeviceSize offset = 0;              ///< of the first byte
};
/// Imports the pages of the bytes, if the runtime's options, the device and its driver allow it. The memory
/// must outlive the buffer.
[[nodiscard]] ImportedMemory import_memory(RuntimeState& state, std::span<const std::byte> bytes);
/// Begins the runtime's command buffer, submits it, waits.
[[nodiscard]] Result<void> begin_commands(RuntimeState& state);
[[nodiscard]] Result<void> submit_and_wait(RuntimeState& state);

/// Makes the pipeline cache, from the file if that holds a valid one for this device.
[[nodiscard]] Result<void> create_pipeline_cache(RuntimeState& state, const RuntimeOptions& options);
[[nodiscard]] Result<void> save_pipeline_cache(RuntimeState& state);

/// Reads the tuning file of the options or of VKATTN_TUNING.
void load_tuning(RuntimeState& state, const RuntimeOptions& options);

}  // namespace vkattn::detail
