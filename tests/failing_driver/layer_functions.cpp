// The layer's functions: one for each function in the library's tables, made from the tables' names and
// Vulkan's types.
#include <algorithm>
#include <tuple>
#include <type_traits>

#include "failing_driver/host_memory.hpp"
#include "failing_driver/layer.hpp"
#include "runtime/functions.hpp"
#include "vulkan/functions.hpp"

namespace vkattn::tests {

namespace {

/// The name of a function, as a template argument.
template <std::size_t N>
struct Name {
  char text[N]{};
  constexpr Name(const char (&from)[N]) { std::copy_n(from, N, text); }  // NOLINT: implicit on purpose
  [[nodiscard]] constexpr std::string_view view() const { return {text, N - 1}; }
};

template <class Handle>
[[nodiscard]] std::uint64_t number(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<std::uintptr_t>(handle);
  } else {
    return handle;
  }
}

[[nodiscard]] constexpr bool creates_one(std::string_view name) {
  return name.starts_with("vkCreate") || name == "vkAllocateMemory";
}
[[nodiscard]] constexpr bool destroys_one(std::string_view name) {
  return name.starts_with("vkDestroy") || name == "vkFreeMemory";
}

/// For example "VkBuffer" for vkCreateBuffer and vkDestroyBuffer.
[[nodiscard]] std::string type_of(std::string_view name) {
  if (name == "vkCreateComputePipelines") return "VkPipeline";
  if (name == "vkAllocateMemory" || name == "vkFreeMemory") return "VkDeviceMemory";
  constexpr std::string_view kCreate = "vkCreate", kDestroy = "vkDestroy";
  return "Vk" + std::string(name.substr(name.starts_with(kCreate) ? kCreate.size() : kDestroy.size()));
}

/// A failed call leaves anything in place of a handle.
template <class Out>
void spoil(Out* out) {
  if constexpr (std::is_pointer_v<Out> && !std::is_const_v<Out>)
    *out = reinterpret_cast<Out>(std::uintptr_t{0xbadbad00U});
}
template <class Other>
void spoil(const Other& /*no output*/) {}

/// Whether a failed call may do so. Other functions that return handles set them to null, by the
/// specification.
[[nodiscard]] constexpr bool leaves_anything(std::string_view name) {
  return (creates_one(name) && name != "vkCreateComputePipelines") || name == "vkMapMemory";
}

/// Whether the driver may see the call.
template <Name kName, class... In>
[[nodiscard]] bool before(Layer& layer, const std::tuple<In...>& in) {
  constexpr std::string_view name = kName.view();
  if constexpr (destroys_one(name)) {
    // vkDestroyInstance and vkDestroyDevice have no parent as their first argument.
    return layer.destroyed(type_of(name), number(std::get < sizeof...(In) == 3 ? 1 : 0 > (in)));
  } else if constexpr (name == "vkBeginCommandBuffer") {
    return layer.begins(std::get<0>(in));
  } else if constexpr (name == "vkEndCommandBuffer") {
    return layer.ends(std::get<0>(in));
  } else if constexpr (name == "vkQueueSubmit") {
    return layer.submits(std::get<2>(in)->pCommandBuffers[0], std::get<3>(in));
  } else if constexpr (name == "vkFreeDescriptorSets") {
    bool all = true;
    for (std::uint32_t i = 0; i < std::get<2>(in); ++i) {
      all = layer.destroyed("VkDescriptorSet", number(std::get<3>(in)[i])) && all;
    }
    return all;
  }
  return true;
}

/// Updates the layer after a call that succeeded.
template <Name kName, class... In>
void after(Layer& layer, const std::tuple<In...>& in) {
  constexpr std::string_view name = kName.view();
  if constexpr (creates_one(name)) {
    layer.created(type_of(name), number(*std::get<sizeof...(In) - 1>(in)));
  } else if constexpr (name == "vkAllocateDescriptorSets") {
    for (std::uint32_t i = 0; i < std::get<1>(in)->descriptorSetCount; ++i) {
      layer.created("VkDescriptorSet", number(std::get<2>(in)[i]), number(std::get<1>(in)->descriptorPool));
    }
  } else if constexpr (name == "vkAllocateCommandBuffers") {
    layer.created("VkCommandBuffer", number(*std::get<2>(in)), number(std::get<1>(in)->commandPool));
  } else if constexpr (name == "vkQueueSubmit") {
    layer.submitted(std::get<2>(in)->pCommandBuffers[0], std::get<3>(in));
  } else if constexpr (name == "vkWaitForFences" || name == "vkDeviceWaitIdle" || name == "vkQueueWaitIdle") {
    layer.waited();
  } else if constexpr (name == "vkResetFences") {
    layer.reset_fence(*std::get<2>(in));
  }
}

template <Name kName, class Function>
struct Wrapper;

template <Name kName, class Out, class... In>
struct Wrapper<kName, Out(VKAPI_PTR*)(In...)> {
  inline static Out(VKAPI_PTR* below)(In...) = nullptr;

