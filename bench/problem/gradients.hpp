// The gradients of a problem.
#pragma once

#include <vkattn/backward.hpp>

namespace vkattn::bench {

/// Asks for all gradients that a problem has.
[[nodiscard]] BackwardDesc with_all_gradients(const AttentionDesc& desc);

}  // namespace vkattn::bench
