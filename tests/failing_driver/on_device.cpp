// A borrowed device: see on_device.hpp.
#include "failing_driver/on_device.hpp"

#include <array>

#include "failing_driver/host_memory.hpp"
#include "failing_driver/layer.hpp"

namespace vkattn::tests {

namespace {

constexpr std::array<const char*, 2> kExtensions{VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME,
                                                 VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME};

constexpr std::uintptr_t kPool = 0x50000;

}  // namespace

PhysicalDeviceDesc physical_device() {
  return {reinterpret_cast<VkInstance>(std::uintptr_t{0x30000}),
          reinterpret_cast<VkPhysicalDevice>(std::uintptr_t{1}),
          layer_get_instance_proc_addr,
          VK_API_VERSION_1_3,
          {}};
}

Result<Device> borrow_device() {
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR};
  executables.pipelineExecutableInfo = VK_TRUE;
  VkPhysicalDevice16BitStorageFeatures storage{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
                                               &executables};
  storage.storageBuffer16BitAccess = VK_TRUE;
  DeviceDesc desc;
  desc.instance = physical_device().instance;
  desc.physical_device = physical_device().physical_device;
  desc.device = reinterpret_cast<VkDevice>(std::uintptr_t{0x40000});
  desc.get_instance_proc_addr = layer_get_instance_proc_addr;
  desc.api_version = VK_API_VERSION_1_3;
  desc.enabled_extensions = kExtensions;
  desc.enabled_features = &storage;
  desc.log = {
      [](void* /*user*/, LogLevel /*level*/, const char* /*text*/) {}, nullptr, LogLevel::kDetail, {}};
  return Device::borrow(desc);
}

OwnPool::OwnPool() {
  const UncountedMemory ours;
  the_layer().created("VkDescriptorPool", kPool);
}

OwnPool::~OwnPool() {
  const UncountedMemory ours;
  (void)the_layer().destroyed("VkDescriptorPool", kPool);
}

VkDescriptorPool OwnPool::get() const {
  return reinterpret_cast<VkDescriptorPool>(kPool);
}

}  // namespace vkattn::tests
