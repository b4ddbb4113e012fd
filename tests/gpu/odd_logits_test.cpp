// Biases and sinks near the ends of float32's range, infinite or NaN, on all kernels.
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gpu/any_kernel.hpp"
#include "support/special_numbers.hpp"

namespace vkattn::tests {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

class OddLogits : public AnyKernelTest {
 protected:
  static void skip_without_nan() {
    if (!capabilities().preserves_nan_float32) {
      GTEST_SKIP() << "the device does not promise to keep NaN (shaderSignedZeroInfNanPreserveFloat32)";
    }
  }

  /// A problem of 7 queries, 4 heads and 150 keys with these words.
  static std::string sized(const std::string& words) {
    return "hq4 hkv2 7x150 d16 lse " + words + (is_on_matrix_units() ? " f16 output=f32" : "");
  }

  /// Checks that each row is the mean of the values first <= j < last. Scores vanish beside such biases, so
  /// the tolerance of the reference would accept anything.
  static void expect_mean(const std::string& text, const RunOptions& options, std::int64_t first,
                          std::int64_t last) {
    const Problem problem = parsed(text);
    const AttentionDesc& desc = problem.desc;
    harness::ProblemRun run = ready_run(problem);
    options.prepare(run);
    execute_on_kernel(run);
    const auto at = [](const TensorDesc& tensor, std::int64_t head, std::int64_t row, std::int64_t dim) {
      return head * tensor.strides->head + row * tensor.strides->row + dim * tensor.strides->dim;
    };
    for (std::int64_t h = 0; h < desc.query_heads; ++h) {
      for (std::int64_t d = 0; d < desc.value_dim; ++d) {
        double mean = 0;
        for (std::int64_t j = first; j < last; ++j) {
          mean += static_cast<double>(
              read_element(runtime(), run.value(), desc.value, at(desc.value, h / 2, j, d)));
        }
        mean /= static_cast<double>(last - first);
        for (std::int64_t i = 0; i < desc.query_length; ++i) {
          const float got = read_element(runtime(), run.output(), desc.output, at(desc.output, h, i, d));
          ASSERT_NEAR(static_cast<double>(got), mean, 2e-3) << text << " head " << h << " query " << i;
        }
      }
    }
  }

