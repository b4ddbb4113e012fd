// Building error sentences, and turning failures of the host into Errors.
#pragma once

#include <vulkan/vulkan_core.h>

#include <vkattn/result.hpp>

#include <exception>
#include <locale>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>

namespace vkattn::detail {

/// Joins its arguments, numbers in the C locale. Throws where there is no memory: half a name is none.
template <class... Parts>
[[nodiscard]] std::string message(const Parts&... parts) {
  std::ostringstream stream;
  stream.imbue(std::locale::classic());
  stream.exceptions(std::ios_base::badbit);
  (stream << ... << parts);
  return stream.str();
}

/// The name of a VkResult, or its number.
[[nodiscard]] std::string to_string(VkResult result);

/// The Error for a failed Vulkan call: device loss and lack of memory get their own codes.
[[nodiscard]] Error vulkan_error(VkResult result, const char* call);

/// The Error for an argument that breaks a rule.
template <class... Parts>
[[nodiscard]] Error invalid(const Parts&... parts) {
  return {ErrorCode::kInvalidArgument, VK_SUCCESS, message(parts...)};
}

/// The Error for a limit of the device, which the sentence names with both numbers.
template <class... Parts>
[[nodiscard]] Error limit_exceeded(const Parts&... parts) {
  return {ErrorCode::kLimitExceeded, VK_SUCCESS, message(parts...)};
}

#ifdef __cpp_exceptions
/// The Error for the exception that is being handled. Memory has run out where not even the sentence can be
/// made.
[[nodiscard]] inline Error handled_exception() noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::length_error&) {  // a size that no container can have
      throw std::bad_alloc();
    } catch (const std::exception& failure) {
      return {ErrorCode::kIo, VK_SUCCESS, message("the host failed: ", failure.what())};
    } catch (...) {
      return {ErrorCode::kIo, VK_SUCCESS, "the host failed: an exception of an unknown type"};
    }
  } catch (...) {
    return {ErrorCode::kOutOfMemory, VK_ERROR_OUT_OF_HOST_MEMORY, "out of memory"};  // short: no allocation
  }
}
#endif

/// Calls `body` and turns what is thrown in it, by the standard library or by a function of the caller's,
/// into an Error: nothing leaves the API as an exception. Compiled without exceptions it only calls.
template <class Body>
[[nodiscard]] auto without_exceptions(Body&& body) noexcept -> decltype(body()) {
#ifdef __cpp_exceptions
  try {
    return body();
  } catch (...) {
    return handled_exception();
  }
#else
  return body();
#endif
}

}  // namespace vkattn::detail
