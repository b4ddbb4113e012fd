// NaN and infinity in keys and values under the kernels on matrix units. They promise less than the others:
// what hides a key from some rows of a tile only keeps its K out of them, but not a V that is not finite.
#include <limits>

#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class MatrixNan : public MatrixKernelTest {
 protected:
  enum class Spoiled { kKeys, kKeysAndValues };

  /// Options that set all keys from the first on to `bad`, with or without their values.
  static RunOptions spoiled_from(std::int64_t first, float bad, Spoiled what) {
    RunOptions options{kernel()};
    options.prepare = [=](harness::ProblemRun& run) -> Status {
      const AttentionDesc& desc = run.problem().desc;
      for (std::int64_t h = 0; h < desc.kv_heads; ++h) {
        for (std::int64_t j = first; j < desc.kv_length; ++j) {
          Status status = write_row(runtime(), run.key(), desc.key, 0, h, j, desc.head_dim, bad);
          if (!status.ok()) return status;
          if (what == Spoiled::kKeys) continue;
          status = write_row(runtime(), run.value(), desc.value, 0, h, j, desc.value_dim, bad);
          if (!status.ok()) return status;
        }
      }
      return {};
    };
    return options;
  }
  static void skip_without_nan() {
    if (!capabilities().preserves_nan_float32) {
      GTEST_SKIP() << "the device does not promise to keep NaN (shaderSignedZeroInfNanPreserveFloat32)";
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, MatrixNan, testing::ValuesIn(kMatrixKernelNames), kernel_test_name);

TEST_P(MatrixNan, BeyondTheKeyLengthNeverLeaks) {
  for (const auto& [problem, length] : {std::pair{"h2 37x150 d24 f16 kv_lengths=70 lse", 70},
                                        {"37x150 d24 f16 kv_lengths=129", 129},
                                        {"3x150 d24 f16 kv_lengths=1 causal align=bottom-right", 1},
                                        {"37x150 d24 f16 kv_lengths=0 lse", 0}}) {
    for (const float bad : {kNan, kInfinity, -kInfinity}) {
      EXPECT_TRUE(runs_right(runtime(), problem, spoiled_from(length, bad, Spoiled::kKeysAndValues))) << bad;
    }
  }
}

TEST_P(MatrixNan, BeyondTheDiagonalOfEveryRowNeverLeaks) {
  for (const auto& [problem, rows] : {std::pair{"h2 40x64 d24 f16 causal lse", 40},
                                      {"37x64 d24 f16 causal", 37},
                                      {"9x64 d8 f16 causal", 9}}) {
    for (const float bad : {kNan, kInfinity, -kInfinity}) {
      EXPECT_TRUE(runs_right(runtime(), problem, spoiled_from(rows, bad, Spoiled::kKeysAndValues))) << bad;
    }
  }
}

/// Rows before the first bad key are right, those behind it are NaN.
TEST_P(MatrixNan, KeysHiddenFromSomeRowsOfATileDoNotLeakIntoThem) {
  skip_without_nan();
  for (const char* problem :
       part_of({"h2 64x64 d24 f16 causal lse", "hq4 hkv1 33x33 d8 f16 output=f32 causal"})) {
    for (const std::int64_t first : {1, 5, 16, 31}) {
      EXPECT_TRUE(runs_right(runtime(), problem, spoiled_from(first, kNan, Spoiled::kKeys))) << first;
    }
  }
}

TEST_P(MatrixNan, WhatIsSeenArrives) {
  skip_without_nan();
  for (const char* text : part_of(
           {"h2 40x50 d24 f16 causal lse", "40x150 d24 f16", "3x130 d64 f16 causal align=bottom-right"})) {
    const Problem problem = parsed(text);
    const AttentionDesc& desc = problem.desc;
    RunOptions options{kernel()};
    options.prepare = [&](harness::ProblemRun& run) {
      return write_row(runtime(), run.key(), desc.key, 0, 0, 20, desc.head_dim, kNan);
    };
    EXPECT_TRUE(runs_right(runtime(), problem, options));
  }
}

TEST_P(MatrixNan, StrictNonfiniteRefusesTheKernel) {
  PlanOptions options;
  options.kernel = kernel();
  options.strict_nonfinite = true;
  const AttentionDesc desc = parsed("64x64 d64 f16 causal").desc;
  const auto refused = runtime().make_plan(desc, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(names(refused.error(), ErrorCode::kUnsupported, {kernel(), "strict_nonfinite"}));
  options.kernel.clear();
  const auto plan = runtime().make_plan(desc, options);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_FALSE(plan->uses_matrix_units());
}

/// A score of -inf hides its key like a mask.
TEST_P(MatrixNan, ScoresOfMinusInfinityHide) {
  skip_without_nan();
  for (const char* problem : part_of({"9x40 d1 f16 data=uniform lse", "40x150 d1 f16 data=uniform lse"})) {
    EXPECT_TRUE(runs_right(runtime(), problem, spoiled_from(20, -kInfinity, Spoiled::kKeys)));
  }
}

}  // namespace
}  // namespace vkattn::tests
