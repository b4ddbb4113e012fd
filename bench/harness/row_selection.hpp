// Selects the rows of an output to compare, if not all are wanted.
#pragma once

#include <vector>

#include "harness/problem_run.hpp"

namespace vkattn::harness {

/// The rows that a plan must write, in ascending order: all of them, or first, last, rows around tile edges
/// and random rows.
[[nodiscard]] std::vector<reference::RowIndex> select_rows(const AttentionDesc& desc,
                                                           const reference::Inputs& inputs,
                                                           const RowSelection& selection);

}  // namespace vkattn::harness
