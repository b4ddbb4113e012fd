// Errors as values: every call that can fail returns a Result; nothing is thrown across the API.
#pragma once

#include <vulkan/vulkan_core.h>

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace vkattn {

/// What kind of failure, for programs that act on it.
enum class ErrorCode {
  kInvalidArgument,  ///< the descriptor, a tensor or an option breaks a rule of the interface
  kUnsupported,      ///< valid, but this device or build cannot do it
  kLimitExceeded,    ///< a device limit is exceeded; the message names it and both numbers
  kOutOfMemory,      ///< host or device memory ran out
  kDeviceLost,       ///< VK_ERROR_DEVICE_LOST; the device must be destroyed, the process can go on
  kVulkan,           ///< any other Vulkan error; see Error::vk_result
  kNotFound,         ///< no such device, kernel, suite or file
  kIo,               ///< a file could not be read or written
};

/// What went wrong: a code for programs, the VkResult where there is one, and one sentence with the numbers.
struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  VkResult vk_result = VK_SUCCESS;
  std::string message;
};

/// Either a value or an Error. Reading the value of a failed Result is a bug of the caller (asserted).
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return assert(ok()), *std::get_if<0>(&state_); }
  const T& value() const& { return assert(ok()), *std::get_if<0>(&state_); }
  T&& value() && { return assert(ok()), std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const { return assert(!ok()), *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

/// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit on purpose

  [[nodiscard]] bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Error& error() const { return assert(!ok()), *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace vkattn
