// See plan_log.hpp.
#include "program/plan_log.hpp"

#include <cmath>

#include "program/dispatch_limits.hpp"

namespace vkattn::detail {

void warn_of_long_dispatches(const DeviceState& device, const PlanNews& news) {
  if (news.program == nullptr || !is_logged(device.log, LogLevel::kWarning)) return;
  const std::uint64_t most = dispatch_limit_ns(device.capabilities, news.max_dispatch_ns);
  if (most == 0) return;
  for (const ProgramStep& step : news.program->steps) {
    if (step.estimated_ns <= static_cast<double>(most)) continue;
    write_log(device.log, LogLevel::kWarning, "a dispatch of ", news.program->passes[step.pass].name,
              " is estimated to take ", std::llround(step.estimated_ns), " ns; max_dispatch_ns is ", most,
              ": ", news.advice);
    return;
  }
}

}  // namespace vkattn::detail
