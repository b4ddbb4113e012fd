// Which errors Vulkan's functions can give.
#pragma once

#include <vulkan/vulkan_core.h>

#include <vkattn/result.hpp>

#include <string>
#include <vector>

namespace vkattn::tests {

/// The n-th call of a function, from when it is armed on, gives an error.
struct Fault {
  std::string function;
  std::uint32_t call = 0;  ///< the first one is 1
  VkResult error = VK_SUCCESS;
};

/// The errors that the specification documents for a function, without those that only extensions can cause
/// which the library does not use, and that of the name of a layer, where it gives none.
[[nodiscard]] std::vector<VkResult> documented_errors(const std::string& function);

/// The library's code for it.
[[nodiscard]] ErrorCode expected_code(const Fault& fault);

}  // namespace vkattn::tests
