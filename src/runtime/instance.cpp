// Loader, instance and validation messages.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <string_view>

#include "runtime/runtime_state.hpp"
#include "vulkan/functions.hpp"

namespace vkattn::detail {

namespace {

// The newest version whose features are read.
#ifdef VK_VERSION_1_4
constexpr std::uint32_t kNewestVersion = VK_API_VERSION_1_4;
#else
constexpr std::uint32_t kNewestVersion = VK_API_VERSION_1_3;
#endif

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";

// Checks inside of shaders need features that the layer enables by itself, with a message that is no fault of
// the program's.
bool is_of_the_layer(std::string_view message) {
  constexpr std::string_view kInternal = "Internal Warning: ";
  const std::size_t at = message.find(kInternal);
  if (at == std::string_view::npos) return false;
  message.remove_prefix(at + kInternal.size());
  return message.starts_with("Forcing ") || message.starts_with("Adding ");
}

VKAPI_ATTR VkBool32 VKAPI_CALL collect_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                               VkDebugUtilsMessageTypeFlagsEXT,
                                               const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
  if (is_of_the_layer(data->pMessage)) return VK_FALSE;
  auto* instance = static_cast<Instance*>(user);
  // The layer calls this, so no exception may leave it. A message is lost if there is no memory for it.
  (void)without_exceptions([&]() -> Result<void> {
    const std::lock_guard lock(instance->messages_mutex);
    instance->messages.emplace_back(data->pMessage);
    return {};
  });
  return VK_FALSE;
}

VkDebugUtilsMessengerCreateInfoEXT messenger_info(Instance& instance) {
  VkDebugUtilsMessengerCreateInfoEXT info{VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
  info.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT;
  info.messageType =
      VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
  info.pfnUserCallback = collect_message;
  info.pUserData = &instance;
  return info;
}

Result<bool> has_validation_layer(const LoaderFunctions& loader) {
  const auto layers = read_list("vkEnumerateInstanceLayerProperties", VkLayerProperties{}, [&](auto... out) {
    return loader.vkEnumerateInstanceLayerProperties(out...);
  });
  if (!layers) return layers.error();
  return std::any_of(layers->begin(), layers->end(), [](const VkLayerProperties& layer) {
    return std::strcmp(layer.layerName, kValidationLayer) == 0;
  });
}

// Drivers that lack a part of Vulkan (MoltenVK) are listed only to programs that ask for them.
Result<bool> has_portability_enumeration(const LoaderFunctions& loader) {
  const auto extensions =
      read_list("vkEnumerateInstanceExtensionProperties", VkExtensionProperties{},
                [&](auto... out) { return loader.vkEnumerateInstanceExtensionProperties(nullptr, out...); });
  if (!extensions) return extensions.error();
  return has_extension(*extensions, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
}

VkResult create_handle(Instance& instance, const RuntimeOptions& options, bool enumerates_portability) {
  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.pApplicationName = "vkattn";
  application.apiVersion = instance.api_version;
  VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &application;
  const char* layer = kValidationLayer;
  std::vector<const char*> extensions;
  if (enumerates_portability) {
    extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  }
  // Not both: instrumented shaders are slow enough.
  const VkValidationFeatureEnableEXT enable =
      options.gpu_assisted_validation ? VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT
                                      : VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
  VkValidationFeaturesEXT features{VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT};
  features.enabledValidationFeatureCount = 1;
  features.pEnabledValidationFeatures = &enable;
  VkDebugUtilsMessengerCreateInfoEXT messages = messenger_info(instance);
  messages.pNext = &features;
#ifdef VK_EXT_layer_settings
  // Layers from 2024 on leave accesses in shaders out of synchronization validation unless they are told
  // otherwise.
  const VkBool32 enabled = VK_TRUE;
  const VkLayerSettingEXT setting{kValidationLayer, "syncval_shader_accesses_heuristic",
                                  VK_LAYER_SETTING_TYPE_BOOL32_EXT, 1, &enabled};
  const VkLayerSettingsCreateInfoEXT settings{VK_STRUCTURE_TYPE_LAYER_SETTINGS_CREATE_INFO_EXT, nullptr, 1,
                                              &setting};
  features.pNext = &settings;
#endif
  if (options.validation) {
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &layer;
    extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
    info.pNext = &messages;
  }
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  return null_on_failure(instance.loader.vkCreateInstance(&info, nullptr, &instance.handle), instance.handle);
}

VkResult create_messenger(Instance& instance) {
  if (instance.vk.vkCreateDebugUtilsMessengerEXT == nullptr) return VK_ERROR_EXTENSION_NOT_PRESENT;
  const VkDebugUtilsMessengerCreateInfoEXT info = messenger_info(instance);
  return null_on_failure(
      instance.vk.vkCreateDebugUtilsMessengerEXT(instance.handle, &info, nullptr, &instance.messenger),
      instance.messenger);
}

}  // namespace

Instance::~Instance() {
  if (is_borrowed || handle == VK_NULL_HANDLE || vk.vkDestroyInstance == nullptr) return;
  if (messenger != VK_NULL_HANDLE && vk.vkDestroyDebugUtilsMessengerEXT != nullptr) {
    vk.vkDestroyDebugUtilsMessengerEXT(handle, messenger, nullptr);
  }
  vk.vkDestroyInstance(handle, nullptr);
}

Result<std::unique_ptr<Instance>> create_instance(const RuntimeOptions& options) {
  auto loader = load_loader();
  if (!loader) return loader.error();
  auto instance = std::make_unique<Instance>();
  instance->loader = *loader;
  std::uint32_t version = VK_API_VERSION_1_0;
  if (loader->vkEnumerateInstanceVersion != nullptr) {
    if (VkResult result = loader->vkEnumerateInstanceVersion(&version); result != VK_SUCCESS) {
      return vulkan_error(result, "vkEnumerateInstanceVersion");
    }
  }
  if (version < VK_API_VERSION_1_1) {
    return Error{ErrorCode::kUnsupported, VK_ERROR_INCOMPATIBLE_DRIVER,
                 "the Vulkan loader offers Vulkan 1.0; vkattn needs 1.1"};
  }
  instance->api_version = std::min(version, kNewestVersion);
  if (options.validation) {
    const auto is_there = has_validation_layer(*loader);
    if (!is_there) return is_there.error();
    if (!*is_there) {
      return Error{ErrorCode::kNotFound, VK_ERROR_LAYER_NOT_PRESENT,
                   message(kValidationLayer, " is not installed (the package vulkan-validationlayers)")};
    }
  }
  const auto enumerates_portability = has_portability_enumeration(*loader);
  if (!enumerates_portability) return enumerates_portability.error();
  if (VkResult result = create_handle(*instance, options, *enumerates_portability); result != VK_SUCCESS) {
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
      return Error{
          ErrorCode::kNotFound, result,
          "no Vulkan driver was found (mesa-vulkan-drivers on Debian and Ubuntu has one for any CPU)"};
    }
    return vulkan_error(result, "vkCreateInstance");
  }
  if (Result<void> s = load_runtime_instance(*loader, instance->handle, instance->vk); !s) return s.error();
  if (options.validation) {
    if (VkResult result = create_messenger(*instance); result != VK_SUCCESS) {
      return vulkan_error(result, "vkCreateDebugUtilsMessengerEXT");
    }
  }
  return instance;
}

}  // namespace vkattn::detail
