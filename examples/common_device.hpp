// An instance, with validation if its layer is installed, and a device with everything that makes attention
// faster. Calls go through libvulkan, or, with EXAMPLE_OWN_VOLK, through the program's own volk.
#pragma once

#ifdef EXAMPLE_OWN_VOLK
#include <volk.h>
#else
#include <vulkan/vulkan.h>
#endif

#include <vkattn/attention_plan.hpp>
#include <vkattn/device.hpp>
#include <vkattn/device_features.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace example {

// What a lost device leads to, if a program does not end then. It throws.
inline void (*on_lost_device)(const char* what) = nullptr;

// Called before a refusal is printed, to end a line that is not finished.
inline void (*before_refusal)() = nullptr;

// Prints the sentence and ends the program with 1.
[[noreturn]] inline void refuse(const std::string& sentence) {
  if (before_refusal != nullptr) before_refusal();
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::exit(1);
}

// Ends the program if a call failed.
inline void check(VkResult result, const char* what) {
  if (result >= VK_SUCCESS) return;
  if (result == VK_ERROR_DEVICE_LOST && on_lost_device != nullptr) on_lost_device(what);
  refuse(std::string(what) + " failed: VkResult " + std::to_string(static_cast<int>(result)));
}

// Returns the value, or ends the program. The error says what failed and why.
template <class T>
T checked(vkattn::Result<T> result) {
  if (!result.ok()) {
    const std::string& message = result.error().message;
    if (result.error().code == vkattn::ErrorCode::kDeviceLost && on_lost_device != nullptr)
      on_lost_device(message.substr(0, message.find(" failed with ")).c_str());  // the call
    refuse(message);
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// Ends the program with the code that tells CTest that it could not run here.
[[noreturn]] inline void skip(const char* why) {
  std::fprintf(stderr, "%s\n", why);
  std::exit(77);
}

inline std::atomic<int> validation_errors = 0;

// The exit code of main(). It is called when all Vulkan objects are gone, as validation speaks up to the end.
inline int exit_code(bool results_are_right) {
  if (!results_are_right) std::fprintf(stderr, "the results are not what they should be\n");
  if (validation_errors != 0) std::fprintf(stderr, "%d validation errors\n", validation_errors.load());
  return results_are_right && validation_errors == 0 ? 0 : 1;
}

inline VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                                 VkDebugUtilsMessageTypeFlagsEXT,
                                                 const VkDebugUtilsMessengerCallbackDataEXT* data, void*) {
  std::fprintf(stderr, "%s\n", data->pMessage);
  ++validation_errors;
  return VK_FALSE;
}

// An instance, the best physical device of at least the given Vulkan version, and, after open(), a device. It
// must be destroyed last, so declare it before everything else.
class Gpu {
 public:
  // Whether the program can use a device.
  using Accepts = bool (*)(VkInstance, VkPhysicalDevice);
  // With the instance extensions that the program needs itself, such as those of a window. Without validation
  // if `validates` is false. If `accepts` is given, a device is chosen among those that it accepts.
  explicit Gpu(std::uint32_t api_version, std::span<const char* const> extensions = {}, bool validates = true,
               Accepts accepts = nullptr)
      : api_version_(api_version) {
    create_instance(extensions, validates);
    choose_device(accepts);
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() {
    attention_.reset();
    if (device != VK_NULL_HANDLE) vkDestroyDevice(device, nullptr);
    if (messenger_ != VK_NULL_HANDLE) {
      function<PFN_vkDestroyDebugUtilsMessengerEXT>("vkDestroyDebugUtilsMessengerEXT")(instance, messenger_,
                                                                                       nullptr);
    }
    vkDestroyInstance(instance, nullptr);
  }

  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical_device = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  std::vector<VkQueueFamilyProperties> families;  // of the physical device
  bool is_validated = false;

  [[nodiscard]] const vkattn::Device& attention() const { return *attention_; }

  // The first family with all of `flags` and none of `without`, if there is one.
  [[nodiscard]] std::optional<std::uint32_t> family(VkQueueFlags flags, VkQueueFlags without = 0) const {
    for (std::uint32_t i = 0; i < families.size(); ++i) {
      if ((families[i].queueFlags & flags) == flags && (families[i].queueFlags & without) == 0) return i;
    }
    return std::nullopt;
  }

  // Creates the device with the program's own features and extensions and whatever makes attention faster,
  // and borrows it.
  void open(std::span<const VkDeviceQueueCreateInfo> queues, void* features = nullptr,
            std::span<const char* const> extensions = {}) {
    VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    info.pNext = features;
    info.queueCreateInfoCount = static_cast<std::uint32_t>(queues.size());
    info.pQueueCreateInfos = queues.data();
    info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    vkattn::PhysicalDeviceDesc physical;
    physical.instance = instance;
    physical.physical_device = physical_device;
    physical.get_instance_proc_addr = vkGetInstanceProcAddr;
    physical.api_version = api_version_;
    vkattn::EnableMemory memory{};
    checked(vkattn::enable_wanted(physical, info, memory));
    check(vkCreateDevice(physical_device, &info, nullptr, &device), "vkCreateDevice");
#ifdef EXAMPLE_OWN_VOLK
    volkLoadDevice(device);
#endif
    vkattn::DeviceDesc desc;
    desc.instance = instance;
    desc.physical_device = physical_device;
    desc.device = device;
    desc.get_instance_proc_addr = vkGetInstanceProcAddr;
    desc.api_version = api_version_;
    desc.enabled_extensions = {info.ppEnabledExtensionNames, info.enabledExtensionCount};
    desc.enabled_features = info.pNext;
    desc.enabled_core_features = info.pEnabledFeatures;
    attention_ = checked(vkattn::Device::borrow(desc));
  }

  // Allocates memory with all of `flags`. Vulkan promises a host-visible, coherent type for every buffer.
  [[nodiscard]] VkDeviceMemory allocate(const VkMemoryRequirements& needs,
                                        VkMemoryPropertyFlags flags) const {
    VkPhysicalDeviceMemoryProperties types{};
    vkGetPhysicalDeviceMemoryProperties(physical_device, &types);
    VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    info.allocationSize = needs.size;
    while (info.memoryTypeIndex < types.memoryTypeCount &&
           ((needs.memoryTypeBits >> info.memoryTypeIndex & 1U) == 0 ||
            (types.memoryTypes[info.memoryTypeIndex].propertyFlags & flags) != flags)) {
      ++info.memoryTypeIndex;
    }
    VkDeviceMemory memory = VK_NULL_HANDLE;
    check(vkAllocateMemory(device, &info, nullptr, &memory), "vkAllocateMemory");
    return memory;
  }

 private:
  template <class Function>
  [[nodiscard]] Function function(const char* name) const {
    return reinterpret_cast<Function>(vkGetInstanceProcAddr(instance, name));
  }
  static bool has_layer(const char* name) {
    std::uint32_t count = 0;
    check(vkEnumerateInstanceLayerProperties(&count, nullptr), "vkEnumerateInstanceLayerProperties");
    std::vector<VkLayerProperties> layers(count);
    check(vkEnumerateInstanceLayerProperties(&count, layers.data()), "vkEnumerateInstanceLayerProperties");
    return std::any_of(layers.begin(), layers.end(), [&](const VkLayerProperties& layer) {
      return std::strcmp(layer.layerName, name) == 0;
    });
  }

  // Creates the instance, with validation of calls and of synchronization if it is asked for and installed.
  void create_instance(std::span<const char* const> own_extensions, bool validates) {
#ifdef EXAMPLE_OWN_VOLK
    if (volkInitialize() != VK_SUCCESS) skip("no Vulkan loader");
#endif
    const char* layer = "VK_LAYER_KHRONOS_validation";
    std::vector<const char*> extensions(own_extensions.begin(), own_extensions.end());
    const VkValidationFeatureEnableEXT synchronization =
        VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
    VkValidationFeaturesEXT validation{VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT};
    validation.enabledValidationFeatureCount = 1;
    validation.pEnabledValidationFeatures = &synchronization;
#ifdef VK_EXT_layer_settings
    // Newer layers check accesses in shaders only if they are told to.
    const VkBool32 yes = VK_TRUE;
    const VkLayerSettingEXT setting{layer, "syncval_shader_accesses_heuristic",
                                    VK_LAYER_SETTING_TYPE_BOOL32_EXT, 1, &yes};
    VkLayerSettingsCreateInfoEXT settings{VK_STRUCTURE_TYPE_LAYER_SETTINGS_CREATE_INFO_EXT};
    settings.settingCount = 1;
    settings.pSettings = &setting;
    validation.pNext = &settings;
#endif
    VkDebugUtilsMessengerCreateInfoEXT messages{VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
    messages.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    messages.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
    messages.pfnUserCallback = on_message;
    VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
    application.apiVersion = api_version_;
    VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    info.pApplicationInfo = &application;
    is_validated = validates && has_layer(layer);
    if (is_validated) {
      info.pNext = &validation;
      info.enabledLayerCount = 1;
      info.ppEnabledLayerNames = &layer;
      extensions.insert(extensions.end(),
                        {VK_EXT_DEBUG_UTILS_EXTENSION_NAME, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME});
    }
    info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    const VkResult result = vkCreateInstance(&info, nullptr, &instance);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER) skip("no Vulkan device: no driver was found");
    check(result, "vkCreateInstance");
#ifdef EXAMPLE_OWN_VOLK
    volkLoadInstance(instance);
#endif
    if (!is_validated) return;
    check(function<PFN_vkCreateDebugUtilsMessengerEXT>("vkCreateDebugUtilsMessengerEXT")(
              instance, &messages, nullptr, &messenger_),
          "vkCreateDebugUtilsMessengerEXT");
  }

  // Chooses a GPU if there is one, otherwise a CPU.
  void choose_device(Accepts accepts) {
    std::uint32_t count = 0;
    check(vkEnumeratePhysicalDevices(instance, &count, nullptr), "vkEnumeratePhysicalDevices");
    std::vector<VkPhysicalDevice> devices(count);
    check(vkEnumeratePhysicalDevices(instance, &count, devices.data()), "vkEnumeratePhysicalDevices");
    VkPhysicalDeviceProperties best{};
    for (const VkPhysicalDevice each : devices) {
      VkPhysicalDeviceProperties properties{};
      vkGetPhysicalDeviceProperties(each, &properties);
      const bool is_better =
          physical_device == VK_NULL_HANDLE || (best.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU &&
                                                properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU);
      if (properties.apiVersion < api_version_ || !is_better) continue;
      if (accepts != nullptr && !accepts(instance, each)) continue;
      physical_device = each;
      best = properties;
    }
    if (physical_device == VK_NULL_HANDLE)
      skip(accepts == nullptr
               ? "no Vulkan device of the version that this program needs"
               : "no Vulkan device of the version and with the extensions that this program needs");
    std::printf("device: %s\n", best.deviceName);
    vkGetPhysicalDeviceQueueFamilyProperties(physical_device, &count, nullptr);
    families.resize(count);
    vkGetPhysicalDeviceQueueFamilyProperties(physical_device, &count, families.data());
  }

  std::uint32_t api_version_;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::optional<vkattn::Device> attention_;
};

}  // namespace example