  static RunOptions with_mask(std::int64_t first, std::size_t count, float value) {
    RunOptions options{kernel()};
    options.prepare = [=](harness::ProblemRun& run) {
      write_elements(runtime(), run.tensor(&AttentionTensors::mask), TensorDesc{}, first,
                     std::vector(count, value));
    };
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, OddLogits, testing::ValuesIn(kEveryFormName), kernel_test_name);

/// Frameworks write the lowest number to hide a key. It hides the key beside others, and rows with no other
/// key average all keys.
TEST_P(OddLogits, BiasesOfTheLowestNumber) {
  const std::string text = sized("mask=f32:k");
  EXPECT_TRUE(runs_right(runtime(), text, with_mask(40, 60, -kLargest)));
  expect_mean(text, with_mask(0, 150, -kLargest), 0, 150);
}

TEST_P(OddLogits, BiasesOfTheLargestNumber) {
  expect_mean(sized("mask=f32:k"), with_mask(40, 60, kLargest), 40, 100);
}

/// Numbers that a device may flush, and finite numbers whose sums overflow. docs/semantics.md defines the
/// results.
TEST_P(OddLogits, NumbersAtTheEndsOfFloat32) {
  for (const char* const problem :
       part_of({"4x4 d4 magnitude=1e38 data=equal lse", "4x4 d4 magnitude=1e38 weights=probabilities",
                "5x70 hq4 hkv2 d20 magnitude=1e-39 scale=1e38 lse", "5x70 d20 magnitude=1e-20 scale=1e38",
                "4x130 d8 magnitude=1e35 scale=1e-38 lse"})) {
    const std::string text = fitted(problem) + (is_on_matrix_units() ? " bf16" : "");  // exceeds float16
    if (is_on_matrix_units() && !reason_against(runtime(), kernel(), text).empty()) continue;
    // Little is defined here, so zeros could be right too, which runs_right() does not accept.
    harness::ProblemRun run = ready_run(parsed(text));
    execute_on_kernel(run);
    expect_right(run);
  }
}

/// A sink above all scores, or a dropped key far above the others, leaves weights of 1e-36. Kernels may
/// multiply them with the scales of V first, and a device may flush the product. SwiftShader does.
TEST_P(OddLogits, TinyWeightsOfQuantisedValues) {
  for (const char* const problem : part_of(
           {"b2 hq8 hkv2 64x31 d32 dv64 f16 cache=q8_0 output=bf16 alibi dropout=0.3 dropout_seed=277 lse "
            "mask=bytes:bqk kv_lengths=15,1 query_lengths=63,64 data=dominant seed=183",
            "b2 hq6 hkv2 203x31 d20 dv12 query=bf16 cache=e4m3 window=-1,9 alibi align=100 mask=f32:hq sinks "
            "dropout=0.3 dropout_seed=693 query_lengths=202,203 kv_lengths=0,15 seed=238"})) {
    if (!reason_against(runtime(), kernel(), problem).empty()) continue;
    EXPECT_TRUE(runs_right(runtime(), problem, {.kernel = kernel()}));
  }
}

/// Slopes that multiply the mask: products beyond the largest score, and slopes that are no numbers.
TEST_P(OddLogits, SlopesThatMultiplyTheMask) {
  const std::string text = sized("mask=f32:k alibi=times-mask");
  const auto with_slopes = [](RunOptions options, const std::array<float, 4>& slopes) {
    options.prepare = [=, before = options.prepare](harness::ProblemRun& run) {
      if (before) before(run);
      write_elements(runtime(), run.tensor(&AttentionTensors::alibi_slopes), TensorDesc{}, 0, slopes);
    };
    return options;
  };
  EXPECT_TRUE(runs_right(runtime(), text, with_slopes(with_mask(40, 60, -kLargest), {1, 0.7F, 0.01F, 8})));
  expect_mean(text, with_slopes(with_mask(40, 60, kLargest), {1, 0.68F, 2, 8}), 40, 100);
  expect_mean(text, with_slopes(with_mask(0, 150, -kLargest), {1, 3, 1, 2}), 0, 150);
  EXPECT_TRUE(runs_right(runtime(), text, with_slopes({.kernel = kernel()}, {0, -1, 0, -3})));
  skip_without_nan();
  if (IsSkipped()) return;
  EXPECT_TRUE(
      runs_right(runtime(), text, with_slopes({.kernel = kernel()}, {kNan, 1, kInfinity, -kInfinity})));
  // Zeros too: no block of them leaves scores as they are.
  EXPECT_TRUE(runs_right(runtime(), text + " hidden=0 zeros=1",
                         with_slopes({.kernel = kernel()}, {kNan, 1, kInfinity, 0})));
  // Heads share the blocks of one mask, so a slope of a later KV head counts too. No step is ragged.
  const std::string whole =
      std::string("hq4 hkv2 7x256 d16 lse mask=f32:k alibi=times-mask hidden=0 zeros=1") +
      (is_on_matrix_units() ? " f16 output=f32" : "");
  EXPECT_TRUE(runs_right(runtime(), whole, with_slopes({.kernel = kernel()}, {1, 1, kNan, 1})));
}

TEST_P(OddLogits, ABiasThatIsNoNumberArrives) {
  skip_without_nan();
  if (IsSkipped()) return;
  for (const float bias : {kNan, kInfinity}) {
    // Only row 3 of all heads has the bias.
    EXPECT_TRUE(runs_right(runtime(), sized("mask=f32:qk"), with_mask(3 * 150 + 20, 1, bias))) << bias;
  }
}

TEST_P(OddLogits, SinksThatAreNoNumbersArrive) {
  skip_without_nan();
  if (IsSkipped()) return;
  for (const char* const words : part_of({"sinks", "sinks kv_lengths=0", "sinks causal align=-4"})) {
    for (const std::uint32_t parts : {1U, 3U}) {
      RunOptions options{.kernel = kernel(), .kv_splits = parts};
      options.prepare = [&](harness::ProblemRun& run) {
        constexpr std::array kSinks{kNan, kInfinity, -kInfinity, kLargest};
        write_elements(runtime(), run.tensor(&AttentionTensors::sinks), TensorDesc{}, 0, kSinks);
      };
      EXPECT_TRUE(runs_right(runtime(), sized(words), options)) << parts << " parts";
    }
  }
}

}  // namespace
}  // namespace vkattn::tests
