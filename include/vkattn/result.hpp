/// @file
/// Errors as values: every call that can fail returns a Result; nothing is thrown across the API.
#pragma once

#include <cassert>
#include <cstdint>
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
  kNotFound,         ///< no such device, kernel, layer or loader; of the tool, no such suite or file
  kIo,               ///< a file could not be read or written, or the host failed otherwise
};

/// What went wrong: a code for programs, the VkResult where there is one, and one sentence with the numbers.
struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;  ///< for programs
  std::int32_t vk_result = 0;                    ///< a VkResult; 0: none failed
  std::string message;                           ///< for a person: what, the numbers, what to do
};

/// Either a value or an Error. Reading the value of a failed Result is a bug of the caller (asserted).
template <class T>
class [[nodiscard]] Result {
 public:
  /// Success.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit on purpose
  /// Failure.
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose

  /// That there is a value.
  /// @{
  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  /// @}

  /// The value, where ok().
  /// @{
  T& value() & { return assert(ok()), *std::get_if<0>(&state_); }
  const T& value() const& { return assert(ok()), *std::get_if<0>(&state_); }
  T&& value() && { return assert(ok()), std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  /// @}

  /// What went wrong, where not ok().
  [[nodiscard]] const Error& error() const { return assert(!ok()), *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

/// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  /// Success.
  Result() = default;
  /// Failure.
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit on purpose

  /// That nothing failed.
  /// @{
  [[nodiscard]] bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  /// @}
  /// What went wrong, where not ok().
  [[nodiscard]] const Error& error() const { return assert(!ok()), *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace vkattn
