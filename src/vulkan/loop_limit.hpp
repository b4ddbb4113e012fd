// Refusals on a driver that ends loops early (Capabilities::max_loop_iterations).
#pragma once

#include <vkattn/capabilities.hpp>
#include <vkattn/result.hpp>

#include <cstdint>
#include <string_view>

namespace vkattn::detail {

/// The error: the driver ends loops early, and the reason why that matters here.
[[nodiscard]] Error loops_may_end(const Capabilities& capabilities, std::string_view reason);

/// Refuses a problem whose invocations may take `most` iterations of all loops, if the driver might end these
/// early.
[[nodiscard]] Result<void> check_iterations(const Capabilities& capabilities, std::int64_t most);

}  // namespace vkattn::detail
