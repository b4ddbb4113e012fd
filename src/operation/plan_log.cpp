// What the log is told of every plan as it is made.
#include <cmath>

#include "operation/plan_state.hpp"
#include "program/dispatch_limits.hpp"
#include "vulkan/debug.hpp"

namespace vkattn::detail {

namespace {

/// Of the first dispatch that is estimated above the limit: a unit of work by itself is not cut.
void warn_of_long_dispatches(const PlanState& plan) {
  const Log& log = plan.device->log;
  const std::string_view advice = plan.operation->way_to_shorten();
  if (advice.empty() || !is_logged(log, LogLevel::kWarning)) return;
  const std::uint64_t most = dispatch_limit_ns(plan.device->capabilities, plan.options.max_dispatch_ns);
  if (most == 0) return;
  const ProgramDesc& program = plan.program->desc();
  for (const ProgramStep& step : program.steps) {
    if (step.estimated_ns <= static_cast<double>(most)) continue;
    write_log(log, LogLevel::kWarning, "a dispatch of ", program.passes[step.pass].name,
              " is estimated to take ", std::llround(step.estimated_ns), " ns; max_dispatch_ns is ", most,
              ": ", advice);
    return;
  }
}

}  // namespace

void log_plan(const PlanState& plan) {
  const Log& log = plan.device->log;
  warn_of_long_dispatches(plan);
  log_description(log, plan);
  // The description has the line of a missed form; where nobody listens to it, that line is a warning.
  const bool is_told = is_logged(log, LogLevel::kDetail) || !is_logged(log, LogLevel::kWarning);
  if (is_told) return;
  const std::string hint = plan.missed_form();
  if (!hint.empty()) write_log(log, LogLevel::kWarning, hint);
}

}  // namespace vkattn::detail
