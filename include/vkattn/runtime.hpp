/// @file
/// The convenience layer: buffers, submission, pipeline cache on disk, timestamps, and for programs without
/// Vulkan code of their own instance, device and queue. Link vkattn::runtime. Not thread-safe: one thread
/// uses a Runtime at a time.
#pragma once

#include <vkattn/attention_plan.hpp>
#include <vkattn/capabilities_file.hpp>
#include <vkattn/host_tensors.hpp>
#include <vkattn/shared.hpp>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace vkattn {

namespace detail {
struct RuntimeState;
struct BufferState;
}  // namespace detail

/// Which device to use, and what to keep on disk.
struct RuntimeOptions {
  /// A number of list_devices() or a part of a device's name, case ignored. Empty: the environment variable
  /// VKATTN_DEVICE, and where that is unset the best device: discrete, then integrated, then any other, then
  /// CPU.
  std::string device;
  /// Device extensions to do without if a driver is not to be trusted with them, such as
  /// VK_KHR_cooperative_matrix, or single features, such as shaderFloat16: names with commas between. The
  /// parts of an extension that later versions of Vulkan contain stay off too. Empty: the environment
  /// variable VKATTN_DISABLE_EXTENSIONS, or none if that is unset.
  std::string disabled_extensions;
  /// Enable VK_LAYER_KHRONOS_validation with synchronization validation; messages are collected. In a build
  /// with Vulkan headers older than VK_EXT_layer_settings (1.3.272), layers of 2024 and later see the
  /// accesses in shaders where VK_KHRONOS_VALIDATION_SYNCVAL_SHADER_ACCESSES_HEURISTIC=1 is in the
  /// environment.
  bool validation = false;
  /// With `validation`: the layer's checks inside of shaders as well, in place of synchronization validation.
  /// They find accesses beyond bound ranges and take long.
  bool gpu_assisted_validation = false;
  /// Keep compiled pipelines on disk between runs.
  bool pipeline_cache = true;
  /// Where; empty: VKATTN_CACHE_DIR, else XDG_CACHE_HOME/vkattn, else on Windows LOCALAPPDATA/vkattn/cache,
  /// else HOME/.cache/vkattn.
  std::filesystem::path cache_dir;
  /// What `vkattn tune` measured; empty: the environment variable VKATTN_TUNING, and where that is unset
  /// none. A file that is corrupt, of another device or no regular file is ignored; AttentionPlan::describe()
  /// says so.
  std::filesystem::path tuning_file;
  /// Try each path on matrix units once on a small problem, and use another kernel if its results are wrong.
  /// For attention on GPUs, also time it on a larger problem, and use the next kernel if that takes less than
  /// 1 / 1.5 of the time (some tens of milliseconds and the compilation of both, once); gradients and
  /// products are not timed. Outcomes are kept in the folder of the pipeline cache, unless `pipeline_cache`
  /// is off. false: only kept outcomes count.
  bool self_tests = true;
  /// Let the device read and write the arrays of Runtime::compute() where they lie, without copies
  /// (VK_EXT_external_memory_host), if it shares the host's memory: CPUs and integrated GPUs. Arrays below 16
  /// KiB, those that begin at no multiple of their alignment, and memory that the driver does not take are
  /// copied. If waiting for the device fails, arrays may still be written until the device is lost or the
  /// Runtime ends: keep them until then.
  bool import_host_memory = false;
  /// Most plans that Runtime::compute(desc, …) keeps, those used last; 0: none. A plan holds its pipelines.
  std::size_t kept_plans = 64;
  /// Most buffers of up to 16 MiB, 64 MiB in all, that are kept when they are given up; 0: all are freed.
  /// 4096 at most. Buffers may be given up on any thread.
  std::size_t kept_buffers = 32;
};

/// One device as found. Every supported feature counts as enabled, except those that
/// VKATTN_DISABLE_EXTENSIONS names.
struct DeviceInfo {
  std::uint32_t index = 0;    ///< in list_devices(), for RuntimeOptions::device
  Capabilities capabilities;  ///< with every feature that could be enabled
  std::string rejected;       ///< why the runtime cannot use it; empty where it can
};

/// parse_capabilities() of a file. Further errors: it cannot be read, or is no regular file.
[[nodiscard]] Result<std::vector<Capabilities>> read_capabilities(const std::filesystem::path& path);

/// A file of these devices, which parse_capabilities() reads. `vkattn devices --json` writes it, with more
/// about each device.
[[nodiscard]] std::string capabilities_text(std::span<const Capabilities> devices);

