// What a plan does where its kernel does not work out.
#pragma once

#include <vkattn/kernels.hpp>
#include <vkattn/result.hpp>

#include <string>
#include <string_view>

#include "vulkan/debug.hpp"

namespace vkattn::detail {

/// That the driver does not compile a kernel.
[[nodiscard]] inline bool is_not_compiled(const Error& error) {
  return error.code == ErrorCode::kUnsupported && error.vk_result != VK_SUCCESS;
}

/// What a driver or the compiler of score functions refused is for the log; what a device's limits do not
/// allow is for descriptions alone.
inline void log_refused_kernel(const Log& log, std::string_view kernel, const Error& error) {
  if (error.code == ErrorCode::kUnsupported || error.vk_result != VK_SUCCESS)
    write_log(log, LogLevel::kWarning, kernel, ": ", error.message);
}

/// A plan of the first kernel that works out: `make(options, kernel)` makes one by the options and says which
/// kernel it took. Errors for which `is_of_kernel(error)` is not true are those of every kernel. One that was
/// asked for by name has none after it.
template <class Options, class Make, class IsOfKernel>
[[nodiscard]] auto with_next_kernels(const Log& log, const Options& options, Make&& make,
                                     IsOfKernel&& is_of_kernel) {
  Options attempt = options;
  for (;;) {
    std::string_view kernel;
    auto made = make(attempt, kernel);
    if (made || kernel.empty() || !is_of_kernel(made.error())) return made;
    const Error& error = made.error();
    log_refused_kernel(log, kernel, error);
    if (!options.kernel.empty()) return made;
    attempt.refusals.push_back({std::string(kernel), error.message});
  }
}

}  // namespace vkattn::detail
