// NaN and infinity in keys and values: they never reach a row that does not see them, and always reach a row
// that does. Kernels on matrix units promise less. If a key is hidden from some rows of a tile only, its K
// does not reach them, but a V that is not finite may. poison_test.cpp has keys that are hidden from all
// rows.
#include <algorithm>
#include <limits>

#include "gpu/any_kernel.hpp"
#include "support/special_numbers.hpp"

namespace vkattn::tests {
namespace {

class Nan : public AnyKernelTest {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override {
    if (capabilities().preserves_nan_float32) return AnyKernelTest::reason_to_skip();
    return "the device does not promise to keep NaN (shaderSignedZeroInfNanPreserveFloat32)";
  }

  enum class Spoiled { kKeys, kValues };

  /// Writes `bad` into keys first <= j < end of all heads.
  static void spoil(harness::ProblemRun& run, std::int64_t first, std::int64_t end, float bad, Spoiled what) {
    const AttentionDesc& desc = run.problem().desc;
    for (std::int64_t b = 0; b < desc.batch; ++b) {
      for (std::int64_t h = 0; h < desc.kv_heads; ++h) {
        for (std::int64_t j = first; j < std::min(end, desc.kv_length); ++j) {
          if (what == Spoiled::kKeys)
            write_row(runtime(), run.key(), desc.key, b, h, j, desc.head_dim, bad);
          else
            write_row(runtime(), run.value(), desc.value, b, h, j, desc.value_dim, bad);
        }
      }
    }
  }
  static RunOptions spoiled(std::int64_t first, std::int64_t end, float bad, Spoiled what) {
    RunOptions options{kernel()};
    options.prepare = [=](harness::ProblemRun& run) { spoil(run, first, end, bad, what); };
    return options;
  }
  static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

  /// Runs the problems with NaN in key 20, in one part and in three.
  static void run_seen(std::initializer_list<const char*> problems,
                       DataType arithmetic = DataType::kFloat32) {
    for (const char* text : part_of(problems)) {
      for (const Spoiled what : {Spoiled::kKeys, Spoiled::kValues}) {
        if (is_on_matrix_units() && what == Spoiled::kValues) continue;
        RunOptions options = spoiled(20, 21, kNan, what);
        options.arithmetic_type = arithmetic;
        for (const std::uint32_t parts : {1U, 3U}) {
          options.kv_splits = parts;
          EXPECT_TRUE(runs_right(runtime(), typed(text), options)) << parts << " parts";
        }
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, Nan, testing::ValuesIn(kEveryFormName), kernel_test_name);

/// Rows before the first bad key of a tile are right. Later rows have the result of the reference.
TEST_P(Nan, HiddenFromSomeRowsOfATileDoesNotLeakIntoThem) {
  for (const char* problem : part_of({"h2 64x64 d24 causal lse", "64x64 d64 f16 output=f32 causal",
                                      "hq4 hkv1 33x33 d8 causal", "33x70 d8 causal align=-1"})) {
    for (const std::int64_t first : {1, 5, 16, 31}) {
      for (const Spoiled what : {Spoiled::kKeys, Spoiled::kValues}) {
        if (is_on_matrix_units() && what == Spoiled::kValues) continue;
        for (const float bad : {kNan, kInfinity, -kInfinity}) {
          EXPECT_TRUE(runs_right(runtime(), typed(problem), spoiled(first, kAll, bad, what)))
              << bad << " from key " << first;
        }
      }
    }
  }
}

TEST_P(Nan, WhatIsSeenArrives) {
  run_seen({"h2 40x50 d24 causal lse", "40x50 d24 f16 causal", "40x50 d24 bf16 causal",
            "40x50 d24 softcap=5 lse", "3x130 d64 causal align=bottom-right"});
}

TEST_P(Nan, WhatIsSeenArrivesInFloat16) {
  if (kernel() != "tile") GTEST_SKIP() << "it has no form with float16 arithmetic";
  if (!capabilities().shader_float16) GTEST_SKIP() << "the device has no shaderFloat16";
  run_seen({"40x64 d24 f16 causal lse", "40x90 d24 f16 window=9,4 lse", "40x90 d24 f16 mask=bits:bhqk lse",
            "40x90 d24 f16 mask=f16:hqk window=30,5 causal"},
           DataType::kFloat16);
}

/// A score of -inf hides its key as a mask does. A row may then see nothing. The value of such a key may be
/// NaN or infinite only if the caller asks for that promise.
TEST_P(Nan, ScoresOfMinusInfinityHide) {
  for (const char* text : part_of({"9x40 d1 data=uniform lse", "40x150 d1 data=uniform lse",
                                   "9x70 d1 data=uniform causal align=61",
                                   "9x70 d1 data=uniform mask=f32 hidden=0.3 block=5 alibi lse"})) {
    for (const std::int64_t first : {20, 0}) {  // 0 leaves no key
      RunOptions options = spoiled(first, kAll, -kInfinity, Spoiled::kKeys);
      EXPECT_TRUE(runs_right(runtime(), typed(text), options));
      if (is_on_matrix_units()) continue;
      options.strict_nonfinite = true;
      options.prepare = [=](harness::ProblemRun& run) {
        spoil(run, first, kAll, -kInfinity, Spoiled::kKeys);
        spoil(run, first, kAll, kNan, Spoiled::kValues);
      };
      EXPECT_TRUE(runs_right(runtime(), typed(text), options)) << "strict";
    }
  }
}

class MatrixNan : public MatrixKernelTest {};
INSTANTIATE_TEST_SUITE_P(Kernels, MatrixNan, testing::ValuesIn(kOnMatrixUnits), kernel_test_name);

TEST_P(MatrixNan, StrictNonfiniteRefusesTheKernel) {
  PlanOptions options{.kernel = kernel(), .strict_nonfinite = true};
  const AttentionDesc desc = parsed("64x64 d64 f16 causal").desc;
  EXPECT_TRUE(is_refused(runtime().make_plan(desc, options), ErrorCode::kUnsupported,
                         {kernel(), "strict_nonfinite"}));
  options.kernel.clear();
  const auto plan = must(runtime().make_plan(desc, options));
  EXPECT_FALSE(plan.uses_matrix_units());
}

}  // namespace
}  // namespace vkattn::tests
