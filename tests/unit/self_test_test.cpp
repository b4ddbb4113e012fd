// What a self-test calls right and wrong.
#include "runtime/self_test.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "problem/problem.hpp"

namespace vkattn::detail {
namespace {

using bench::parse_problem;

/// Two keys of equal scores: each output is the mean of their values, the lse log(2).
class FirstDifference : public testing::Test {
 protected:
  FirstDifference() : desc_(parse_problem("2x2 d1 lse").value().desc) {
    put(host_[&AttentionTensors::query], {0, 0});
    put(host_[&AttentionTensors::key], {1, 2});
    put(host_[&AttentionTensors::value], {3, 5});
    put(host_[&AttentionTensors::output], {4, 4});
    put(host_[&AttentionTensors::lse], {std::log(2.0F), std::log(2.0F)});
  }
  static void put(std::vector<std::byte>& bytes, const std::vector<float>& values) {
    const auto whole = std::as_bytes(std::span(values));
    bytes.assign(whole.begin(), whole.end());
  }
  [[nodiscard]] std::string difference() const { return first_difference(desc_, host_, DataType::kFloat32); }

  AttentionDesc desc_;
  SelfTestTensors host_;
};

TEST_F(FirstDifference, RightResultsHaveNone) {
  EXPECT_EQ(difference(), "");
}

TEST_F(FirstDifference, WrongOutputsAreNamed) {
  for (const float wrong :
       {0.0F, 4.01F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    put(host_[&AttentionTensors::output], {4, wrong});
    EXPECT_NE(difference().find("query 1, dim 0"), std::string::npos) << wrong << ": " << difference();
  }
}

TEST_F(FirstDifference, WrongLogSumExpsAreNamed) {
  put(host_[&AttentionTensors::lse], {std::log(2.0F), 0});
  EXPECT_NE(difference().find("query 1, lse"), std::string::npos) << difference();
}

}  // namespace
}  // namespace vkattn::detail
