// How a command ends early: one sentence and an exit code. Thrown inside the tool only; the library returns
// Results.
#pragma once

#include <vkattn/result.hpp>

#include <stdexcept>
#include <string>
#include <utility>

namespace vkattn::cli {

inline constexpr int kExitFailure = 1;  ///< it was tried and did not work
inline constexpr int kExitUsage = 2;    ///< what was asked for makes no sense

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

/// An argument that breaks a rule is the caller's mistake, all else a failure.
[[noreturn]] inline void fail(const Error& error) {
  throw CommandError(error.code == ErrorCode::kInvalidArgument ? kExitUsage : kExitFailure, error.message);
}

/// The value, or the end of the command.
template <class T>
T take(Result<T> result) {
  if (!result.ok()) fail(result.error());
  return std::move(result).value();
}

inline void require(const Status& status) {
  if (!status.ok()) fail(status.error());
}

}  // namespace vkattn::cli
