// The runtime: device creation, execution, timing.
#include <vkattn/runtime.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "runtime/record_only.hpp"
#include "runtime/runtime_state.hpp"
#include "vulkan/device_state.hpp"
#include "vulkan/functions.hpp"

namespace vkattn {

namespace detail {

namespace {

std::string option_or_variable(const std::string& option, const char* name) {
  if (!option.empty()) return option;
  const char* variable = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read once, at start-up
  return variable != nullptr ? variable : "";
}

std::string wanted_device(const RuntimeOptions& options) {
  return option_or_variable(options.device, "VKATTN_DEVICE");
}

std::string unwanted_extensions(const RuntimeOptions& options) {
  return option_or_variable(options.disabled_extensions, "VKATTN_DISABLE_EXTENSIONS");
}

Result<void> create_device(RuntimeState& state, const PhysicalDevice& physical) {
  const RuntimeInstanceFunctions& vk = state.instance->vk;
  const float priority = 1.0F;
  VkDeviceQueueCreateInfo queue_info{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue_info.queueFamilyIndex = physical.queue_family;
  queue_info.queueCount = 1;
  queue_info.pQueuePriorities = &priority;
  VkDeviceCreateInfo info = physical.features->info;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue_info;
  if (VkResult result =
          null_on_failure(vk.vkCreateDevice(physical.handle, &info, nullptr, &state.handle), state.handle);
      result != VK_SUCCESS) {
    return vulkan_error(result, "vkCreateDevice");
  }
  if (Result<void> s = load_runtime_device(vk, state.handle, state.vk); !s) return s;
  state.vk.vkGetDeviceQueue(state.handle, physical.queue_family, 0, &state.queue);
  return {};
}

// Makes the objects of submissions at the first one: a driver that only compiles (RADV without hardware)
// cannot make them.
VkResult ensure_objects(RuntimeState& state) {
  VkResult result = VK_SUCCESS;
  if (state.command_pool == VK_NULL_HANDLE) {
    VkCommandPoolCreateInfo info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    info.queueFamilyIndex = state.queue_family;
    result = null_on_failure(state.vk.vkCreateCommandPool(state.handle, &info, nullptr, &state.command_pool),
                             state.command_pool);
  }
  if (result == VK_SUCCESS && state.commands == VK_NULL_HANDLE) {
    VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    info.commandPool = state.command_pool;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    result = null_on_failure(state.vk.vkAllocateCommandBuffers(state.handle, &info, &state.commands),
                             state.commands);
  }
  if (result == VK_SUCCESS && state.fence == VK_NULL_HANDLE) {
    const VkFenceCreateInfo info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    result = null_on_failure(state.vk.vkCreateFence(state.handle, &info, nullptr, &state.fence), state.fence);
  }
  if (result == VK_SUCCESS && state.queries == VK_NULL_HANDLE && state.timestamp_mask != 0) {
    VkQueryPoolCreateInfo info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = 2;
    result = null_on_failure(state.vk.vkCreateQueryPool(state.handle, &info, nullptr, &state.queries),
                             state.queries);
  }
  return result;
}

// What the physical device tells: its memory, and the timestamps of the family.
void read_properties(RuntimeState& state, const PhysicalDevice& physical) {
  state.physical_device = physical.handle;
  state.queue_family = physical.queue_family;
  state.instance->vk.vkGetPhysicalDeviceMemoryProperties(physical.handle, &state.memory);
  VkPhysicalDeviceProperties properties;
  state.instance->vk.vkGetPhysicalDeviceProperties(physical.handle, &properties);
  // On a CPU the time around a submission is as good, and always there.
  if (physical.timestamp_bits == 0 || properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) return;
  state.timestamp_period_ns = static_cast<double>(properties.limits.timestampPeriod);
  state.timestamp_mask =
      physical.timestamp_bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << physical.timestamp_bits) - 1;
}

// What a runtime keeps, on its device.
Result<void> take_options(RuntimeState& state, const RuntimeOptions& options) {
  if (Result<void> status = create_pipeline_cache(state, options); !status) return status;
  state.run_self_tests = options.self_tests;
  state.most_kept_plans = options.kept_plans;
  state.spare_buffers.set_most(options.kept_buffers);
  // On a CPU the kernel without matrices comes first anyway, and a problem takes long.
  state.times_kernels = !state.device->capabilities().is_cpu();
  load_tuning(state, options);
  return {};
}

Result<std::unique_ptr<RuntimeState>> make_runtime(const RuntimeOptions& options) {
  auto state = std::make_unique<RuntimeState>();
  auto instance = create_instance(options);
  if (!instance) return instance.error();
  state->instance = *std::move(instance);
  auto devices =
      enumerate_devices(*state->instance, unwanted_extensions(options), options.import_host_memory);
  if (!devices) return devices.error();
  auto index = choose_device(*devices, wanted_device(options), state->choice);
  if (!index) return index.error();
  const PhysicalDevice& physical = (*devices)[*index];
  state->device_index = physical.info.index;
  if (Result<void> s = create_device(*state, physical); !s) return s.error();
  read_properties(*state, physical);
  const VkDeviceCreateInfo& enabled = physical.features->info;
  const Capabilities& capabilities = physical.info.capabilities;
  DeviceDesc borrowed;
  borrowed.instance = state->instance->handle;
  borrowed.physical_device = physical.handle;
  borrowed.device = state->handle;
  borrowed.get_instance_proc_addr = state->instance->loader.vkGetInstanceProcAddr;
  borrowed.api_version = state->instance->api_version;
  borrowed.enabled_extensions = {enabled.ppEnabledExtensionNames, enabled.enabledExtensionCount};
  borrowed.enabled_features = enabled.pNext;
  // create_buffer() makes every buffer with the usage and the memory for it.
  borrowed.buffer_addresses = capabilities.buffer_device_address && capabilities.is_cpu();
  auto device = Device::borrow(borrowed);
  if (!device) return device.error();
  state->device = *std::move(device);
  const bool imports =
      physical.imports_host_memory && state->vk.vkGetMemoryHostPointerPropertiesEXT != nullptr;
  state->imports_host_memory = imports && options.import_host_memory;
  state->has_large_pages = imports && capabilities.is_cpu() && LargePages::can_be_asked_for();
  if (Result<void> status = take_options(*state, options); !status) return status.error();
  return state;
}

// Options that a device which somebody else has made cannot obey.
Result<void> check_options_of_borrowed(const RuntimeOptions& options) {
  const std::pair<bool, const char*> given[] = {{!options.device.empty(), "device"},
                                                {!options.disabled_extensions.empty(), "disabled_extensions"},
                                                {options.validation, "validation"},
                                                {options.gpu_assisted_validation, "gpu_assisted_validation"},
                                                {options.import_host_memory, "import_host_memory"}};
  for (const auto& [is_given, name] : given) {
    if (is_given)
      return invalid("RuntimeOptions::", name, " is set, and the device was made by the application; leave ",
                     "it unset");
  }
  return {};
}

// The family, if it has compute.
Result<PhysicalDevice> family_of(const RuntimeState& state, VkPhysicalDevice handle, std::uint32_t family) {
  const RuntimeInstanceFunctions& vk = state.instance->vk;
  std::uint32_t count = 0;
  vk.vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vk.vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, families.data());
  if (family >= families.size())
    return invalid("the queue family is ", family, ", and the device has ", families.size());
  if ((families[family].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0)
    return invalid("queue family ", family, " has no compute");
  PhysicalDevice physical;
  physical.handle = handle;
  physical.queue_family = family;
  physical.timestamp_bits = families[family].timestampValidBits;
  return physical;
}

Result<std::unique_ptr<RuntimeState>> borrow_runtime(const Device& device, VkQueue queue,
                                                     std::uint32_t family, const RuntimeOptions& options) {
  if (Result<void> s = check_options_of_borrowed(options); !s) return s.error();
  if (queue == VK_NULL_HANDLE) return invalid("the queue is null");
  const DeviceState& borrowed = device.state();
  auto state = std::make_unique<RuntimeState>();
  state->is_borrowed = true;
  state->instance = std::make_unique<Instance>();
  Instance& instance = *state->instance;
  instance.is_borrowed = true;
  instance.handle = borrowed.instance;
  instance.loader.vkGetInstanceProcAddr = borrowed.get_instance_proc_addr;
  if (Result<void> s = load_runtime_instance(instance.loader, instance.handle, instance.vk); !s)
    return s.error();
  const auto physical = family_of(*state, borrowed.physical_device, family);
  if (!physical) return physical.error();
  if (Result<void> s = load_runtime_device(instance.vk, borrowed.device, state->vk); !s) return s.error();
  state->handle = borrowed.device;
  state->queue = queue;
  read_properties(*state, *physical);
  state->choice = "the application's device: " + device.capabilities().device_name + "\n";
  state->device = device;
  if (Result<void> status = take_options(*state, options); !status) return status.error();
  return state;
}

// Waits for what was submitted. If memory lacks for one way of waiting, there may be some for the other. An
// application's device may have further queues, which its other threads use: vkDeviceWaitIdle is not for it.
VkResult wait_for_submission(RuntimeState& state) {
  const VkResult result = state.vk.vkWaitForFences(state.handle, 1, &state.fence, VK_TRUE, ~std::uint64_t{0});
  if (result >= VK_SUCCESS || result == VK_ERROR_DEVICE_LOST) return result;
  return state.is_borrowed ? state.vk.vkQueueWaitIdle(state.queue) : state.vk.vkDeviceWaitIdle(state.handle);
}

}  // namespace

RuntimeState::~RuntimeState() {
  if (handle == VK_NULL_HANDLE) return;
  // Without commands nothing was submitted. An application's queues are its own to wait for.
  if (!lost && commands != VK_NULL_HANDLE && !is_borrowed) (void)vk.vkDeviceWaitIdle(handle);
  if (!lost && is_submitted && is_borrowed) (void)wait_for_submission(*this);
  staging.reset();
  spare_buffers.clear();
  kept_plans.clear();
  // If the driver lacks a function, nothing was made with it.
  pipeline_cache.reset();
  if (queries != VK_NULL_HANDLE) vk.vkDestroyQueryPool(handle, queries, nullptr);
  if (fence != VK_NULL_HANDLE) vk.vkDestroyFence(handle, fence, nullptr);
  if (command_pool != VK_NULL_HANDLE) vk.vkDestroyCommandPool(handle, command_pool, nullptr);
  former_devices.clear();
  device.reset();  // and with it the memory that bindings had parameters in
  if (!is_borrowed && vk.vkDestroyDevice != nullptr) vk.vkDestroyDevice(handle, nullptr);
}

Error runtime_error(RuntimeState& state, Error error) {
  if (error.code == ErrorCode::kDeviceLost) state.lost = true;
  return error;
}

Error runtime_error(RuntimeState& state, VkResult result, const char* call) {
  return runtime_error(state, vulkan_error(result, call));
}

Result<void> check_not_lost(const RuntimeState& state) {
  if (state.lost) return vulkan_error(VK_ERROR_DEVICE_LOST, "an earlier submission");
  return {};
}

namespace {

// Waits for the submission, which must end before its buffers do.
Result<void> wait(RuntimeState& state) {
  if (!state.is_submitted) return {};
  if (const VkResult result = wait_for_submission(state); result != VK_SUCCESS) {
    state.spare_buffers.stop();
    return runtime_error(state, result, "waiting for the device");
  }
  state.is_submitted = false;
  state.is_fence_signalled = true;
  return {};
}

VkResult end_commands(RuntimeState& state) {
  state.is_recording = false;
  return state.vk.vkEndCommandBuffer(state.commands);
}

}  // namespace

Result<void> begin_commands(RuntimeState& state) {
  if (Result<void> s = check_not_lost(state); !s) return s;
  if (VkResult result = ensure_objects(state); result != VK_SUCCESS) {
    return runtime_error(state, result, "creating the command buffer");
  }
  if (Result<void> s = wait(state); !s) return s;
  // A recording function may have thrown; a command buffer that is not ended cannot be begun.
  if (state.is_recording) (void)end_commands(state);
  VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  if (VkResult result = state.vk.vkBeginCommandBuffer(state.commands, &info); result != VK_SUCCESS) {
    return runtime_error(state, result, "vkBeginCommandBuffer");
  }
  state.is_recording = true;
  return {};
}

Result<void> submit_and_wait(RuntimeState& state) {
  // Makes shader writes and copies visible to the host and to what is submitted next, which waits for the
  // fence.
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
  state.vk.vkCmdPipelineBarrier(state.commands,
                                VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                                VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1,
                                &barrier, 0, nullptr, 0, nullptr);
  if (VkResult result = end_commands(state); result != VK_SUCCESS) {
    return runtime_error(state, result, "vkEndCommandBuffer");
  }
  if (state.is_fence_signalled) {
    if (VkResult result = state.vk.vkResetFences(state.handle, 1, &state.fence); result != VK_SUCCESS) {
      return runtime_error(state, result, "vkResetFences");
    }
    state.is_fence_signalled = false;
  }
  VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &state.commands;
  if (VkResult result = state.vk.vkQueueSubmit(state.queue, 1, &submit, state.fence); result != VK_SUCCESS) {
    return runtime_error(state, result, "vkQueueSubmit");
  }
  state.is_submitted = true;
  return wait(state);
}

}  // namespace detail

Runtime::Runtime(std::unique_ptr<detail::RuntimeState> state) : state_(std::move(state)) {}
Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&& other) noexcept {
  if (this == &other) return *this;
  if (state_) (void)save_pipeline_cache();
  state_ = std::move(other.state_);
  return *this;
}
Runtime::~Runtime() {
  if (state_) (void)save_pipeline_cache();  // a cache that cannot be kept is no failure
}