/// Device memory for one buffer, in host-visible memory where the device has no other. Given up by the
/// destructor: the device must not use it any more. Move-only; the Runtime must outlive it.
class Buffer {
 public:
  /// No buffer.
  Buffer() noexcept;
  /// What was moved from is no buffer. One that is assigned to must be idle.
  /// @{
  Buffer(Buffer&&) noexcept;
  Buffer& operator=(Buffer&&) noexcept;
  /// @}
  ~Buffer();

  /// Null where there is no buffer.
  [[nodiscard]] VkBuffer handle() const;
  /// In bytes, as asked for.
  [[nodiscard]] VkDeviceSize size() const;
  /// The whole buffer from `offset` on.
  [[nodiscard]] BufferRange range(VkDeviceSize offset = 0) const;

 private:
  friend class Runtime;
  explicit Buffer(std::unique_ptr<detail::BufferState> state);
  std::unique_ptr<detail::BufferState> state_;
};

/// An instance, a device and one compute queue of the library's own, or, with borrow(), those of a program
/// that brings a Vulkan device. Calls that submit, copy or wait use one command pool and one queue: one
/// thread at a time. Plans made with it may be shared like any others. Move-only.
class Runtime {
 public:
  /// Every device of this machine. An error where there is no Vulkan loader; an empty list where no driver.
  [[nodiscard]] static Result<std::vector<DeviceInfo>> list_devices();
  /// Errors: no loader, no device that fits (each with its reason), a layer or file that is missing.
  [[nodiscard]] static Result<Runtime> create(const RuntimeOptions& options = {});
  /// A runtime on a device of the application's: buffers, copies, the pipeline cache on disk, tuning and
  /// self-tests, with one of its queues, whose family has compute. Instance, device and queue outlive the
  /// Runtime. Calls that submit, copy or wait use the queue, and self-tests do so in make_plan(): no other
  /// thread uses it meanwhile. The options that choose a device or change what is enabled on it, and those of
  /// validation, must not be set: an error names the one that is. Objects of the runtime itself take the
  /// driver's host memory, whatever DeviceDesc::allocator says. Plans that are compiled may outlive the
  /// Runtime; others are compiled before it ends. Its buffers may not. What probe_row_layouts() finds is
  /// shown by device(), not by `device`.
  [[nodiscard]] static Result<Runtime> borrow(const Device& device, VkQueue queue, std::uint32_t queue_family,
                                              const RuntimeOptions& options = {});

  /// One that was moved from may be destroyed and assigned to; assigning ends the runtime that was there.
  /// @{
  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;
  /// @}
  /// Waits for the device (of a borrowed one, for what it has submitted itself) and saves the pipeline cache
  /// where it changed.
  ~Runtime();

  /// For plans and for calls of the core layer. Copies must not outlive the Runtime. If requirements() of a
  /// plan tells VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT (on CPUs), buffers that the program makes itself
  /// need that usage, and their memory VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT; buffers of create_buffer() have
  /// both.
  [[nodiscard]] const Device& device() const;
  /// The way to make plans on this device, from the descriptor of any operation (AttentionDesc, MergeDesc and
  /// so on): Desc::Plan::create with the runtime's pipeline cache and tuning, if the options have none. A
  /// kernel on matrix units runs its self-test at first use. If it fails, the plan is made without measured
  /// block sizes; if it has none, by the next kernel. Kernels of attention are timed then too, unless
  /// `options` or a tuning file ask for one. A layer plans its steps in this way, unless its options say how.
  template <class Desc>
  [[nodiscard]] Result<typename Desc::Plan> make_plan(const Desc& desc,
                                                      const typename Desc::Plan::Options& options = {}) const;
  /// Has the device show where it keeps the rows of matrices, for all block sizes of attention that need to
  /// know it (with TileSizes::columns, on matrix units). device() tells it from then on, so that
  /// tuning_candidates() lists these block sizes. make_plan() does the same for block sizes that its options
  /// or a tuning file ask for. Nothing runs without RuntimeOptions::self_tests. Errors: a lost device, a
  /// broken rule of the descriptor.
  [[nodiscard]] Result<void> probe_row_layouts(const AttentionDesc& desc) const;
  /// What was measured on this device; null where no file was given.
  [[nodiscard]] Shared<const Tuning> tuning() const;

  /// The device's number in list_devices(), whatever named it; of a borrowed device 0.
  [[nodiscard]] std::uint32_t device_index() const;
  /// Why this device, and why not the others, one line each.
  [[nodiscard]] const std::string& device_choice() const;
  /// For the options of plans; kept on disk unless RuntimeOptions::pipeline_cache is off.
  [[nodiscard]] VkPipelineCache pipeline_cache() const;
  /// The compute queue that all work goes to.
  [[nodiscard]] VkQueue queue() const;
  /// The family of queue().
  [[nodiscard]] std::uint32_t queue_family() const;
  /// Nanoseconds per timestamp tick; 0 where the queue has no timestamps.
  [[nodiscard]] double timestamp_period_ns() const;

