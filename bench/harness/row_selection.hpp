// Which rows of an output to compare where not all are wanted.
#pragma once

#include <vector>

#include "harness/problem_run.hpp"

namespace vkattn::harness {

/// The rows that are to be written, in ascending order: all, or first, last, around tile edges and random
/// ones.
[[nodiscard]] std::vector<reference::RowIndex> select_rows(const AttentionDesc& desc,
                                                           const reference::Inputs& inputs,
                                                           const RowSelection& selection);

}  // namespace vkattn::harness
