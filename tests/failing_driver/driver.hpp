// A driver that does nothing: it hands out handles, and memory where that is mapped. What it is to compute
// never is. So a program can go through all calls of the library in microseconds, without a Vulkan loader.
#pragma once

#include <vulkan/vulkan_core.h>

namespace vkattn::tests {

/// The device: a GPU whose buffers lie in memory that the host does not see, or all in memory that it does.
void make_memory_visible(bool is_visible);

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL idle_driver_get_instance_proc_addr(VkInstance instance,
                                                                            const char* name);

}  // namespace vkattn::tests
