// volk finds the loader on every system, and does no more here. Its definitions are global variables with the
// names of Vulkan's functions, so a generated header gives them other names, which no libvulkan and no other
// volk in the program has.
#include "private_volk_names.h"
#define VOLK_IMPLEMENTATION
#include <volk.h>

#include <mutex>

namespace vkattn::detail {

PFN_vkGetInstanceProcAddr find_loader() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  // Again after a failure: a loader may have been installed since.
  if (vkGetInstanceProcAddr == nullptr && volkInitialize() != VK_SUCCESS) return nullptr;
  return vkGetInstanceProcAddr;
}

}  // namespace vkattn::detail
