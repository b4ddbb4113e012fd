// The rules of docs/semantics.md for numbers that a device may flush, and for sums that float32 may not hold.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "attention/window.hpp"
#include "forward/params.hpp"
#include "harness/problem_run.hpp"
#include "harness/share.hpp"
#include "reference/philox.hpp"
#include "reference/reference.hpp"
#include "reference/storage_tolerance.hpp"
#include "support/host_problem.hpp"
#include "support/problem_text.hpp"
#include "support/text.hpp"

namespace vkattn::tests {
namespace {

using reference::kUndefined, reference::Row;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Multiplies the numbers of a tensor by a factor.
void multiply(std::vector<std::byte>& tensor, float factor) {
  std::vector<float> all = numbers<float>(tensor);
  for (float& number : all) number *= factor;
  put(tensor, all);
}

/// Counts results that queries of 0 change by more than the tolerance of the problem's results.
int beyond_tolerance(HostProblem host) {
  const AttentionDesc desc = host.problem.desc.resolved();
  std::vector<Row> rows;
  for_each_row(host, [&](auto b, auto h, auto i) { rows.push_back(host.row(b, h, i)); });
  multiply(host.query, 0);
  int beyond = 0;
  std::size_t n = 0;
  for_each_row(host, [&](auto b, auto h, auto i) {
    const Row& row = rows[n++];
    const Row flushed = host.row(b, h, i);
    beyond += std::abs(row.lse - flushed.lse) > reference::lse_tolerance(desc, row);
    for (std::size_t d = 0; d < row.output.size(); ++d) {
      beyond += std::abs(row.output[d] - flushed.output[d]) >
                reference::output_tolerance(desc, row, static_cast<std::int64_t>(d));
    }
    for (std::size_t j = 0; j < row.weights.size(); ++j) {
      beyond += std::abs(row.weights[j] - flushed.weights[j]) >
                reference::weight_tolerance(desc, row, static_cast<std::int64_t>(j));
    }
  });
  return beyond;
}

TEST(Float32Ends, SmallQueriesMayCountAsZero) {
  for (const char* const stage : {"scores", "probabilities"}) {
    HostProblem host(std::string("h2 4x6 d8 lse weights=") + stage);
    EXPECT_GT(beyond_tolerance(host), 20) << "queries of ordinary size";
    multiply(host.query, 2e-39F);
    multiply(host.key, 0x1p126F);
    EXPECT_EQ(beyond_tolerance(host), 0) << stage;
    multiply(host.query, 64);
    EXPECT_GT(beyond_tolerance(host), 20) << "queries that no device flushes";
  }
}

/// The numbers are not small themselves, but their product is, or the scaled query.
TEST(Float32Ends, SmallProductsMayCountAsZero) {
  EXPECT_EQ(beyond_tolerance(HostProblem("4x6 d8 lse magnitude=1e-20 scale=1e38")), 0);
  HostProblem scaled("4x6 d8 lse scale=1e-32");
  multiply(scaled.query, 1e-5F);
  multiply(scaled.key, 1e34F);
  EXPECT_GT(beyond_tolerance(scaled), 0);
  multiply(scaled.query, 0x1p-10F);
  multiply(scaled.key, 1024);
  EXPECT_EQ(beyond_tolerance(scaled), 0);
}

TEST(Float32Ends, NothingIsAllowedForOrdinaryNumbers) {
  for (const char* const text : {"4x6 d8", "4x6 d8 magnitude=1000", "4x6 d8 magnitude=1e-6", "4x6 d8 f16"}) {
    EXPECT_LT(HostProblem(text).row(0, 0, 0).score_flushed, 1e-36) << text;
  }
}

TEST(Float32Ends, WhatOverflowsIsUndefined) {
  const auto tolerance = [](const HostProblem& host) {
    return reference::output_tolerance(host.problem.desc.resolved(), host.row(0, 0, 3), 0);
  };
  EXPECT_EQ(tolerance(HostProblem("4x4 d4 magnitude=1e38 data=equal")), kUndefined) << "<q, k>";
  EXPECT_EQ(tolerance(HostProblem("4x4 d4 magnitude=1e18 scale=1e20 data=equal")), kUndefined) << "a score";
  HostProblem query("4x4 d4 scale=1e30 magnitude=1e-35 data=equal");
  EXPECT_GT(tolerance(query), 0);
  put(query.query, 12, 1e10F);
  EXPECT_EQ(tolerance(query), kUndefined) << "a query once it is scaled";
  EXPECT_GT(tolerance(HostProblem("4x4 d4 magnitude=1e18 scale=1e18 data=equal")), 0);
  EXPECT_GT(tolerance(HostProblem("4x4 d4 magnitude=1e36 scale=1e-38 data=equal")), 0);
  // A key that the row does not see makes nothing undefined.
  HostProblem causal("4x4 d4 causal data=equal");
  put(causal.key, 12, 3e38F);
  put(causal.key, 13, 3e38F);
  EXPECT_EQ(tolerance(causal), kUndefined);
  EXPECT_GT(reference::output_tolerance(causal.problem.desc.resolved(), causal.row(0, 0, 2), 0), 0);
  // Four values of 1e38 with a weight of 1 each, before their sum is divided.
  HostProblem values("4x4 d4 data=equal");
  for (std::size_t j = 0; j < 4; ++j) put(values.value, 4 * j, 1e38F);
  EXPECT_EQ(tolerance(values), kUndefined);
  EXPECT_GT(reference::output_tolerance(values.problem.desc.resolved(), values.row(0, 0, 3), 1), 0);
}

/// The results of infinities and NaN are defined.
TEST(Float32Ends, InfinitiesDoNotMakeAnythingUndefined) {
  for (const float number :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    HostProblem host("4x4 d4 lse weights=scores");
    put(host.key, 5, number);
    const Row row = host.row(0, 0, 0);
    const AttentionDesc desc = host.problem.desc.resolved();
    EXPECT_NE(row.score_flushed, kUndefined);
    EXPECT_NE(reference::output_tolerance(desc, row, 0), kUndefined);
    EXPECT_NE(reference::weight_tolerance(desc, row, 1), kUndefined);
  }
}

TEST(Float32Ends, ChecksTakeAnyNumberWhereNothingIsDefined) {
  for (const double got : {0.0, kNan, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(harness::share_of(1, got, kUndefined, DataType::kFloat32), 0) << got;
    EXPECT_GT(harness::share_of(1, got, 0.5, DataType::kFloat32), 1) << got;
  }
  harness::CheckReport report;
  const harness::CheckedElement element{{0, 0, 0}, harness::CheckedOutput::kGradient, 2, "dQ"};
  for (const double got : {kNan, 5.0}) report.add(element, 1, got, kUndefined, DataType::kFloat32);
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(report.elements_telling, 0);
  EXPECT_EQ(report.elements_checked, 0);
  EXPECT_TRUE(
      has(report.to_string(), "2 elements are undefined, as sums may exceed float32, and not compared"));
}

/// Kernels and the reference take dropout as a float32. That makes a difference if few elements are kept.
TEST(Float32Ends, DropoutIsAFloat32) {
  for (const double given : {0.1, 0.3, 0.9999999}) {
    AttentionDesc desc = desc_of("4x6 d8");
    desc.dropout = static_cast<float>(given);
    detail::PlannedWindow window;
    window.window = detail::whole_window(desc.resolved());
    const auto params = detail::window_feature_params(desc.resolved(), window);
    EXPECT_EQ(params.dropout_scale, static_cast<float>(reference::kept_factor(desc.dropout)));
    EXPECT_EQ(params.dropout_threshold, std::floor(static_cast<double>(desc.dropout) * 0x1p32));
  }
  EXPECT_GT(reference::kept_factor(0.9999999F) / (1 / (1 - 0.9999999)), 0.8);
  EXPECT_LT(reference::kept_factor(0.9999999F) / (1 / (1 - 0.9999999)), 0.9);
}

}  // namespace
}  // namespace vkattn::tests
