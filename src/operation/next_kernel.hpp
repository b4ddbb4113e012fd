// How a plan takes another kernel if one fails.
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

/// Whether the error says that the driver does not compile a kernel.
[[nodiscard]] inline bool is_not_compiled(const Error& error) {
  return error.code == ErrorCode::kUnsupported && error.vk_result != VK_SUCCESS;
}

/// Logs a refusal of the driver or of the compiler of score functions. Refusals by a device's limits are told
/// by describe() alone.
inline void log_refused_kernel(const Log& log, std::string_view kernel, const Error& error) {
  if (error.code == ErrorCode::kUnsupported || error.vk_result != VK_SUCCESS)
    write_log(log, LogLevel::kWarning, kernel, ": ", error.message);
}

/// Makes a plan of the first kernel that does not fail. `make(options, kernel)` makes one by the options and
/// says which kernel it took. If `is_of_kernel(error)` is false, every kernel would fail. A kernel that was
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

/// What became of the tuning file.
struct TuningNote {
  std::string line;  ///< of describe(); may be empty
  std::string used;  ///< kernel, block sizes and where they were measured; empty if the plan is not of them
};

/// The line of a plan that is not of the measured block sizes.
[[nodiscard]] inline std::string cannot_use_tuned(std::string_view what, std::string_view why) {
  return message("tuning: cannot use ", what, ": ", why);
}

/// Options changed by what a tuning file has for a problem.
struct TunedOptions {
  PlanOptions options;
  std::string what;  ///< for describe()
};

/// A kernel with measured block sizes, in words. Block sizes outside the tile table are an error: a file may
/// be made by hand, and no test has seen them.
template <class Tile>
[[nodiscard]] Result<std::string> known_tile(std::string_view kernel, const Tile& tile,
                                             const std::vector<Tile>& known) {
  if (std::find(known.begin(), known.end(), tile) != known.end()) {
    return message(kernel, " (", to_string(tile), ")");
  }
  return unsupported("the block sizes ", to_string(tile), " are not in the tile table");
}

/// Looks for a measured problem. `find(tuning)` gives the one that is nearest, or null. `apply(tuned,
/// options)` puts it into the options, or says why it cannot be used. `note` becomes a line of describe().
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
    note = cannot_use_tuned(found.options.kernel + where, name.error().message);
    return std::nullopt;
  }
  found.what = *name + where;
  return found;
}

/// Makes a plan by the measured options; if that fails, of the first kernel that does not.
template <class Make, class IsOfKernel>
[[nodiscard]] auto with_tuned_kernel(const Log& log, const PlanOptions& options,
                                     const std::optional<TunedOptions>& tuned, TuningNote& note, Make&& make,
                                     IsOfKernel&& is_of_kernel) {
  if (tuned) {
    std::string_view kernel;
    auto made = make(tuned->options, kernel);
    if (made) {
      note = {message("tuning: ", tuned->what), tuned->what};
      return made;
    }
    // Any error: a tuning file never decides whether there is a plan.
    log_refused_kernel(log, tuned->options.kernel, made.error());
    note.line = cannot_use_tuned(tuned->what, made.error().message);
  }
  return with_next_kernels(log, options, make, is_of_kernel);
}

}  // namespace vkattn::detail
