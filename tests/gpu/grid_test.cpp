// Every kernel on the grid of problems, against the float64 reference.
#include "support/grid.hpp"
#include "gpu/support.hpp"

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

/// The same for kernels that take 16-bit types only and do not run on every device.
class MatrixGrid : public Grid {
 protected:
  void SetUp() override {
    Grid::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const std::string reason = reason_against(runtime(), GetParam().kernel, "64x64 d64 f16");
    if (!reason.empty()) GTEST_SKIP() << GetParam().kernel << " cannot run here: " << reason;
  }
};

TEST_P(MatrixGrid, MatchesTheReference) {
  RunOptions options;
  options.kernel = GetParam().kernel;
  for (const std::string& problem : GetParam().problems) {
    // A layout that the kernel cannot express is refused by name; others run.
    const auto plan = make_plan(runtime(), parsed(problem).desc, options);
    if (!plan.ok() && plan.error().message.find("tensor addressing") != std::string::npos) continue;
    EXPECT_TRUE(runs_right(runtime(), problem, options));
  }
}

std::vector<GridGroup> covering() {
  return grid_part(covering_grid(), wanted_test_part());
}
std::vector<GridGroup> float16(const char* kernel) {
  return grid_part(float16_grid(kernel), wanted_test_part());
}
/// Thousands of groups: made only where they are asked for.
std::vector<GridGroup> full() {
  return full_grid_is_wanted() ? grid_part(full_grid(), wanted_test_part()) : std::vector<GridGroup>();
}
std::vector<GridGroup> full_float16(const char* kernel) {
  return full_grid_is_wanted() ? grid_part(full_float16_grid(kernel), wanted_test_part())
                               : std::vector<GridGroup>();
}

INSTANTIATE_TEST_SUITE_P(Covering, Grid, testing::ValuesIn(covering()), group_name);
INSTANTIATE_TEST_SUITE_P(Matrix, MatrixGrid, testing::ValuesIn(float16("matrix")), group_name);
INSTANTIATE_TEST_SUITE_P(Matrix2, MatrixGrid, testing::ValuesIn(float16("matrix2")), group_name);
INSTANTIATE_TEST_SUITE_P(Full, Grid, testing::ValuesIn(full()), group_name);
INSTANTIATE_TEST_SUITE_P(FullMatrix, MatrixGrid, testing::ValuesIn(full_float16("matrix")), group_name);
INSTANTIATE_TEST_SUITE_P(FullMatrix2, MatrixGrid, testing::ValuesIn(full_float16("matrix2")), group_name);

}  // namespace
}  // namespace vkattn::tests
