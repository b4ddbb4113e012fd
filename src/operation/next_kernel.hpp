// What a plan does where its kernel does not work out.
#pragma once

#include <vkattn/plan.hpp>
#include <vkattn/result.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/message.hpp"
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
template <class Make, class IsOfKernel>
[[nodiscard]] auto with_next_kernels(const Log& log, const PlanOptions& options, Make&& make,
                                     IsOfKernel&& is_of_kernel) {
  PlanOptions attempt = options;
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

/// Options with what a tuning file has for a problem.
struct TunedOptions {
  PlanOptions options;
  std::string what;  ///< for describe()
};

/// A kernel with block sizes that were measured, in words; an error where they are not among those that are
/// known: of a file made by hand nothing is used that no test has seen.
template <class Tile>
[[nodiscard]] Result<std::string> known_tile(std::string_view kernel, const Tile& tile,
                                             const std::vector<Tile>& known) {
  if (std::find(known.begin(), known.end(), tile) != known.end()) {
    return message(kernel, " (", to_string(tile), ")");
  }
  return unsupported("the block sizes ", to_string(tile), " are not in the tile table");
}

/// Looks for what was measured: `find(tuning)` is what `tuning` has for the problem, or null, and
/// `apply(tuned, options)` puts it into options, or says why it cannot be used. `note` becomes a line for
/// describe().
template <class Find, class Apply>
[[nodiscard]] std::optional<TunedOptions> tuned_options(const PlanOptions& options, std::string& note,
                                                        Find&& find, Apply&& apply) {
  if (!options.tuning) return std::nullopt;
  const Tuning& tuning = *options.tuning;
  if (!tuning.warning.empty()) note = message("tuning: ", tuning.warning);
  const auto* const tuned = find(tuning);
  if (tuned == nullptr) return std::nullopt;
  TunedOptions found{options, {}};
  const Result<std::string> name = apply(*tuned, found.options);
  const bool is_other = !options.kernel.empty() && options.kernel != found.options.kernel;
  if (is_other) return std::nullopt;
  const std::string where = message(", measured for '", tuned->problem, "' in ", tuning.source);
  if (!name) {
    note = message("tuning: cannot use ", found.options.kernel, where, ": ", name.error().message);
    return std::nullopt;
  }
  found.what = *name + where;
  return found;
}

/// A plan by what was measured, where that works out, else of the first kernel that does.
template <class Make, class IsOfKernel>
[[nodiscard]] auto with_tuned_kernel(const Log& log, const PlanOptions& options,
                                     const std::optional<TunedOptions>& tuned, std::string& note, Make&& make,
                                     IsOfKernel&& is_of_kernel) {
  if (tuned) {
    std::string_view kernel;
    auto made = make(tuned->options, kernel);
    if (made) {
      note = message("tuning: ", tuned->what);
      return made;
    }
    // Whatever it is: a file changes nothing about whether there is a plan.
    log_refused_kernel(log, tuned->options.kernel, made.error());
    note = message("tuning: cannot use ", tuned->what, ": ", made.error().message);
  }
  return with_next_kernels(log, options, make, is_of_kernel);
}

}  // namespace vkattn::detail
