// Building error sentences, and turning failures of the host into Errors.
#pragma once

#include <vkattn/result.hpp>

#include <locale>
#include <new>
#include <sstream>
#include <string>

namespace vkattn::detail {

/// Joins its arguments, numbers in the C locale.
template <class... Parts>
[[nodiscard]] std::string message(const Parts&... parts) {
  std::ostringstream stream;
  stream.imbue(std::locale::classic());
  (stream << ... << parts);
  return stream.str();
}

/// The name of a VkResult, or its number.
[[nodiscard]] std::string to_string(VkResult result);

/// The Error for a failed Vulkan call: device loss and lack of memory get their own codes.
[[nodiscard]] Error vulkan_error(VkResult result, const char* call);

/// The Error for a limit of the device, which the sentence names with both numbers.
template <class... Parts>
[[nodiscard]] Error limit_exceeded(const Parts&... parts) {
  return {ErrorCode::kLimitExceeded, VK_SUCCESS, message(parts...)};
}

/// Calls `body` and turns std::bad_alloc into an Error: nothing leaves the API as an exception.
template <class Body>
[[nodiscard]] auto without_exceptions(Body&& body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, VK_ERROR_OUT_OF_HOST_MEMORY,
                 "out of memory"};  // short: no allocation
  }
}

}  // namespace vkattn::detail
