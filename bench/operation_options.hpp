// Options of a plan that each operation has under a name of its own: block sizes, and into how many parts the
// work is cut.
#pragma once

#include <vkattn/plan.hpp>

#include <cstdint>
#include <string>
#include <string_view>

#include "problem/problem.hpp"

namespace vkattn::bench {

/// A member that holds a number.
using NumberOption = std::uint32_t PlanOptions::*;

/// How many parts the keys of attention or the inner dimension of a product are cut into. Null: gradients
/// have no such parts.
[[nodiscard]] NumberOption parts_option(Operation operation);

/// Reads block sizes, such as "threads=256,columns=16,rows=4", by the names that the operation's kernels have
/// for them.
[[nodiscard]] Result<void> read_tile(std::string_view text, Operation operation, PlanOptions& options);

/// The block sizes in words; empty where there are none.
[[nodiscard]] std::string tile_text(const PlanOptions& options);

}  // namespace vkattn::bench
