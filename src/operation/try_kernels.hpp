// The order in which a plan's options, the tuning file and the kernels of its operation are tried, with a
// device or without one.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "operation/next_kernel.hpp"
#include "operation/operation.hpp"

namespace vkattn::detail {

/// Makes what `make(options, kernel)` makes of the operation, by the first kernel that does not fail, after
/// the checks that hold for every kernel. `note` becomes what is said of the tuning file.
template <class Make>
[[nodiscard]] auto try_kernels(Operation& operation, const PlanOptions& options,
                               const Capabilities& capabilities, const Log& log, TuningNote& note,
                               Make&& make)
    -> std::invoke_result_t<Make, const PlanOptions&, std::string_view&> {
  if (Result<void> s = check_used(options, operation.used_options(), operation.name()); !s) return s.error();
  // Checked before kernels, so that no kernel is refused for it.
  if (Result<void> s = check_statistics(options.capture_statistics, capabilities); !s) return s.error();
  if (Result<void> s = operation.check(options, capabilities); !s) return s.error();
  const auto tuned = operation.tuned(options, capabilities, note.line);
  return with_tuned_kernel(log, options, tuned, note, make,
                           [&](const Error& error) { return operation.is_of_kernel(error); });
}

}  // namespace vkattn::detail
