// Limits of dispatches in time and in units of work.
#pragma once

#include <vkattn/capabilities.hpp>

#include <cstdint>

#include "program/program.hpp"

namespace vkattn::detail {

/// Floating-point operations per nanosecond of a shader whose invocations share nothing: a guess, low on
/// purpose. It only bounds the time of dispatches, and is never shown as a speed.
[[nodiscard]] double assumed_flops_per_ns(const Capabilities& capabilities);

/// The limit in nanoseconds that a plan's max_dispatch_ns stands for; 0: no limit.
[[nodiscard]] std::uint64_t dispatch_limit_ns(const Capabilities& capabilities,
                                              std::uint64_t max_dispatch_ns);
/// Limits of dispatches whose units take `unit_ns` each, by a plan's max_dispatch_ns.
[[nodiscard]] UnitLimits dispatch_limits(const Capabilities& capabilities, std::uint64_t max_dispatch_ns,
                                         double unit_ns);

}  // namespace vkattn::detail
