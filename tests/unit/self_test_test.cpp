// What a self-test calls right and wrong.
#include "self_test/small_problem.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/problem_text.hpp"
#include "support/text.hpp"

namespace vkattn::detail {
namespace {

using tests::has;

/// Two keys of equal scores: each output is the mean of their values, the lse log(2).
class FirstDifference : public testing::Test {
 protected:
  [[nodiscard]] std::string difference() {
    const AttentionDesc desc = tests::parsed("2x2 d1 lse").desc;
    return first_difference(desc,
                            {.query = query_, .key = key_, .value = value_, .output = output_, .lse = lse_},
                            DataType::kFloat32);
  }

  std::vector<float> query_{0, 0}, key_{1, 2}, value_{3, 5};
  std::vector<float> output_{4, 4}, lse_{std::log(2.0F), std::log(2.0F)};
};

TEST_F(FirstDifference, RightResultsHaveNone) {
  EXPECT_EQ(difference(), "");
}

TEST_F(FirstDifference, WrongOutputsAreNamed) {
  for (const float wrong :
       {0.0F, 4.01F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    output_[1] = wrong;
    EXPECT_TRUE(has(difference(), "query 1, dim 0")) << wrong;
  }
}

TEST_F(FirstDifference, WrongLogSumExpsAreNamed) {
  lse_[1] = 0;
  EXPECT_TRUE(has(difference(), "query 1, lse"));
}

}  // namespace
}  // namespace vkattn::detail
