// The options of a plan that have a different name in each operation: block sizes, and the number of parts
// that the work is cut into.
#pragma once

#include <vkattn/plan.hpp>

#include <cstdint>
#include <string>
#include <string_view>

#include "problem/problem.hpp"

namespace vkattn::bench {

/// A member of PlanOptions that holds a number.
using NumberOption = std::uint32_t PlanOptions::*;

/// The option for the number of parts: of the keys of attention, or of the inner dimension of a product. Null
/// for gradients, which have no such parts.
[[nodiscard]] NumberOption parts_option(Operation operation);

/// Reads block sizes, such as "threads=256,columns=16,rows=4". The names are those of the operation's
/// kernels.
[[nodiscard]] Result<void> read_tile(std::string_view text, Operation operation, PlanOptions& options);

/// The block sizes in words. Empty if none are set.
[[nodiscard]] std::string tile_text(const PlanOptions& options);

}  // namespace vkattn::bench
