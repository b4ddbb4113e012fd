// The errors that Vulkan's functions can return.
#pragma once

#include <vulkan/vulkan_core.h>

#include <vkattn/result.hpp>

#include <string>
#include <vector>

namespace vkattn::tests {

/// The n-th call of a function after the fault is armed returns an error.
struct Fault {
  std::string function;
  std::uint32_t call = 0;  ///< the first call is 1
  VkResult error = VK_SUCCESS;
};

/// The errors that the specification documents for a function. It leaves out errors of extensions that the
/// library does not use, and errors about the name of a layer if the library passes none.
[[nodiscard]] std::vector<VkResult> documented_errors(const std::string& function);

/// The library's error code for the fault.
[[nodiscard]] ErrorCode expected_code(const Fault& fault);

}  // namespace vkattn::tests
