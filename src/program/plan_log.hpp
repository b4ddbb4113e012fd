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

/// What there is to tell of a plan beside its description.
struct PlanNews {
  const ProgramDesc* program = nullptr;  ///< whose dispatches may take too long; null: none have estimates
  std::uint64_t max_dispatch_ns = 0;     ///< of the plan's options
  std::string_view advice{};             ///< how dispatches become shorter
  std::function<std::string()> missed_form{};  ///< the line of missed_form(), where the plan has such
};

/// Of the first dispatch that is estimated above the limit: a unit of work by itself is not cut.
void warn_of_long_dispatches(const DeviceState& device, const PlanNews& news);

/// Every create() of a plan with a program ends with it; layers have only a description to add, as their
/// steps have told of themselves. Where the description is not logged, what it says of a missed form is a
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