  /// Bytes of the memory heap that create_buffer() takes from: its size, of which other programs may hold a
  /// part. Some drivers give more than that, from memory of the host.
  [[nodiscard]] std::uint64_t memory_bytes() const;
  /// A storage buffer that can also be copied from and to. `bytes` above the device's limits is refused by
  /// name. Nothing is said of its content. Those of up to 16 MiB are not freed at once: the last that were
  /// given up are kept for the next ones of the same size (RuntimeOptions::kept_buffers). On Linux, those of
  /// 256 KiB and more of a driver for CPUs lie in the program's own memory, in large pages where the system
  /// gives some. That needs VK_EXT_external_memory_host and a device that the runtime made, not one of the
  /// application's; the extension's name in RuntimeOptions::disabled_extensions switches it off, and
  /// import_host_memory with it.
  [[nodiscard]] Result<Buffer> create_buffer(VkDeviceSize bytes) const;
  /// What make_bindings() of the plan, of any kind, takes as its workspace; an empty buffer where the plan
  /// needs none.
  template <class Plan>
  [[nodiscard]] Result<Buffer> create_workspace(const Plan& plan) const {
    return create_workspace_of(plan.requirements().workspace_bytes);
  }
  /// Copies host bytes into the buffer; staged in small pieces where the memory is not host-visible.
  [[nodiscard]] Result<void> write(const Buffer& buffer, VkDeviceSize offset,
                                   std::span<const std::byte> bytes) const;
  /// Copies from the buffer to host memory.
  [[nodiscard]] Result<void> read(const Buffer& buffer, VkDeviceSize offset,
                                  std::span<std::byte> bytes) const;
  /// The buffer's memory where it is mapped, else empty. Only while the device does not use it.
  [[nodiscard]] std::span<std::byte> mapped(const Buffer& buffer) const;

  /// Submits what `record` records, `repeat` times one after another, and waits. Gives nanoseconds for each
  /// repetition, from timestamps where the queue has them, else from the host's clock around each submission.
  template <class Record>
  [[nodiscard]] Result<std::vector<double>> execute(Record&& record, std::uint32_t repeat = 1) const {
    return execute_commands(
        [](VkCommandBuffer commands, void* user) {
          (*static_cast<std::remove_reference_t<Record>*>(user))(commands);
        },
        const_cast<void*>(static_cast<const void*>(&record)), repeat);
  }
  /// Runs a plan once and waits; nanoseconds. Bindings of another plan are refused.
  [[nodiscard]] Result<double> execute(const AttentionPlan& plan, const Bindings& bindings) const;

  /// Attention on arrays in host memory, in one call: copies inputs to the device, runs the plan, waits,
  /// copies the outputs back. Inputs that share memory, such as V as a part of K, are copied once. An output
  /// is copied to the device only if the problem leaves some of it unchanged: between its rows, or beyond
  /// query lengths. An array that is smaller than its tensor is refused with both sizes.
  [[nodiscard]] Result<void> compute(const AttentionPlan& plan, const HostTensors& tensors) const;
  /// The same with make_plan(desc); plans of the last different descriptors are kept
  /// (RuntimeOptions::kept_plans).
  [[nodiscard]] Result<void> compute(const AttentionDesc& desc, const HostTensors& tensors) const;

  /// Validation messages collected so far (RuntimeOptions::validation, or a layer enabled from outside).
  [[nodiscard]] const std::vector<std::string>& validation_messages() const;
  /// Writes the pipeline cache now: to a temporary file that then takes the old one's place. What other
  /// programs have written since is kept. Errors: the file cannot be written, another program has been
  /// writing it for two seconds, or the device's own.
  [[nodiscard]] Result<void> save_pipeline_cache() const;

 private:
  friend struct detail::RuntimeState;
  [[nodiscard]] Result<Buffer> create_workspace_of(VkDeviceSize bytes) const;
  using RecordFunction = void (*)(VkCommandBuffer commands, void* user);
  [[nodiscard]] Result<std::vector<double>> execute_commands(RecordFunction record, void* user,
                                                             std::uint32_t repeat) const;
  explicit Runtime(std::unique_ptr<detail::RuntimeState> state);
  std::unique_ptr<detail::RuntimeState> state_;
};

}  // namespace vkattn
