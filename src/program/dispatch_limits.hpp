// How long a dispatch may take, and how many units of work that is.
#pragma once

#include <vkattn/capabilities.hpp>

#include <cstdint>

#include "program/program.hpp"

namespace vkattn::detail {

/// Floating-point operations in a nanosecond of a shader whose invocations share nothing: a guess, low on
/// purpose. It bounds how long a dispatch may take, and is never shown as a speed.
[[nodiscard]] double assumed_flops_per_ns(const Capabilities& capabilities);

/// What a plan's max_dispatch_ns stands for; 0: no limit.
[[nodiscard]] std::uint64_t dispatch_limit_ns(const Capabilities& capabilities,
                                              std::uint64_t max_dispatch_ns);
/// Units of `unit_ns` each that one dispatch may have: a plan's max_dispatch_ns.
[[nodiscard]] UnitLimits dispatch_limits(const Capabilities& capabilities, std::uint64_t max_dispatch_ns,
                                         double unit_ns);

}  // namespace vkattn::detail
