// Edges of the definition: nothing to see, nothing to do, and the example that everybody knows.
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

class Edge : public KernelTest {};

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

/// Q = K = [[1,0,1,0],[0,1,0,1]], V = [[2,3],[5,7]]: weights sigmoid(1) and sigmoid(-1).
TEST_P(Edge, TheWorkedExample) {
  constexpr std::array<float, 8> kQk{1, 0, 1, 0, 0, 1, 0, 1};
  constexpr std::array<float, 4> kV{2, 3, 5, 7};
  for (const char* type : part_of({"f32", "f16", "bf16"})) {
    const Problem problem = parsed(std::string("2x2 d4 dv2 lse output=f32 ") + type);
    const AttentionDesc& desc = problem.desc;
    harness::ProblemRun run = ready_run(problem);
    write_elements(runtime(), run.query(), desc.query, 0, kQk);
    write_elements(runtime(), run.key(), desc.key, 0, kQk);
    write_elements(runtime(), run.value(), desc.value, 0, kV);
    execute_on_kernel(run);
    const double p = 1.0 / (1.0 + std::exp(-1.0));
    const std::array<double, 4> expected{2 * p + 5 * (1 - p), 3 * p + 7 * (1 - p), 2 * (1 - p) + 5 * p,
                                         3 * (1 - p) + 7 * p};
    for (std::int64_t i = 0; i < 4; ++i) {
      const auto got = static_cast<double>(read_element(runtime(), run.output(), desc.output, i));
      EXPECT_NEAR(got, expected[static_cast<std::size_t>(i)], 2e-5) << type << " element " << i;
    }
    const TensorDesc lse;
    EXPECT_NEAR(static_cast<double>(read_element(runtime(), run.lse(), lse, 1)), std::log(std::exp(1.0) + 1),
                2e-5);
    expect_right(run);
  }
}

/// R. Karim's three tokens ("Illustrated: Self-Attention", 2019), which have no scale, and the same where no
/// token sees a later one: docs/attention.md has the numbers.
TEST_P(Edge, TheWorkedExampleOfThreeTokens) {
  constexpr std::array<float, 9> kQ{1, 0, 2, 2, 2, 2, 2, 1, 3}, kK{0, 1, 1, 4, 4, 0, 2, 3, 1};
  constexpr std::array<float, 9> kV{1, 2, 3, 2, 8, 0, 2, 6, 3};
  constexpr std::array<double, 9> kScores{2, 4, 4, 4, 16, 12, 4, 12, 10};
  for (const char* causal : {"", " causal"}) {
    const Problem problem = parsed(std::string("3x3 d3 scale=1 weights=probabilities") + causal);
    const AttentionDesc& desc = problem.desc;
    harness::ProblemRun run = ready_run(problem);
    write_elements(runtime(), run.query(), desc.query, 0, kQ);
    write_elements(runtime(), run.key(), desc.key, 0, kK);
    write_elements(runtime(), run.value(), desc.value, 0, kV);
    execute_on_kernel(run);
    for (std::size_t row = 0; row < 3; ++row) {
      const std::size_t seen = desc.causal ? row + 1 : 3;
      double total = 0, sum = 0;
      for (std::size_t key = 0; key < seen; ++key) total += std::exp(kScores[3 * row + key]);
      std::array<double, 3> output{};
      for (std::size_t key = 0; key < 3; ++key) {
        const double expected = key < seen ? std::exp(kScores[3 * row + key]) / total : 0;
        const double got = static_cast<double>(read_element(runtime(), run.tensor(&AttentionTensors::weights),
                                                            {}, static_cast<std::int64_t>(3 * row + key)));
        EXPECT_NEAR(got, expected, 2e-6) << row << ", " << key;
        if (key >= seen) {
          EXPECT_EQ(got, 0) << row << ", " << key;
        }
        sum += got;
        for (std::size_t d = 0; d < 3; ++d) output[d] += expected * static_cast<double>(kV[3 * key + d]);
      }
      EXPECT_NEAR(sum, 1, 2e-6);
      for (std::size_t d = 0; d < 3; ++d) {
        const auto at = static_cast<std::int64_t>(3 * row + d);
        EXPECT_NEAR(static_cast<double>(read_element(runtime(), run.output(), desc.output, at)), output[d],
                    2e-5);
      }
    }
    expect_right(run);
  }
}

/// One key: the output is its value, rounded once. Ties, the ends of the subnormal numbers and of the range.
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
    std::vector<std::byte> first_output, first_lse;
    for (int repeat = 0; repeat < 4; ++repeat) {
      ASSERT_TRUE(run.poison_outputs().ok());
      ASSERT_TRUE(run.execute(plan).ok());
      const auto output = read_back(runtime(), run.output());
      const auto lse = problem.desc.has_lse ? read_back(runtime(), run.lse()) : std::vector<std::byte>();
      if (repeat == 0) {
        first_output = output;
        first_lse = lse;
      }
      EXPECT_EQ(output, first_output) << text;
      EXPECT_EQ(lse, first_lse) << text;
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
