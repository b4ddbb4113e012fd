// How tests on a device choose their problems: covering sets, and parts of lists.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "support/pairwise.hpp"
#include "support/test_part.hpp"

namespace {

using vkattn::tests::FactorRow;
using vkattn::tests::PairCoverage;

TEST(Pairwise, EveryPairMeets) {
  const std::vector<std::size_t> sizes{4, 3, 5, 2, 2};
  const std::vector<FactorRow> rows = vkattn::tests::pairwise_rows(sizes, 3);
  PairCoverage coverage(sizes);
  for (const FactorRow& row : rows) coverage.cover(row);
  EXPECT_EQ(coverage.open_pairs(), 0U);
  EXPECT_GE(rows.size(), 20U);  // 4 x 5 values of the two largest factors
  EXPECT_LE(rows.size(), 26U);
  EXPECT_EQ(rows, vkattn::tests::pairwise_rows(sizes, 3));
}

TEST(TestPart, TextIsReadOrRefused) {
  const auto whole = vkattn::tests::parse_test_part("");
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->count, 1U);
  const auto part = vkattn::tests::parse_test_part("3/8");
  ASSERT_TRUE(part.has_value());
  EXPECT_EQ(part->index, 3U);
  EXPECT_EQ(part->count, 8U);
  for (const char* text : {"0/4",   "5/4",  "1/0",   "0/0",   "0/24",
                           "25/24", "x/y",  "1/24x", "1",     "1/",
                           "/4",    "1/4 ", " 1/4",  "1/4/2", "-1/4",
                           "1/-4",  "a/b",  "1.5/4", "+1/4",  "1/99999999999999999999999"}) {
    EXPECT_FALSE(vkattn::tests::parse_test_part(text).has_value()) << text;
  }
}

TEST(TestPart, ListsAreDisjointCompleteAndNeverEmpty) {
  for (const char* salt : {"", "Kernels/Pairs.OfFeatures/lane", "Kernels/Edge.NoKeysAtAll/tile"}) {
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

// The kernels of a test get different parts of its list.
TEST(TestPart, ListsBeginElsewhereForEachTest) {
  std::set<std::vector<std::size_t>> parts;
  for (const char* salt :
       {"Feature.All/lane", "Feature.All/tile", "Feature.All/decode", "Feature.All/matrix"}) {
    parts.insert(vkattn::tests::places_of_part(43, {1, 8}, salt));
  }
  EXPECT_GT(parts.size(), 1U);
}

}  // namespace
