// Every kernel on the grid of problems, against the float64 reference.
#include <cstdlib>

#include "gpu/support.hpp"
#include "support/grid.hpp"

namespace vkattn::tests {

void PrintTo(const GridGroup& group, std::ostream* out) {
  *out << group.name;
}

namespace {

class Grid : public GpuTest, public testing::WithParamInterface<GridGroup> {};

TEST_P(Grid, MatchesTheReference) {
  RunOptions options;
  options.kernel = GetParam().kernel;
  for (const std::string& problem : GetParam().problems) EXPECT_TRUE(runs_right(runtime(), problem, options));
}

std::string group_name(const testing::TestParamInfo<GridGroup>& info) {
  return info.param.name;
}

/// Thousands of groups: made only where they are asked for.
std::vector<GridGroup> full_grid_if_wanted() {
  const char* const wanted = std::getenv("VKATTN_FULL_GRID");
  return wanted != nullptr && *wanted == '1' ? full_grid() : std::vector<GridGroup>();
}

INSTANTIATE_TEST_SUITE_P(Covering, Grid, testing::ValuesIn(covering_grid()), group_name);
INSTANTIATE_TEST_SUITE_P(Full, Grid, testing::ValuesIn(full_grid_if_wanted()), group_name);

}  // namespace
}  // namespace vkattn::tests
