// NaN and infinity in keys and values: where a row is hidden they never leak, where it is seen they arrive.
#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu/support.hpp"
#include "reference/reference.hpp"

namespace vkattn::tests {
namespace {

class Nan : public KernelTest {
 protected:
  /// Compares query positions first <= i < last of all heads with the reference; everything in float32.
  static void expect_rows(const harness::ProblemRun& run, std::int64_t first, std::int64_t last) {
    const AttentionDesc& desc = run.problem().desc;
    const auto query = read_back(runtime(), run.query());
    const auto key = read_back(runtime(), run.key());
    const auto value = read_back(runtime(), run.value());
    const reference::Inputs inputs{{.query = std::span(query).subspan(run.query().offset),
                                    .key = std::span(key).subspan(run.key().offset),
                                    .value = std::span(value).subspan(run.value().offset),
                                    .kv_lengths = run.problem().kv_lengths}};
    for (std::int64_t h = 0; h < desc.query_heads; ++h) {
      for (std::int64_t i = first; i < last; ++i) {
        const reference::Row row = reference::compute_row(desc, inputs, {0, h, i});
        for (std::int64_t d = 0; d < desc.value_dim; ++d) {
          const Strides& s = *desc.output.strides;
          const auto got = static_cast<double>(
              read_element(runtime(), run.output(), desc.output, h * s.head + i * s.row + d * s.dim));
          ASSERT_NEAR(got, row.output[static_cast<std::size_t>(d)], reference::output_tolerance(desc, row, d))
              << to_string(run.problem()) << " head " << h << " query " << i << " dim " << d;
        }
      }
    }
  }

