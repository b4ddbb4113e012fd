// Refusals on a driver that ends loops early (Capabilities::max_loop_iterations).
#pragma once

#include <vkattn/capabilities.hpp>
#include <vkattn/result.hpp>

#include <cstdint>
#include <string_view>

namespace vkattn::detail {

/// That the driver ends loops, and the reason why that matters here.
[[nodiscard]] Error loops_may_end(const Capabilities& capabilities, std::string_view reason);

/// Refuses what might take one invocation `most` iterations of all its loops, where the driver might end
/// them.
[[nodiscard]] Result<void> check_iterations(const Capabilities& capabilities, std::int64_t most);

}  // namespace vkattn::detail
