// Finds devices, enables features on each, and chooses one.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include "runtime/runtime_state.hpp"
#include "vulkan/buffer_usage.hpp"
#include "vulkan/device_feature_table.hpp"
#include "vulkan/device_state.hpp"
#include "vulkan/functions.hpp"

namespace vkattn::detail {

namespace {

// The names that can be disabled: everything that is enabled, except extensions that only tell properties.
std::vector<std::string_view> names_to_disable() {
  std::vector<std::string_view> names;
  const auto add = [&](std::string_view name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const DeviceFeatureRow& row : device_feature_table()) {
    if (row.extension != nullptr) add(row.extension);
  }
  for (const DeviceFeatureRow& row : device_feature_table()) add(row.name);
  for (const std::string_view name : extensions_of_newer_headers()) add(name);
  for (const DeviceExtensionRow& row : device_extension_table()) {
    if (row.may_be_disabled) add(row.extension);
  }
  add(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  return names;
}

// Whether buffers of imported pages are possible, without memory of their own for each.
bool can_import_buffers(const Instance& instance, VkPhysicalDevice device, bool have_addresses) {
  constexpr auto kKind = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  const VkPhysicalDeviceExternalBufferInfo buffers{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
                                                   nullptr, 0, buffer_usage(have_addresses), kKind};
  VkExternalBufferProperties told{VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
  instance.vk.vkGetPhysicalDeviceExternalBufferProperties(device, &buffers, &told);
  const VkExternalMemoryProperties& memory = told.externalMemoryProperties;
  return (memory.externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT) != 0 &&
         (memory.externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT) == 0 &&
         (memory.compatibleHandleTypes & kKind) != 0;
}

// Whether the device can import any page of the host's. A driver that wants larger pages would be given
// memory that is nobody's.
Result<bool> can_import_host_memory(const Instance& instance, const PhysicalDevice& device,
                                    const std::vector<std::string>& disabled) {
  constexpr std::string_view kName = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
  const DeviceType type = device.info.capabilities.device_type;
  if (type != DeviceType::kCpu && type != DeviceType::kIntegratedGpu) return false;
  if (std::find(disabled.begin(), disabled.end(), kName) != disabled.end()) return false;
  const auto extensions =
      read_list("vkEnumerateDeviceExtensionProperties", VkExtensionProperties{}, [&](auto... out) {
        return instance.vk.vkEnumerateDeviceExtensionProperties(device.handle, nullptr, out...);
      });
  if (!extensions) return extensions.error();
  if (!has_extension(*extensions, kName)) return false;
  if (!can_import_buffers(instance, device.handle, false)) return false;
  // Only buffers of CPUs have addresses, and whether they have is not known yet.
  if (type == DeviceType::kCpu && !can_import_buffers(instance, device.handle, true)) return false;
  VkPhysicalDeviceExternalMemoryHostPropertiesEXT host{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &host};
  instance.vk.vkGetPhysicalDeviceProperties2(device.handle, &properties);
  return host.minImportedHostPointerAlignment != 0 && host.minImportedHostPointerAlignment <= kSmallestPage;
}

// Finds the compute queue family to use: the one with the most timestamp bits.
bool find_queue_family(const Instance& instance, PhysicalDevice& device) {
  std::uint32_t count = 0;
  instance.vk.vkGetPhysicalDeviceQueueFamilyProperties(device.handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  instance.vk.vkGetPhysicalDeviceQueueFamilyProperties(device.handle, &count, families.data());
  bool found = false;
  for (std::uint32_t i = 0; i < count; ++i) {
    if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) continue;
    if (found && families[i].timestampValidBits <= device.timestamp_bits) continue;
    device.queue_family = i;
    device.timestamp_bits = families[i].timestampValidBits;
    found = true;
  }
  return found;
}

// The names of a list with commas between. Names that cannot be disabled are an error.
Result<std::vector<std::string>> disabled_extensions(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
    const std::vector<std::string_view> all = names_to_disable();
    if (std::find(all.begin(), all.end(), names.back()) != all.end()) continue;
    std::string known;
    for (const std::string_view name : all) known += message(known.empty() ? "" : ", ", name);
    return invalid("'", names.back(), "' is no extension or feature that can be disabled; those are ", known);
  }
  return names;
}

// Fails only if memory runs out, which says nothing of the device.
Result<PhysicalDevice> inspect_device(const Instance& instance, VkPhysicalDevice handle, std::uint32_t index,
                                      const std::vector<std::string>& disabled, bool imports_arrays) {
  PhysicalDevice device;
  device.handle = handle;
  device.info.index = index;
  VkPhysicalDeviceProperties properties;
  instance.vk.vkGetPhysicalDeviceProperties(handle, &properties);
  device.info.capabilities.device_name = properties.deviceName;
  device.info.capabilities.device_type = static_cast<DeviceType>(properties.deviceType);
  device.info.capabilities.api_version = properties.apiVersion;
  const std::uint32_t version = std::min(instance.api_version, properties.apiVersion);
  if (version < VK_API_VERSION_1_1) {
    device.info.rejected = "offers Vulkan 1.0; 1.1 is needed";
    return device;
  }
  device.features = std::make_unique<DeviceFeatures>();
  VkDeviceCreateInfo& info = device.features->info;
  static constexpr const char* kImport = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
  const bool is_cpu = device.info.capabilities.device_type == DeviceType::kCpu;
  if (imports_arrays || (is_cpu && LargePages::can_be_asked_for())) {
    const auto imports = can_import_host_memory(instance, device, disabled);
    if (!imports && imports.error().code == ErrorCode::kOutOfMemory) return imports.error();
    device.imports_host_memory = imports && *imports;
  }
  if (device.imports_host_memory) {
    info.enabledExtensionCount = 1;
    info.ppEnabledExtensionNames = &kImport;
  }
  const std::vector<std::string_view> without(disabled.begin(), disabled.end());
  const Result<void> enabled = enable_wanted(
      {instance.handle, handle, instance.loader.vkGetInstanceProcAddr, instance.api_version, without}, info,
      device.features->memory);
  if (!enabled) {
    if (enabled.error().code == ErrorCode::kOutOfMemory) return enabled.error();
    device.info.rejected = enabled.error().message;
    return device;
  }
  auto capabilities = read_capabilities({instance.handle,
                                         handle,
                                         instance.loader.vkGetInstanceProcAddr,
                                         instance.api_version,
                                         {info.ppEnabledExtensionNames, info.enabledExtensionCount},
                                         info.pNext,
                                         nullptr});
  if (!capabilities) {
    if (capabilities.error().code == ErrorCode::kOutOfMemory) return capabilities.error();
    device.info.rejected = capabilities.error().message;
    return device;
  }
  device.info.capabilities = *std::move(capabilities);
  device.info.capabilities.api_version = properties.apiVersion;
  if (!find_queue_family(instance, device)) device.info.rejected = "has no compute queue";
  return device;
}

int rank(DeviceType type) {
  switch (type) {
    case DeviceType::kDiscreteGpu:
      return 0;
    case DeviceType::kIntegratedGpu:
      return 1;
    case DeviceType::kVirtualGpu:
      return 2;
    case DeviceType::kCpu:
      return 4;
    default:
      return 3;
  }
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

bool matches(const PhysicalDevice& device, const std::string& wanted) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  if (error == std::errc() && end == wanted.data() + wanted.size()) return number == device.info.index;
  return lower(device.info.capabilities.device_name).find(lower(wanted)) != std::string::npos;
}

std::string device_list(const std::vector<PhysicalDevice>& devices) {
  std::string text;
  for (const PhysicalDevice& device : devices) {
    text += message(text.empty() ? "" : ", ", device.info.index, " ", device.info.capabilities.device_name);
  }
  return text;
}

}  // namespace

Result<std::vector<PhysicalDevice>> enumerate_devices(const Instance& instance,
                                                      const std::string& disabled_list, bool imports_arrays) {
  const auto disabled = disabled_extensions(disabled_list);
  if (!disabled) return disabled.error();
  const auto handles = read_list("vkEnumeratePhysicalDevices", VkPhysicalDevice{}, [&](auto... out) {
    return instance.vk.vkEnumeratePhysicalDevices(instance.handle, out...);
  });
  if (!handles) return handles.error();
  std::vector<PhysicalDevice> devices;
  for (std::uint32_t i = 0; i < handles->size(); ++i) {
    auto device = inspect_device(instance, (*handles)[i], i, *disabled, imports_arrays);
    if (!device) return device.error();
    devices.push_back(*std::move(device));
  }
  return devices;
}

Result<std::size_t> choose_device(const std::vector<PhysicalDevice>& devices, const std::string& wanted,
                                  std::string& reason) {
  if (devices.empty()) {
    return Error{ErrorCode::kNotFound, VK_SUCCESS,
                 "no Vulkan device was found (mesa-vulkan-drivers on Debian and Ubuntu has one for any CPU)"};
  }
  std::size_t best = devices.size();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!devices[i].info.rejected.empty()) continue;
    if (!wanted.empty() && !matches(devices[i], wanted)) continue;
    const auto type = [&](std::size_t k) { return rank(devices[k].info.capabilities.device_type); };
    if (best == devices.size() || type(i) < type(best)) best = i;
  }
  if (best == devices.size()) {
    const std::string what =
        wanted.empty() ? "no usable Vulkan device" : message("no Vulkan device '", wanted, "'");
    std::string why;
    for (const PhysicalDevice& device : devices) {
      if (!device.info.rejected.empty()) {
        why += message("; ", device.info.capabilities.device_name, " ", device.info.rejected);
      }
    }
    return Error{ErrorCode::kNotFound, VK_SUCCESS, message(what, "; there are: ", device_list(devices), why)};
  }
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceInfo& info = devices[i].info;
    reason += message("device ", info.index, " ", info.capabilities.device_name, ": ");
    if (i == best) {
      reason += wanted.empty() ? "chosen\n" : message("chosen by '", wanted, "'\n");
    } else if (!info.rejected.empty()) {
      reason += message("refused: ", info.rejected, "\n");
    } else {
      reason += wanted.empty() ? "not the best type\n" : "not the one asked for\n";
    }
  }
  return best;
}

}  // namespace vkattn::detail