  /// Sets keys first <= j of every head to `key` and their values to `value`.
  static Status spoil(const harness::ProblemRun& run, std::int64_t first, float key, float value) {
    const AttentionDesc& desc = run.problem().desc;
    for (std::int64_t b = 0; b < desc.batch; ++b) {
      for (std::int64_t h = 0; h < desc.kv_heads; ++h) {
        for (std::int64_t j = first; j < desc.kv_length; ++j) {
          Status status = write_row(runtime(), run.key(), desc.key, b, h, j, desc.head_dim, key);
          if (!status.ok()) return status;
          status = write_row(runtime(), run.value(), desc.value, b, h, j, desc.value_dim, value);
          if (!status.ok()) return status;
        }
      }
    }
    return {};
  }

  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
};

INSTANTIATE_TEST_SUITE_P(Kernels, Nan, testing::ValuesIn(kKernelNames), kernel_test_name);

TEST_P(Nan, BeyondTheKeyLengthNeverLeaks) {
  for (const char* problem : part_of(
           {"b1 h2 37x150 d24 kv_lengths=70 lse", "b1 h2 37x150 d24 f16 kv_lengths=129",
            "b1 3x150 d24 bf16 kv_lengths=1 causal align=bottom-right", "b1 37x150 d24 kv_lengths=0 lse"})) {
    for (const float bad : {kNan, kInfinity, -kInfinity}) {
      RunOptions options{kernel()};
      options.prepare = [&](harness::ProblemRun& run) {
        return spoil(run, run.problem().kv_lengths.front(), bad, bad);
      };
      EXPECT_TRUE(runs_right(runtime(), fitted(problem), options)) << bad;
    }
  }
}

TEST_P(Nan, BeyondTheDiagonalOfEveryRowNeverLeaks) {
  for (const char* problem : part_of({"h2 40x64 d24 causal lse", "40x64 d24 f16 causal", "9x64 d8 causal"})) {
    for (const float bad : {kNan, kInfinity, -kInfinity}) {
      RunOptions options{kernel()};
      options.prepare = [&](harness::ProblemRun& run) {
        return spoil(run, run.problem().desc.query_length, bad, bad);
      };
      EXPECT_TRUE(runs_right(runtime(), fitted(problem), options)) << bad;
    }
  }
}

/// Keys that later rows of the same tile see, and earlier ones do not.
TEST_P(Nan, HiddenFromSomeRowsOfATileDoesNotLeakIntoThem) {
  for (const char* text : part_of({"h2 64x64 d24 causal", "64x64 d64 f16 output=f32 causal",
                                   "hq4 hkv1 33x33 d8 causal", "33x70 d8 causal align=bottom-right"})) {
    const Problem problem = parsed(fitted(text));
    const AttentionDesc& desc = problem.desc;
    const std::int64_t offset = desc.align == Align::kBottomRight ? desc.kv_length - desc.query_length : 0;
    auto run = harness::ProblemRun::create(runtime(), problem);
    ASSERT_TRUE(run.ok());
    const auto plan = make_plan(runtime(), desc, {kernel()});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    for (const float bad : {kNan, kInfinity, -kInfinity}) {
      for (const std::int64_t first_bad : {1, 5, 16, 31}) {
        ASSERT_TRUE(run->fill_inputs().ok());
        ASSERT_TRUE(spoil(*run, offset + first_bad, bad, bad).ok());
        ASSERT_TRUE(run->poison_outputs().ok());
        ASSERT_TRUE(run->execute(plan.value()).ok());
        expect_rows(*run, 0, std::min(first_bad, desc.query_length));
      }
    }
  }
}

TEST_P(Nan, WhatIsSeenArrives) {
  if (!capabilities().preserves_nan_float32) {
    GTEST_SKIP() << "the device does not promise to keep NaN (shaderSignedZeroInfNanPreserveFloat32)";
  }
  for (const char* text : part_of({"h2 40x50 d24 causal lse", "40x50 d24 f16 causal", "40x50 d24 bf16 causal",
                                   "40x50 d24 softcap=5 lse", "3x130 d64 causal align=bottom-right"})) {
    const Problem problem = parsed(fitted(text));
    const AttentionDesc& desc = problem.desc;
    for (const unsigned variant : {0U, 1U, 2U, 3U}) {
      const bool in_key = variant % 2 == 0;
      RunOptions options{kernel()};
      options.kv_splits = variant < 2 ? 1 : 3;
      options.prepare = [&](harness::ProblemRun& run) {
        return in_key ? write_row(runtime(), run.key(), desc.key, 0, 0, 20, desc.head_dim, kNan)
                      : write_row(runtime(), run.value(), desc.value, 0, 0, 20, desc.value_dim, kNan);
      };
      EXPECT_TRUE(runs_right(runtime(), problem, options))
          << (in_key ? "key" : "value") << " in " << options.kv_splits << " parts";
    }
  }
}

/// A score of -inf hides its key like a mask; rows may see nothing in this way. That its value may then be no
/// number is promised to those who ask for it.
TEST_P(Nan, ScoresOfMinusInfinityHide) {
  if (!capabilities().preserves_nan_float32) {
    GTEST_SKIP() << "the device does not promise to keep infinities (shaderSignedZeroInfNanPreserveFloat32)";
  }
  for (const char* text : part_of({"9x40 d1 data=uniform lse", "40x150 d1 data=uniform lse",
                                   "9x70 d1 data=uniform causal align=61",
                                   "9x70 d1 data=uniform mask=f32 hidden=0.3 block=5 alibi lse"})) {
    const Problem problem = parsed(fitted(text));
    for (const std::int64_t first : {20, 0}) {  // 0: no key is left
      for (const bool strict : {false, true}) {
        RunOptions options{kernel()};
        options.strict_nonfinite = strict;
        options.prepare = [&](harness::ProblemRun& run) {
          return spoil(run, first, -kInfinity, strict ? kNan : 5.0F);
        };
        EXPECT_TRUE(runs_right(runtime(), problem, options)) << (strict ? "strict" : "");
      }
    }
  }
}

}  // namespace
}  // namespace vkattn::tests