Result<std::vector<DeviceInfo>> Runtime::list_devices() {
  return detail::without_exceptions([]() -> Result<std::vector<DeviceInfo>> {
    auto instance = detail::create_instance({});
    if (!instance && instance.error().vk_result == VK_ERROR_INCOMPATIBLE_DRIVER &&
        instance.error().code == ErrorCode::kNotFound) {
      return std::vector<DeviceInfo>{};
    }
    if (!instance) return instance.error();
    auto devices = detail::enumerate_devices(**instance, detail::unwanted_extensions({}), false);
    if (!devices) return devices.error();
    std::vector<DeviceInfo> infos;
    for (detail::PhysicalDevice& device : *devices) infos.push_back(std::move(device.info));
    return infos;
  });
}

Result<Runtime> Runtime::create(const RuntimeOptions& options) {
  return detail::without_exceptions([&]() -> Result<Runtime> {
    auto state = detail::make_runtime(options);
    if (!state) return state.error();
    return Runtime(*std::move(state));
  });
}

Result<Runtime> Runtime::borrow(const Device& device, VkQueue queue, std::uint32_t queue_family,
                                const RuntimeOptions& options) {
  return detail::without_exceptions([&]() -> Result<Runtime> {
    auto state = detail::borrow_runtime(device, queue, queue_family, options);
    if (!state) return state.error();
    return Runtime(*std::move(state));
  });
}

