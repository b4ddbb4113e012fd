// The grid of problems that every kernel is run on, as problem strings: groups that share a pipeline, several
// problems each.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "support/test_part.hpp"

namespace vkattn::tests {

struct GridGroup {
  std::string kernel;
  std::string name;                   ///< for the test's name: letters, digits and underscores
  std::vector<std::string> problems;  ///< their pipelines are the same on most devices
};

/// A covering set: about 300 groups, half of them for decode, in which each two values of the pipeline's
/// factors meet, and whose problems cover nearly all pairs of lengths, heads, layouts, data and so on.
[[nodiscard]] std::vector<GridGroup> covering_grid();

/// The groups of the covering set with float16 Q, K and V, for a kernel that takes no others.
[[nodiscard]] std::vector<GridGroup> float16_grid(const std::string& kernel);

/// The whole product of kernel, dims, types, causal mode and length classes; everything else varies along
/// with it.
[[nodiscard]] std::vector<GridGroup> full_grid();

/// The groups of the full grid with float16 Q, K and V, for a kernel that takes no others.
[[nodiscard]] std::vector<GridGroup> full_float16_grid(const std::string& kernel);

/// The groups of a part: of each kernel's groups, by name, every count-th. The parts are disjoint, together
/// they are the whole grid, and for each kernel they differ by one group at the most.
[[nodiscard]] std::vector<GridGroup> grid_part(const std::vector<GridGroup>& groups, const TestPart& part);

/// VKATTN_FULL_GRID is 1.
[[nodiscard]] bool full_grid_is_wanted();

/// How well covering_grid() does, for its own test.
struct GridCoverage {
  std::size_t open_pipeline_pairs = 0;  ///< pairs of pipeline factors that never meet
  std::size_t open_length_pairs = 0;    ///< pairs of a query and a key length
  std::size_t open_pairs = 0;           ///< of all factors
  std::size_t pairs = 0;                ///< that can meet at all
};
[[nodiscard]] GridCoverage covering_grid_coverage();

}  // namespace vkattn::tests
