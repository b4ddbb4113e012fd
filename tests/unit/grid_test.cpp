// The test grid itself: every problem is valid, and the covering set covers what it says.
#include "support/grid.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "problem/problem.hpp"
#include "support/pairwise.hpp"
#include "support/published_grid.hpp"

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

TEST(PublishedGrid, EveryProblemIsValid) {
  std::set<std::string> names;
  std::size_t problems = 0, longest = 0;
  for (const auto& group : vkattn::tests::published_grid(true)) {
    EXPECT_TRUE(names.insert(group.name).second) << group.name;
    for (const std::string& text : group.problems) {
      const auto problem = vkattn::bench::parse_problem(text);
      ASSERT_TRUE(problem.ok()) << text << ": " << problem.error().message;
      const vkattn::Status status = vkattn::validate(problem->desc);
      EXPECT_TRUE(status.ok()) << text << ": " << status.error().message;
      longest = std::max(longest, static_cast<std::size_t>(problem->desc.kv_length));
      ++problems;
    }
  }
  EXPECT_EQ(names.size(), 5U * 12U);
  EXPECT_GT(problems, 400U);
  EXPECT_LT(problems, 700U);
  EXPECT_EQ(longest, 131072U);
}

TEST(PublishedGrid, TheWholeIsTheProduct) {
  std::size_t problems = 0, flash = 0;
  for (const auto& group : vkattn::tests::published_grid(false)) {
    problems += group.problems.size();
    if (group.name == "flash_d59") flash = group.problems.size();
    ASSERT_TRUE(vkattn::bench::parse_problem(group.problems.back()).ok()) << group.problems.back();
  }
  EXPECT_EQ(flash, 10U * 3U * 2U * 4U * 2U * 2U * 2U);
  EXPECT_GT(problems, 190000U);
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
      const auto problem = vkattn::bench::parse_problem(text);
      ASSERT_TRUE(problem.ok()) << text << ": " << problem.error().message;
      EXPECT_TRUE(vkattn::bench::parse_problem(to_string(*problem)).ok());
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
      const auto problem = vkattn::bench::parse_problem(text);
      ASSERT_TRUE(problem.ok()) << text << ": " << problem.error().message;
      EXPECT_EQ(problem->desc.query.type, vkattn::DataType::kFloat16) << text;
      EXPECT_EQ(problem->desc.value.type, vkattn::DataType::kFloat16) << text;
    }
  }
  EXPECT_GE(names.size(), 30U);
}

std::map<std::string, std::size_t> groups_of_kernels(const std::vector<vkattn::tests::GridGroup>& groups) {
  std::map<std::string, std::size_t> counts;
  for (const auto& group : groups) ++counts[group.kernel];
  return counts;
}

TEST(GridPart, PartsAreDisjointCompleteAndEven) {
  const auto whole = vkattn::tests::covering_grid();
  std::map<std::string, std::vector<std::string>> problems;
  for (const auto& group : whole) problems[group.name] = group.problems;
  const auto in_whole = groups_of_kernels(whole);
  for (const std::size_t count : {1U, 2U, 4U, 7U, 8U}) {
    std::set<std::string> names;
    for (std::size_t index = 1; index <= count; ++index) {
      const auto part = vkattn::tests::grid_part(whole, {index, count});
      for (const auto& group : part) {
        EXPECT_TRUE(names.insert(group.name).second) << group.name << " is in two parts of " << count;
        EXPECT_EQ(group.problems, problems[group.name]) << group.name;
      }
      for (const auto& [kernel, groups] : groups_of_kernels(part)) {
        EXPECT_GE(groups, in_whole.at(kernel) / count) << kernel << " in part " << index << " of " << count;
        EXPECT_LE(groups, in_whole.at(kernel) / count + 1)
            << kernel << " in part " << index << " of " << count;
      }
      EXPECT_EQ(groups_of_kernels(part).size(), in_whole.size()) << "part " << index << " of " << count;
    }
    EXPECT_EQ(names.size(), whole.size()) << count << " parts";
  }
}