Result<Buffer> Runtime::create_workspace_of(VkDeviceSize bytes) const {
  if (bytes == 0) return Buffer();
  return create_buffer(bytes);
}

Shared<const Tuning> Runtime::tuning() const {
  return state_->tuning;
}

const Device& Runtime::device() const {
  return *state_->device;
}
std::uint32_t Runtime::device_index() const {
  return state_->device_index;
}
const std::string& Runtime::device_choice() const {
  return state_->choice;
}
VkPipelineCache Runtime::pipeline_cache() const {
  return state_->pipeline_cache->handle();
}
VkQueue Runtime::queue() const {
  return state_->queue;
}
std::uint32_t Runtime::queue_family() const {
  return state_->queue_family;
}
double Runtime::timestamp_period_ns() const {
  return state_->timestamp_period_ns;
}
const std::vector<std::string>& Runtime::validation_messages() const {
  return state_->instance->messages;
}

Result<void> Runtime::save_pipeline_cache() const {
  return detail::without_exceptions([&] { return detail::save_pipeline_cache(*state_); });
}

Result<std::vector<double>> Runtime::execute_commands(RecordFunction record, void* user,
                                                      std::uint32_t repeat) const {
  return detail::without_exceptions([&]() -> Result<std::vector<double>> {
    detail::RuntimeState& state = *state_;
    const bool timestamps = state.timestamp_mask != 0;
    std::vector<double> times;
    for (std::uint32_t i = 0; i < repeat; ++i) {
      if (Result<void> status = detail::begin_commands(state); !status) return status.error();
      if (timestamps) {
        state.vk.vkCmdResetQueryPool(state.commands, state.queries, 0, 2);
        state.vk.vkCmdWriteTimestamp(state.commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, state.queries, 0);
      }
      record(state.commands, user);
      if (timestamps) {
        state.vk.vkCmdWriteTimestamp(state.commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, state.queries, 1);
      }
      const auto start = std::chrono::steady_clock::now();
      if (Result<void> status = detail::submit_and_wait(state); !status) return status.error();
      const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
      if (!timestamps) {
        times.push_back(elapsed.count());
        continue;
      }
      std::uint64_t ticks[2] = {};
      if (VkResult result = state.vk.vkGetQueryPoolResults(state.handle, state.queries, 0, 2, sizeof(ticks),
                                                           ticks, sizeof(std::uint64_t),
                                                           VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
          result != VK_SUCCESS) {
        return detail::runtime_error(state, result, "vkGetQueryPoolResults");
      }
      times.push_back(static_cast<double>((ticks[1] - ticks[0]) & state.timestamp_mask) *
                      state.timestamp_period_ns);
    }
    return times;
  });
}

Result<void> detail::record_only(const Runtime& runtime, const std::function<void(VkCommandBuffer)>& record) {
  return without_exceptions([&]() -> Result<void> {
    RuntimeState& state = RuntimeState::of(runtime);
    if (Result<void> status = begin_commands(state); !status) return status;
    record(state.commands);
    if (VkResult result = end_commands(state); result != VK_SUCCESS) {
      return runtime_error(state, result, "vkEndCommandBuffer");
    }
    return {};  // the next begin throws away what was recorded
  });
}

Result<double> Runtime::execute(const AttentionPlan& plan, const Bindings& bindings) const {
  return detail::without_exceptions([&]() -> Result<double> {
    if (!plan.has_made(bindings)) {
      return detail::invalid("these bindings were made by another plan");
    }
    auto record = [&](VkCommandBuffer commands) { plan.record(commands, bindings); };
    auto times = execute(record, 1);
    if (!times) return times.error();
    return times->front();
  });
}

}  // namespace vkattn
