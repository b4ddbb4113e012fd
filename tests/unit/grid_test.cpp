// The test grid itself: every problem is valid, and the covering set covers what it says.
#include "support/grid.hpp"

#include <vkattn/problem.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "support/pairwise.hpp"

namespace {

using vkattn::tests::FactorRow;
using vkattn::tests::PairCoverage;

TEST(Pairwise, EveryPairMeets) {
  const std::vector<std::size_t> sizes{4, 3, 5, 2, 2};
  const std::vector<FactorRow> rows = vkattn::tests::pairwise_rows(sizes, 3);
  PairCoverage coverage(sizes);
  for (const FactorRow& row : rows) coverage.cover(row);
  EXPECT_EQ(coverage.open_pairs(), 0U);
  EXPECT_GE(rows.size(), 20U);  // 4 x 5 of the largest factors
  EXPECT_LE(rows.size(), 26U);
  EXPECT_EQ(rows, vkattn::tests::pairwise_rows(sizes, 3));
}

TEST(Pairwise, FixedValuesStayAndOthersAreAllowed) {
  const PairCoverage coverage({4, 4, 4});
  vkattn::tests::PartialRow partial(3);
  partial[1] = 2;
  const FactorRow row = vkattn::tests::complete_row(
      coverage, partial, 1, [](std::size_t factor, std::size_t value) { return value == factor + 1; });
  EXPECT_EQ(row, (FactorRow{1, 2, 3}));
}

TEST(Grid, CoveringSetCoversPairs) {
  const vkattn::tests::GridCoverage coverage = vkattn::tests::covering_grid_coverage();
  EXPECT_EQ(coverage.open_pipeline_pairs, 0U);
  EXPECT_EQ(coverage.open_length_pairs, 0U);
  EXPECT_LE(coverage.open_pairs * 100, coverage.pairs) << coverage.open_pairs << " of " << coverage.pairs;
}

void expect_valid(const std::vector<vkattn::tests::GridGroup>& groups) {
  std::set<std::string> names;
  for (const auto& group : groups) {
    EXPECT_TRUE(group.kernel == "lane" || group.kernel == "tile" || group.kernel == "decode");
    names.insert(group.name);
    for (const std::string& text : group.problems) {
      const auto problem = vkattn::parse_problem(text);
      ASSERT_TRUE(problem.ok()) << text << ": " << problem.error().message;
      EXPECT_TRUE(vkattn::parse_problem(vkattn::to_string(*problem)).ok());
      const vkattn::AttentionDesc& desc = problem->desc;
      if (group.kernel == "decode") {
        EXPECT_LE(desc.query_length * desc.query_heads, 16 * desc.kv_heads) << text;
      }
    }
  }
  EXPECT_EQ(names.size(), groups.size()) << "names of groups differ";
}

TEST(Grid, CoveringSetIsValidAndAboutAsLargeAsMeant) {
  const auto groups = vkattn::tests::covering_grid();
  expect_valid(groups);
  EXPECT_GE(groups.size(), 280U);
  EXPECT_LE(groups.size(), 360U);
}

TEST(Grid, Float16GridIsThatPartOfTheCoveringSet) {
  std::set<std::string> names;
  for (const auto& group : vkattn::tests::float16_grid("matrix")) {
    EXPECT_EQ(group.kernel, "matrix");
    EXPECT_TRUE(names.insert(group.name).second) << group.name;
    for (const std::string& text : group.problems) {
      const auto problem = vkattn::parse_problem(text);
      ASSERT_TRUE(problem.ok()) << text << ": " << problem.error().message;
      EXPECT_EQ(problem->desc.query.type, vkattn::DataType::kFloat16) << text;
      EXPECT_EQ(problem->desc.value.type, vkattn::DataType::kFloat16) << text;
    }
  }
  EXPECT_GE(names.size(), 30U);
}

TEST(Grid, FullGridIsValid) {
  const auto groups = vkattn::tests::full_grid();
  expect_valid(groups);
  EXPECT_EQ(groups.size(), 20U * 7U * 3U * 3U * 2U * 3U);
}

}  // namespace
