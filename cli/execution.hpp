// How long an execution took. The first one may contain the driver's compilation.
#pragma once

#include <optional>
#include <string>

#include "console.hpp"
#include "error.hpp"

namespace vkattn::cli {

struct Execution {
  double first_ns = 0;
  std::optional<double> second_ns;
};

/// Executes the plan. Some drivers compile a pipeline at its first use. So a first execution of more than a
/// second is followed by another, if its `flops` (bench::count_work()) would be short even at one a
/// nanosecond.
template <class Run, class Plan>
[[nodiscard]] Execution execute_timed(Run& run, const Plan& plan, double flops) {
  constexpr double kLongNs = 1e9;
  Execution execution{take(run.execute(plan)), {}};
  if (execution.first_ns > kLongNs && flops < execution.first_ns / 4) {
    execution.second_ns = take(run.execute(plan));
  }
  return execution;
}

/// Such as "18.5 s for the first execution, most of it the driver's compilation (12.1 ms for the second)".
[[nodiscard]] inline std::string execution_text(const Execution& execution) {
  const std::string first = console::duration(execution.first_ns) + " for the first execution";
  if (!execution.second_ns) return first;
  const std::string second = console::duration(*execution.second_ns) + " for the second";
  if (*execution.second_ns > execution.first_ns / 2) return first + " and " + second;
  return first + ", most of it the driver's compilation (" + second + ")";
}

}  // namespace vkattn::cli