/// How many groups have each pair of a kernel with a head dim, a type or a feature.
std::map<std::string, std::size_t> values_in(const std::vector<vkattn::tests::GridGroup>& groups) {
  std::map<std::string, std::size_t> counts;
  for (const auto& group : groups) {
    ++counts[group.name.substr(0, group.name.find('_', group.kernel.size() + 1))];
    for (const char* word : {"_f32_", "_f16_", "_bf16_", "_f16bf16f32f16_", "_f32f16bf16_", "_bf16f32f16_",
                             "_f16tof32_", "_full", "_offset", "_right", "_lse", "_lengths", "_aligned"}) {
      if (group.name.find(word) != std::string::npos) ++counts[group.kernel + word];
    }
  }
  return counts;
}

/// Of the halves: who has time for no more loses no value of a factor.
TEST(GridPart, EachHalfHasEveryValueThatTwoGroupsHave) {
  const auto whole = vkattn::tests::covering_grid();
  for (const std::size_t index : {1U, 2U}) {
    const auto half = values_in(vkattn::tests::grid_part(whole, {index, 2}));
    for (const auto& [value, groups] : values_in(whole)) {
      if (groups < 2) continue;
      EXPECT_EQ(half.count(value), 1U) << value << ", which " << groups << " groups have, in half " << index;
    }
  }
}

TEST(TestPart, TextIsReadOrRefused) {
  const auto whole = vkattn::tests::parse_test_part("");
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->count, 1U);
  const auto part = vkattn::tests::parse_test_part("3/8");
  ASSERT_TRUE(part.has_value());
  EXPECT_EQ(part->index, 3U);
  EXPECT_EQ(part->count, 8U);
  for (const char* text : {"0/4", "5/4", "1/0", "0/0", "1", "1/", "/4", "1/4 ", " 1/4", "1/4/2", "-1/4",
                           "1/-4", "a/b", "1.5/4", "+1/4", "1/99999999999999999999999"}) {
    EXPECT_FALSE(vkattn::tests::parse_test_part(text).has_value()) << text;
  }
}

TEST(TestPart, ListsAreDisjointCompleteAndNeverEmpty) {
  for (const char* salt : {"", "Kernels/Feature.MatchesTheReference/lane", "Forms/Decode.HeadDims/shared"}) {
    for (const std::size_t size : {1U, 3U, 43U}) {
      for (const std::size_t count : {1U, 2U, 4U, 16U}) {
        std::set<std::size_t> places;
        std::size_t sum = 0;
        for (std::size_t index = 1; index <= count; ++index) {
          const auto part = vkattn::tests::places_of_part(size, {index, count}, salt);
          ASSERT_FALSE(part.empty()) << index << "/" << count << " of " << size;
          EXPECT_LT(part.back(), size);
          places.insert(part.begin(), part.end());
          sum += part.size();
        }
        EXPECT_EQ(places.size(), size) << count << " parts";
        EXPECT_EQ(sum, std::max(size, count)) << count << " parts";
      }
    }
  }
}

// The kernels of a test have different parts of its list.
TEST(TestPart, ListsBeginElsewhereForEachTest) {
  std::set<std::vector<std::size_t>> parts;
  for (const char* salt :
       {"Feature.All/lane", "Feature.All/tile", "Feature.All/decode", "Feature.All/matrix"}) {
    parts.insert(vkattn::tests::places_of_part(43, {1, 8}, salt));
  }
  EXPECT_GT(parts.size(), 1U);
}

TEST(Grid, FullGridIsValid) {
  const auto groups = vkattn::tests::full_grid();
  expect_valid(groups);
  EXPECT_EQ(groups.size(), 20U * 7U * 3U * 3U * 2U * 3U);
}

TEST(Grid, FullFloat16GridHasAllOfItsPipelines) {
  std::set<std::string> names;
  for (const auto& group : vkattn::tests::full_float16_grid("matrix2")) {
    EXPECT_EQ(group.kernel, "matrix2");
    EXPECT_TRUE(names.insert(group.name).second) << group.name;
    const auto problem = vkattn::bench::parse_problem(group.problems.front());
    ASSERT_TRUE(problem.ok()) << group.problems.front();
    EXPECT_EQ(problem->desc.key.type, vkattn::DataType::kFloat16) << group.problems.front();
  }
  EXPECT_GE(names.size(), 20U * 2U * 3U * 2U * 3U) << "dims, types, causal, lengths";
}

}  // namespace
