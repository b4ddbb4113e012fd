// Edges of the definition: nothing to see, nothing to do, and the well-known example.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

class Edge : public KernelTest {
 protected:
  /// One head, with scores that were computed by hand, row by row.
  struct Example {
    std::vector<float> query, key, value;
    std::vector<double> scores;
  };
  /// Checks that output, lse and weights, as far as the problem has them, are those of the softmax of these
  /// scores.
  static void expect_example(const std::string& text, const Example& example) {
    const Problem problem = parsed(text);
    const AttentionDesc& desc = problem.desc;
    harness::ProblemRun run = ready_run(problem);
    write_elements(runtime(), run.query(), desc.query, 0, example.query);
    write_elements(runtime(), run.key(), desc.key, 0, example.key);
    write_elements(runtime(), run.value(), desc.value, 0, example.value);
    execute_on_kernel(run);
    const auto element = [&](BufferRange AttentionTensors::*tensor, const TensorDesc& its, std::int64_t i) {
      return static_cast<double>(read_element(runtime(), run.tensor(tensor), its, i));
    };
    const std::int64_t keys = desc.kv_length, dims = desc.value_dim;
    for (std::int64_t row = 0; row < desc.query_length; ++row) {
      SCOPED_TRACE(text + ", row " + std::to_string(row));
      std::vector<double> weights(example.scores.begin() + row * keys,
                                  example.scores.begin() + (row + 1) * keys);
      for (double& weight : weights) weight = std::exp(weight);
      if (desc.causal) std::fill(weights.begin() + row + 1, weights.end(), 0.0);
      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
      if (desc.has_lse) {
        EXPECT_NEAR(element(&AttentionTensors::lse, {}, row), std::log(sum), 2e-5);
      }
      double all = 0;
      for (std::int64_t key = 0; key < keys && desc.weights != WeightsStage::kNone; ++key) {
        const double got = element(&AttentionTensors::weights, {}, row * keys + key);
        const double expected = weights[static_cast<std::size_t>(key)] / sum;
        EXPECT_NEAR(got, expected, expected == 0 ? 0 : 2e-6) << "key " << key;
        all += got;
      }
      if (desc.weights != WeightsStage::kNone) {
        EXPECT_NEAR(all, 1, 2e-6);
      }
      for (std::int64_t d = 0; d < dims; ++d) {
        double expected = 0;
        for (std::size_t key = 0; key < weights.size(); ++key) {
          expected += weights[key] / sum *
                      static_cast<double>(
                          example.value[key * static_cast<std::size_t>(dims) + static_cast<std::size_t>(d)]);
        }
        EXPECT_NEAR(element(&AttentionTensors::output, desc.output, row * dims + d), expected, 2e-5)
            << "dim " << d;
      }
    }
    expect_right(run);
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, Edge, testing::ValuesIn(kKernelNames), kernel_test_name);

TEST_P(Edge, NothingIsSeenAndScoresAreLarge) {
  run_part({"h2 70x5 d16 causal align=bottom-right lse", "33x33 d8 causal align=-33 lse",
            "8x40 d8 causal align=-1073741824 lse", "5x0 d8 dv3 bf16 causal align=bottom-right lse",
            "b2 5x0 d8 kv_lengths=0,7 lse", "b4 19x40 d16 kv_lengths=-2147483648,2147483647,-1,41 lse",
            "65x129 d40 f16 magnitude=1000", "65x129 d40 data=dominant magnitude=10 lse",
            "65x129 d40 scale=-1e-30 lse"});
}

TEST_P(Edge, NothingToWriteRecordsNothing) {
  for (const char* text :
       part_of({"b0 4x4 d8 lse kv_lengths=", "h0 4x4 d8", "hq0 hkv2 4x4 d8", "0x4 d8 lse", "b0 h0 0x0 d8"})) {
    const Problem problem = parsed(fitted(text));
    const RunOptions options{kernel()};
    const auto plan = make_plan(runtime(), problem.desc, options);
    ASSERT_TRUE(plan.ok()) << text << ": " << plan.error().message;
    EXPECT_TRUE(plan.value().dispatches().empty()) << text;
    const auto bindings = plan.value().make_bindings({});  // null handles
    ASSERT_TRUE(bindings.ok()) << text << ": " << bindings.error().message;
    EXPECT_TRUE(runtime().execute(plan.value(), bindings.value()).ok());
    EXPECT_TRUE(runs_right(runtime(), problem, options));
  }
}

/// The weights are sigmoid(1) and sigmoid(-1).
TEST_P(Edge, TheWorkedExample) {
  const std::vector<float> rows{1, 0, 1, 0, 0, 1, 0, 1};
  for (const char* type : part_of({"f32", "f16", "bf16"}))
    expect_example(std::string("2x2 d4 dv2 lse output=f32 ") + type,
                   {rows, rows, {2, 3, 5, 7}, {1, 0, 0, 1}});
}

/// R. Karim's three tokens ("Illustrated: Self-Attention", 2019), which have no scale, and the same tokens
/// with a causal mask. docs/attention.md has the numbers.
TEST_P(Edge, TheWorkedExampleOfThreeTokens) {
  for (const char* causal : {"", " causal"}) {
    expect_example(std::string("3x3 d3 scale=1 weights=probabilities") + causal,
                   {{1, 0, 2, 2, 2, 2, 2, 1, 3},
                    {0, 1, 1, 4, 4, 0, 2, 3, 1},
                    {1, 2, 3, 2, 8, 0, 2, 6, 3},
                    {2, 4, 4, 4, 16, 12, 4, 12, 10}});
  }
}

/// With one key the output is its value, rounded once. The values are ties, and the ends of the subnormal
/// range and of the whole range.
TEST_P(Edge, OutputsAreRoundedToNearestEven) {
  constexpr std::array<float, 16> kValues{
      0x1.01p0F, 0x1.03p0F,    -0x1.03p0F,   0x1.0101p0F, 0x1.002p0F, 0x1.006p0F, -0x1.006p0F, 0x1.00201p0F,
      0x1p-14F,  0x1.ffcp-15F, 0x1.554p-15F, -0x1.8p-24F, 0x1.8p-25F, 65504.0F,   65519.0F,    3.0e-5F};
  for (const char* type : {"f16", "bf16"}) {
    const Problem problem = parsed(std::string("1x1 d16 output=") + type);
    const AttentionDesc& desc = problem.desc;
    harness::ProblemRun run = ready_run(problem);
    write_elements(runtime(), run.value(), desc.value, 0, kValues);
    execute_on_kernel(run);
    for (std::size_t i = 0; i < kValues.size(); ++i) {
      const float rounded = desc.output.type == DataType::kFloat16
                                ? half_to_float(float_to_half(kValues[i]))
                                : bfloat16_to_float(float_to_bfloat16(kValues[i]));
      EXPECT_EQ(read_element(runtime(), run.output(), desc.output, static_cast<std::int64_t>(i)), rounded)
          << type << " of " << kValues[i];
    }
  }
}

TEST_P(Edge, TheSameBitsOnEachRun) {
  for (const char* text : part_of({"b2 hq4 hkv2 77x205 d72 causal align=bottom-right lse",
                                   "h3 33x300 d64 f16 lse", "b2 5x129 d80 bf16 kv_lengths=100,129"})) {
    const Problem problem = parsed(fitted(text));
    harness::ProblemRun run = ready_run(problem);
    const auto plan = must(make_plan(runtime(), problem.desc, {kernel()}));
    std::vector<std::byte> first;
    for (int repeat = 0; repeat < 4; ++repeat) {
      must(run.poison_outputs());
      must(run.execute(plan));
      auto written = read_back(runtime(), run.output());
      if (problem.desc.has_lse)
        std::ranges::copy(read_back(runtime(), run.lse()), std::back_inserter(written));
      if (repeat == 0) first = written;
      EXPECT_TRUE(written == first) << text;
    }
  }
}

using EdgeAnyKernel = GpuTest;

TEST_F(EdgeAnyKernel, AnUnknownKernelIsRefusedByName) {
  EXPECT_TRUE(is_refused(make_plan(runtime(), parsed("4x4 d8").desc, {"lain"}), ErrorCode::kNotFound,
                         {"lain", "lane", "tile"}));
}

}  // namespace
}  // namespace vkattn::tests
