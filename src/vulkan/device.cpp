// Device: borrowing a VkDevice, and what it tells of itself.
#include <vkattn/device.hpp>
#include <vkattn/device_features.hpp>

#include <algorithm>

#include "common/device_members.hpp"
#include "common/message.hpp"
#include "vulkan/debug.hpp"
#include "vulkan/device_feature_table.hpp"
#include "vulkan/device_state.hpp"
#include "vulkan/shared_pipelines.hpp"

namespace vkattn {

namespace {

// The capabilities of the device with everything enabled.
Result<Capabilities> supported(const DeviceDesc& desc) {
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  EnableMemory memory;
  const Result<void> added = enable_wanted(
      {desc.instance, desc.physical_device, desc.get_instance_proc_addr, desc.api_version, {}}, info, memory);
  if (!added) return added.error();
  return detail::read_capabilities({desc.instance,
                                    desc.physical_device,
                                    desc.get_instance_proc_addr,
                                    desc.api_version,
                                    {info.ppEnabledExtensionNames, info.enabledExtensionCount},
                                    info.pNext,
                                    nullptr});
}

Result<Shared<const detail::DeviceState>> make_state(const DeviceDesc& desc) {
  if (Result<void> s = detail::check_members(desc, "DeviceDesc"); !s) return s.error();
  for (std::size_t i = 0; i < desc.enabled_extensions.size(); ++i) {
    if (desc.enabled_extensions[i] != nullptr) continue;
    return detail::invalid("DeviceDesc::enabled_extensions[", i, "] is null");
  }
  auto capabilities = detail::read_capabilities(
      {desc.instance, desc.physical_device, desc.get_instance_proc_addr, desc.api_version,
       desc.enabled_extensions, desc.enabled_features, desc.enabled_core_features});
  if (!capabilities) return capabilities.error();
  auto instance_functions = detail::load_instance_functions(desc.instance, desc.get_instance_proc_addr);
  if (!instance_functions) return instance_functions.error();
  auto functions = detail::load_device_functions(desc.device, instance_functions->vkGetDeviceProcAddr);
  if (!functions) return functions.error();
  detail::load_debug_functions(desc.instance, desc.get_instance_proc_addr, *functions);
  auto state = std::make_shared<detail::DeviceState>();
  state->instance = desc.instance;
  state->physical_device = desc.physical_device;
  state->device = desc.device;
  state->get_instance_proc_addr = desc.get_instance_proc_addr;
  state->vk = *functions;
  state->instance_vk = *instance_functions;
  state->allocator = detail::Allocator(desc.allocator);
  state->log = desc.log;
  state->capabilities = *std::move(capabilities);
  state->capabilities.row_layouts.assign(desc.row_layouts.begin(), desc.row_layouts.end());
  auto all = supported(desc);
  if (!all) return all.error();
  state->supported = *std::move(all);
  detail::ParameterMemory::DeviceHandles handles{desc.device, *functions, state->allocator};
  handles.has_addresses = desc.buffer_addresses;
  instance_functions->vkGetPhysicalDeviceMemoryProperties(desc.physical_device, &handles.memory);
  handles.alignment = std::max<VkDeviceSize>(state->capabilities.min_storage_offset_alignment, 64);
  state->parameters = std::make_shared<detail::ParameterMemory>(
      handles, detail::ParameterMemory::CallersMemory{desc.parameter_buffer, desc.parameter_offset,
                                                      desc.parameter_size,
                                                      static_cast<std::byte*>(desc.parameter_data)});
  state->pipelines = std::make_shared<detail::SharedPipelines>();
  if (state->vk.vkGetBufferDeviceAddress == nullptr) state->capabilities.buffer_device_address = false;
  if (state->vk.vkCmdPushDescriptorSetKHR == nullptr) state->capabilities.push_descriptors = false;
  if (state->vk.vkGetPipelineExecutablePropertiesKHR == nullptr)
    state->capabilities.pipeline_statistics = false;
  if (desc.buffer_addresses && !state->capabilities.buffer_device_address) {
    return detail::invalid(
        "DeviceDesc::buffer_addresses is set, but bufferDeviceAddress is not enabled on the device: ",
        "enable it, with Vulkan 1.2 or later, or leave buffer_addresses false");
  }
  state->capabilities.buffer_addresses = desc.buffer_addresses;
  return Shared<const detail::DeviceState>(std::move(state));
}

void add_name(std::string& list, std::string_view name) {
  list.append(list.empty() ? "" : ", ").append(name);
}

}  // namespace

Result<Device> Device::borrow(const DeviceDesc& desc) {
  return detail::without_exceptions([&]() -> Result<Device> {
    auto state = make_state(desc);
    if (!state) return state.error();
    const Device device(*std::move(state));
    detail::log_description(desc.log, device);
    return device;
  });
}

std::string Device::describe() const {
  const Capabilities& c = state_->capabilities;
  std::string enabled, missing, unsupported;
  for (const detail::DeviceFeatureRow& row : detail::device_feature_table()) {
    if (c.*row.member) {
      add_name(enabled, row.name);
    } else if (state_->supported.*row.member) {
      missing += detail::message("not enabled: ", row.name, ": ", row.gain, "\n");
    } else {
      add_name(unsupported, row.name);
    }
  }
  return detail::message("device: ", c.device_name, ", Vulkan ", VK_API_VERSION_MAJOR(c.api_version), ".",
                         VK_API_VERSION_MINOR(c.api_version), ", driver ", c.driver_name, " ", c.driver_info,
                         "\n", "enabled: ", enabled.empty() ? "nothing" : enabled, "\n", missing,
                         "not supported: ", unsupported.empty() ? "nothing" : unsupported, "\n");
}

const Capabilities& Device::capabilities() const {
  return state_->capabilities;
}

VkDevice Device::handle() const {
  return state_->device;
}

Device detail::DeviceState::seen_through(Capabilities other) const {
  auto state = std::make_shared<DeviceState>(*this);
  state->capabilities = std::move(other);
  return Device(Shared<const DeviceState>(std::move(state)));
}

}  // namespace vkattn
