// What a plan does where the driver does not compile its kernel.
#pragma once

#include <vkattn/kernels.hpp>
#include <vkattn/result.hpp>

#include <string>
#include <string_view>

#include "vulkan/debug.hpp"

namespace vkattn::detail {

/// A plan of the first kernel that the driver compiles: `make(options, kernel)` makes one by the options and
/// says which kernel it took. One that was asked for by name has none after it.
template <class Options, class Make>
[[nodiscard]] auto with_next_kernels(const Log& log, const Options& options, Make&& make) {
  Options attempt = options;
  for (;;) {
    std::string_view kernel;
    auto made = make(attempt, kernel);
    if (made || kernel.empty() || !options.kernel.empty()) return made;
    const Error& error = made.error();
    if (error.code != ErrorCode::kUnsupported || error.vk_result == VK_SUCCESS) return made;
    write_log(log, LogLevel::kWarning, kernel, ": ", error.message);
    attempt.refusals.push_back({std::string(kernel), error.message});
  }
}

}  // namespace vkattn::detail
