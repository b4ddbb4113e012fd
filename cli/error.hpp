// An early end of a command: one sentence and an exit code. It is thrown inside the tool only. The library
// returns Results.
#pragma once

#include <vkattn/result.hpp>

#include <stdexcept>
#include <string>
#include <utility>

namespace vkattn::cli {

inline constexpr int kExitFailure = 1;  ///< a result is wrong, or there is no result
inline constexpr int kExitUsage = 2;    ///< the command line, or a file that it names, cannot be used
inline constexpr int kExitDevice = 3;   ///< there is no device, or it cannot do what was asked

class CommandError : public std::runtime_error {
 public:
  CommandError(int exit_code, const std::string& message)
      : std::runtime_error(message), exit_code_(exit_code) {}
  [[nodiscard]] int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

[[noreturn]] inline void fail_usage(const std::string& message) {
  throw CommandError(kExitUsage, message);
}
[[noreturn]] inline void fail(const std::string& message) {
  throw CommandError(kExitFailure, message);
}

[[noreturn]] inline void fail_device(const std::string& message) {
  throw CommandError(kExitDevice, message);
}

/// Arguments that break a rule and unusable files are usage errors. Everything else is an error of the
/// device.
[[noreturn]] inline void fail(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kIo:
      fail_usage(error.message);
    default:
      fail_device(error.message);
  }
}

/// Returns the value, or ends the command with the error.
template <class T>
T take(Result<T> result) {
  if (!result.ok()) fail(result.error());
  return std::move(result).value();
}

inline void require(const Result<void>& status) {
  if (!status.ok()) fail(status.error());
}

}  // namespace vkattn::cli
