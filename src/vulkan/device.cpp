// Device: borrowing a VkDevice.
#include <vkattn/device.hpp>

#include <algorithm>

#include "common/message.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn {

namespace {

Result<std::shared_ptr<const detail::DeviceState>> make_state(const DeviceDesc& desc) {
  if (desc.instance == VK_NULL_HANDLE || desc.physical_device == VK_NULL_HANDLE ||
      desc.device == VK_NULL_HANDLE || desc.get_instance_proc_addr == nullptr) {
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                 "DeviceDesc needs instance, physical_device, device and get_instance_proc_addr"};
  }
  auto capabilities = detail::read_capabilities(
      {desc.instance, desc.physical_device, desc.get_instance_proc_addr, desc.api_version,
       desc.enabled_extensions, desc.enabled_features, desc.enabled_core_features});
  if (!capabilities) return capabilities.error();
  auto instance_functions = detail::load_instance_functions(desc.instance, desc.get_instance_proc_addr);
  if (!instance_functions) return instance_functions.error();
  auto functions = detail::load_device_functions(desc.device, instance_functions->vkGetDeviceProcAddr);
  if (!functions) return functions.error();
  auto state = std::make_shared<detail::DeviceState>(detail::DeviceState{
      desc.instance, desc.physical_device, desc.device, *functions, *std::move(capabilities), nullptr});
  detail::ParameterMemory::DeviceHandles handles{desc.device, *functions, {}, 256};
  instance_functions->vkGetPhysicalDeviceMemoryProperties(desc.physical_device, &handles.memory);
  handles.alignment = std::max<VkDeviceSize>(state->capabilities.min_storage_offset_alignment, 64);
  state->parameters = std::make_shared<detail::ParameterMemory>(handles);
  if (state->vk.vkCmdPushDescriptorSetKHR == nullptr) state->capabilities.push_descriptors = false;
  if (state->vk.vkGetPipelineExecutablePropertiesKHR == nullptr)
    state->capabilities.pipeline_statistics = false;
  return std::shared_ptr<const detail::DeviceState>(std::move(state));
}

}  // namespace

Result<Device> Device::borrow(const DeviceDesc& desc) {
  return detail::without_exceptions([&]() -> Result<Device> {
    auto state = make_state(desc);
    if (!state) return state.error();
    return Device(*std::move(state));
  });
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
  return Device(std::shared_ptr<const DeviceState>(std::move(state)));
}

}  // namespace vkattn
