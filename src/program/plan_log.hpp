// What the log is told of every plan as it is made.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "program/program.hpp"
#include "vulkan/debug.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::detail {

/// What there is to tell of a plan beside its description. Plans that are made of others have nothing more:
/// these have told of themselves.
struct PlanNews {
  const ProgramDesc* program = nullptr;        ///< whose dispatches may take too long; null: that of others
  std::uint64_t max_dispatch_ns = 0;           ///< of the plan's options
  std::string_view advice{};                   ///< how dispatches become shorter
  std::function<std::string()> missed_form{};  ///< the line of missed_form(), where the plan has such
};

/// Of the first dispatch that is estimated above the limit: a unit of work by itself is not cut.
void warn_of_long_dispatches(const DeviceState& device, const PlanNews& news);

/// Every create() ends with it. Where the description is not logged, what it says of a missed form is a
/// warning.
template <class Plan>
void log_plan(const DeviceState& device, const Plan& plan, const PlanNews& news = {}) {
  warn_of_long_dispatches(device, news);
  log_description(device.log, plan);
  const bool is_told = is_logged(device.log, LogLevel::kDetail) || !is_logged(device.log, LogLevel::kWarning);
  if (is_told || !news.missed_form) return;
  const std::string hint = news.missed_form();
  if (!hint.empty()) write_log(device.log, LogLevel::kWarning, hint);
}

}  // namespace vkattn::detail
