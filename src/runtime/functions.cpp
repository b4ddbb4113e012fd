// Loading of the runtime's function tables.
#include "runtime/functions.hpp"

#include "vulkan/functions.hpp"

namespace vkattn::detail {

PFN_vkGetInstanceProcAddr find_loader();  // volk.cpp

#define VKATTN_FIND(NAME) functions.NAME = reinterpret_cast<PFN_##NAME>(find(#NAME));
#define VKATTN_LOAD(NAME) \
  VKATTN_FIND(NAME)       \
  if (functions.NAME == nullptr && missing == nullptr) missing = #NAME;

namespace {

Result<void> none_missing(const char* missing) {
  return missing == nullptr ? Result<void>() : missing_function(missing);
}

}  // namespace

Result<LoaderFunctions> load_loader() {
  LoaderFunctions functions;
  functions.vkGetInstanceProcAddr = find_loader();
  if (functions.vkGetInstanceProcAddr == nullptr) {
    return Error{ErrorCode::kNotFound, VK_ERROR_INITIALIZATION_FAILED,
                 "no Vulkan loader was found (libvulkan.so.1; the package libvulkan1 on Debian and Ubuntu)"};
  }
  const auto find = [&](const char* name) { return functions.vkGetInstanceProcAddr(VK_NULL_HANDLE, name); };
  const char* missing = nullptr;
  VKATTN_FIND(vkEnumerateInstanceVersion)
  VKATTN_RUNTIME_LOADER_FUNCTIONS(VKATTN_LOAD)
  if (missing != nullptr) return missing_function(missing);
  return functions;
}

Result<void> load_runtime_instance(const LoaderFunctions& loader, VkInstance instance,
                                   RuntimeInstanceFunctions& functions) {
  const auto find = [&](const char* name) { return loader.vkGetInstanceProcAddr(instance, name); };
  const char* missing = nullptr;
  VKATTN_RUNTIME_INSTANCE_FUNCTIONS(VKATTN_LOAD)
  VKATTN_FIND(vkCreateDebugUtilsMessengerEXT)
  VKATTN_FIND(vkDestroyDebugUtilsMessengerEXT)
  return none_missing(missing);
}

Result<void> load_runtime_device(const RuntimeInstanceFunctions& instance, VkDevice device,
                                 RuntimeDeviceFunctions& functions) {
  const auto find = [&](const char* name) { return instance.vkGetDeviceProcAddr(device, name); };
  const char* missing = nullptr;
  VKATTN_RUNTIME_DEVICE_FUNCTIONS(VKATTN_LOAD)
  VKATTN_FIND(vkGetMemoryHostPointerPropertiesEXT)
  return none_missing(missing);
}

#undef VKATTN_FIND
#undef VKATTN_LOAD

}  // namespace vkattn::detail
