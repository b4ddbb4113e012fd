// Finding devices, what to enable on each, and which one to take.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>
#include <string_view>

#include "runtime/runtime_state.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::detail {

namespace {

std::vector<std::string> supported_extensions(const Instance& instance, VkPhysicalDevice device) {
  std::uint32_t count = 0;
  if (instance.vk.vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr) != VK_SUCCESS)
    return {};
  std::vector<VkExtensionProperties> properties(count);
  if (instance.vk.vkEnumerateDeviceExtensionProperties(device, nullptr, &count, properties.data()) <
      VK_SUCCESS)
    return {};
  std::vector<std::string> names;
  for (const VkExtensionProperties& property : properties) names.emplace_back(property.extensionName);
  return names;
}

// What can be disabled: all that query_features() asks for but extensions that only tell properties.
constexpr std::array<std::string_view, 10> kFeatureExtensions{
    VK_KHR_16BIT_STORAGE_EXTENSION_NAME, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME,
    VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME,
    VK_KHR_MAINTENANCE_4_EXTENSION_NAME, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME,
    VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME,
    // Spelt out, as older headers do not know them.
    "VK_KHR_cooperative_matrix", "VK_KHR_shader_bfloat16", "VK_NV_cooperative_matrix2"};

// Asks for everything the library can use and that is not disabled. What is not supported comes back false
// and stays disabled.
std::unique_ptr<DeviceFeatures> query_features(const Instance& instance, VkPhysicalDevice device,
                                               std::uint32_t version,
                                               const std::vector<std::string>& disabled) {
  auto features = std::make_unique<DeviceFeatures>();
  const std::vector<std::string> supported = supported_extensions(instance, device);
  const auto chain = [&](auto& structure) {
    structure.pNext = features->core.pNext;
    features->core.pNext = &structure;
  };
  const auto contains = [](const std::vector<std::string>& names, const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const auto extension = [&](const char* name) {
    const bool enable = contains(supported, name) && !contains(disabled, name);
    if (enable) features->extensions.push_back(name);
    return enable;
  };
  // Of an extension that a version of Vulkan took in.
  const auto feature = [&](std::uint32_t core_version, const char* name) {
    return version >= core_version ? !contains(disabled, name) : extension(name);
  };
  if (feature(VK_API_VERSION_1_1, VK_KHR_16BIT_STORAGE_EXTENSION_NAME)) chain(features->storage16);
  if (feature(VK_API_VERSION_1_2, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME)) chain(features->float16);
  const bool memory_model = feature(VK_API_VERSION_1_2, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME);
  if (memory_model) chain(features->memory_model);
  if (feature(VK_API_VERSION_1_3, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME))
    chain(features->subgroup_size);
  // Not as an extension: what needs it needs SPIR-V 1.6 as well.
  if (version >= VK_API_VERSION_1_3 && !contains(disabled, VK_KHR_MAINTENANCE_4_EXTENSION_NAME)) {
    chain(features->maintenance4);
  }
  if (version < VK_API_VERSION_1_2) {
    extension(VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME);
    extension(VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME);
  }
  extension("VK_KHR_portability_subset");  // must be enabled where it is there
  if (extension(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME)) chain(features->executables);
  extension(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
  extension(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME);       // for the number of multiprocessors
  extension(VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME);  // for the number of compute units
#ifdef VK_KHR_cooperative_matrix
  const bool matrix = memory_model && extension(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  if (matrix) chain(features->matrix);
#ifdef VK_KHR_shader_bfloat16
  if (matrix && extension(VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME)) chain(features->bfloat16);
#endif
#ifdef VK_NV_cooperative_matrix2
  if (matrix && extension(VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME)) chain(features->matrix2);
#endif
#endif
  instance.vk.vkGetPhysicalDeviceFeatures2(device, &features->core);
  const VkPhysicalDeviceFeatures all = features->core.features;
  features->core.features = {};
  features->core.features.shaderInt16 = all.shaderInt16;
  features->core.features.shaderInt64 = all.shaderInt64;
  return features;
}

// The compute queue family to use: one with timestamps where there is a choice.
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

// The names in a list with commas between, all of which can be disabled.
Result<std::vector<std::string>> disabled_extensions(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
    if (std::find(kFeatureExtensions.begin(), kFeatureExtensions.end(), names.back()) !=
        kFeatureExtensions.end()) {
      continue;
    }
    std::string known;
    for (const std::string_view name : kFeatureExtensions) known += message(known.empty() ? "" : ", ", name);
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                 message("'", names.back(), "' is not an extension that can be disabled; those are ", known)};
  }
  return names;
}

PhysicalDevice inspect_device(const Instance& instance, VkPhysicalDevice handle, std::uint32_t index,
                              const std::vector<std::string>& disabled) {
  PhysicalDevice device;
  device.handle = handle;
  device.info.index = index;
  VkPhysicalDeviceProperties properties;
  instance.vk.vkGetPhysicalDeviceProperties(handle, &properties);
  device.info.capabilities.device_name = properties.deviceName;
  device.info.capabilities.device_type = properties.deviceType;
  device.info.capabilities.api_version = properties.apiVersion;
  const std::uint32_t version = std::min(instance.api_version, properties.apiVersion);
  if (version < VK_API_VERSION_1_1) {
    device.info.rejected = "offers Vulkan 1.0; 1.1 is needed";
    return device;
  }
  device.features = query_features(instance, handle, version, disabled);
  auto capabilities =
      read_capabilities({instance.handle, handle, instance.loader.vkGetInstanceProcAddr, instance.api_version,
                         device.features->extensions, &device.features->core, nullptr});
  if (!capabilities) {
    device.info.rejected = capabilities.error().message;
    return device;
  }
  device.info.capabilities = *std::move(capabilities);
  device.info.capabilities.api_version = properties.apiVersion;
  if (!find_queue_family(instance, device)) device.info.rejected = "has no compute queue";
  return device;
}

int rank(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
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
                                                      const std::string& disabled_list) {
  const auto disabled = disabled_extensions(disabled_list);
  if (!disabled) return disabled.error();
  std::uint32_t count = 0;
  if (VkResult result = instance.vk.vkEnumeratePhysicalDevices(instance.handle, &count, nullptr);
      result != VK_SUCCESS) {
    return vulkan_error(result, "vkEnumeratePhysicalDevices");
  }
  std::vector<VkPhysicalDevice> handles(count);
  if (VkResult result = instance.vk.vkEnumeratePhysicalDevices(instance.handle, &count, handles.data());
      result < VK_SUCCESS) {
    return vulkan_error(result, "vkEnumeratePhysicalDevices");
  }
  std::vector<PhysicalDevice> devices;
  for (std::uint32_t i = 0; i < count; ++i)
    devices.push_back(inspect_device(instance, handles[i], i, *disabled));
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