  static VKAPI_ATTR Out VKAPI_CALL call(In... in) {
    const UncountedMemory ours;
    Layer& layer = the_layer();
    const std::tuple<In...> all(in...);
    const VkResult error = layer.enter(kName.view());
    if constexpr (std::is_same_v<Out, VkResult>) {
      if (error != VK_SUCCESS) {
        // A real driver does not stop working because the layer says that the device is lost.
        if (kName.view() == "vkWaitForFences" && error == VK_ERROR_DEVICE_LOST) (void)below(in...);
        if constexpr (leaves_anything(kName.view())) spoil(std::get<sizeof...(In) - 1>(all));
        if constexpr (kName.view() == "vkEndCommandBuffer") layer.cannot_end(std::get<0>(all));
        // Nothing is running on the lost device any more.
        if (error == VK_ERROR_DEVICE_LOST) layer.waited();
        return error;
      }
      if (!before<kName>(layer, all)) return VK_ERROR_UNKNOWN;
      const VkResult result = below(in...);
      if (result >= VK_SUCCESS) after<kName>(layer, all);
      return result;
    } else {
      if (before<kName>(layer, all)) return below(in...);
      return Out();
    }
  }

  static constexpr bool kGivesResult = std::is_same_v<Out, VkResult>;

  static void pass_on_to(PFN_vkVoidFunction function) {
    below = reinterpret_cast<Out(VKAPI_PTR*)(In...)>(function);
  }
};

struct Entry {
  PFN_vkVoidFunction function = nullptr;
  void (*pass_on_to)(PFN_vkVoidFunction) = nullptr;
  bool gives_result = false;
};

#define VKATTN_OPTIONAL_FUNCTIONS(X)      \
  X(vkEnumerateInstanceVersion)           \
  X(vkCreateDebugUtilsMessengerEXT)       \
  X(vkDestroyDebugUtilsMessengerEXT)      \
  X(vkSetDebugUtilsObjectNameEXT)         \
  X(vkCmdBeginDebugUtilsLabelEXT)         \
  X(vkCmdEndDebugUtilsLabelEXT)           \
  X(vkCmdPushDescriptorSetKHR)            \
  X(vkGetBufferDeviceAddress)             \
  X(vkGetMemoryHostPointerPropertiesEXT)  \
  X(vkGetPipelineExecutablePropertiesKHR) \
  X(vkGetPipelineExecutableStatisticsKHR) \
  X(vkGetPipelineExecutableInternalRepresentationsKHR)

const std::map<std::string_view, Entry>& entries() {
  static const std::map<std::string_view, Entry> all = [] {
    std::map<std::string_view, Entry> made;
#define VKATTN_ENTRY(NAME)                                                                \
  made[#NAME] = {reinterpret_cast<PFN_vkVoidFunction>(&Wrapper<#NAME, PFN_##NAME>::call), \
                 &Wrapper<#NAME, PFN_##NAME>::pass_on_to, Wrapper<#NAME, PFN_##NAME>::kGivesResult};
    VKATTN_INSTANCE_FUNCTIONS(VKATTN_ENTRY)
    VKATTN_DEVICE_FUNCTIONS(VKATTN_ENTRY)
    VKATTN_RUNTIME_LOADER_FUNCTIONS(VKATTN_ENTRY)
    VKATTN_RUNTIME_INSTANCE_FUNCTIONS(VKATTN_ENTRY)
    VKATTN_RUNTIME_DEVICE_FUNCTIONS(VKATTN_ENTRY)
    VKATTN_OPTIONAL_FUNCTIONS(VKATTN_ENTRY)
#ifdef VK_KHR_cooperative_matrix
    VKATTN_ENTRY(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)
#endif
#ifdef VK_NV_cooperative_matrix2
    VKATTN_ENTRY(vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV)
#endif
#undef VKATTN_ENTRY
    return made;
  }();
  return all;
}

PFN_vkGetDeviceProcAddr device_proc_addr_below = nullptr;

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc_addr(VkDevice device, const char* name) {
  const UncountedMemory ours;
  return the_layer().find(name, device_proc_addr_below(device, name));
}

}  // namespace

std::vector<std::string> functions_with_results() {
  std::vector<std::string> all;
  for (const auto& [name, entry] : entries()) {
    if (entry.gives_result) all.emplace_back(name);
  }
  return all;
}

PFN_vkVoidFunction Layer::find(const char* name, PFN_vkVoidFunction below) {
  if (below == nullptr) return nullptr;
  if (std::string_view(name) == "vkGetDeviceProcAddr") {
    device_proc_addr_below = reinterpret_cast<PFN_vkGetDeviceProcAddr>(below);
    return reinterpret_cast<PFN_vkVoidFunction>(&get_device_proc_addr);
  }
  const auto entry = entries().find(name);
  if (entry == entries().end()) {
    misuse(std::string(name) + " is in no table of functions");
    return below;
  }
  entry->second.pass_on_to(below);
  return entry->second.function;
}

PFN_vkVoidFunction layer_get_instance_proc_addr(VkInstance instance, const char* name) {
  const UncountedMemory ours;
  Layer& layer = the_layer();
  return layer.find(name, layer.driver()(instance, name));
}

}  // namespace vkattn::tests
