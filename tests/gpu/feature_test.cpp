// Features and their ends, by the list of feature_problems.hpp, and shared pages. pairs_test.cpp has the
// features each with each other.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/any_kernel.hpp"
#include "support/feature_problems.hpp"

namespace vkattn::tests {
namespace {

/// For matrix, which handles scales apart from elements: scores that hide keys, dims that fill no matrix or
/// several slices, and scales at the ends of what it holds.
constexpr std::array kQuantisedOnMatrices{
    "d96 dv32 key=q8_0 value=q4_0 causal page=16",
    "d20 dv64 value=q8_0 mask=bytes:bhqk hidden=0.8 block=16 dropout=0.2 output=f32",
    "d32 cache=q8_0 magnitude=1000 output=f32",
    "d32 cache=q8_0 magnitude=0.001 sinks softcap=4 output=f32 lse",
    "d32 cache=q4_0 data=dominant alibi output=f32",
    "d32 dv576 cache=q8_0 output=f32",
};

/// Two batch entries with one prefix: the same pages first, then pages of their own.
void share_prefix(const Runtime& runtime, const harness::ProblemRun& run) {
  const harness::ProblemRun::Tensor& table = run.tensor(&AttentionTensors::page_table);
  std::vector<std::int32_t> pages(table.bytes / sizeof(std::int32_t));
  must(runtime.read(table.buffer, table.offset, std::as_writable_bytes(std::span(pages))));
  const std::size_t of_entry = pages.size() / 2;
  for (std::size_t i = 0; i < of_entry * 2 / 5; ++i) pages[of_entry + i] = pages[i];
  must(runtime.write(table.buffer, table.offset, std::as_bytes(std::span(pages))));
}

class Feature : public AnyKernelTest {
 protected:
  /// 3 rows for decode, 70 for others. Magnitudes and lengths are the same for all; 16-bit storage, and dims
  /// that are multiples of 8, are what kernels on matrix units take.
  static std::string sized(std::string_view words, std::string_view dims = "") {
    if (dims.empty()) dims = is_on_matrix_units() ? "d24 dv16" : "d20 dv12";
    return with_sizes(words, kernel() == "decode" ? kFewLengths : kManyLengths,
                      "b2 hq4 hkv2 " + std::string(dims)) +
           (is_on_matrix_units() ? " f16" : "");
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, Feature, testing::ValuesIn(kEveryFormName), kernel_test_name);

TEST_P(Feature, MatchesTheReference) {
  for (const FeatureProblem& row : part_of<FeatureProblem>(kFeatureProblems)) {
    EXPECT_TRUE(runs_right(runtime(), sized(row.words), {kernel()}));
  }
}

/// Of its gradients a device may flush much, so BackwardTest has the problem in a test of its own too.
TEST_P(Feature, ScoresFarBeyondTheSoftcap) {
  EXPECT_TRUE(runs_right(runtime(), sized("softcap=0.5 causal magnitude=10"), {kernel()}));
}

/// The last heads have their slopes from the next power of two.
TEST_P(Feature, SlopesOfHeadsThatAreNoPowerOfTwo) {
  EXPECT_TRUE(runs_right(runtime(), typed("hq5 hkv1 3x129 d24 alibi lse"), {kernel()}));
}

TEST_P(Feature, EachHeadHasItsScalesOfFloat8) {
  const std::string text = typed("hq4 hkv2 3x40 d24 cache=e4m3 lse");
  EXPECT_TRUE(runs_right(runtime(), text, {kernel()}));
}

// Of a window with later keys of a row, the block mask is that of the window with the first ones.
TEST_P(Feature, WindowsOfTheKeys) {
  if (is_on_matrix_units()) GTEST_SKIP() << "limits_test.cpp has these";
  RunOptions options = seen_as(kernel(), [](Capabilities& c) { c.max_storage_buffer_range = 7 * 1024; });
  for (const char* const words :
       part_of({"mask=bits:bhqk hidden=0.8 block=16 sinks lse", "mask=bytes:q alibi causal",
                "mask=f16:h2k hidden=0.8 block=16 alibi=times-mask", "mask=bits:h2k hidden=0.8 block=16"})) {
    EXPECT_TRUE(runs_right(runtime(), sized(words), options));
  }
}

TEST_P(Feature, PrefixesShareTheirPages) {
  RunOptions options{.kernel = kernel(),
                     .prepare = [](harness::ProblemRun& run) { share_prefix(runtime(), run); }};
  for (const char* const words :
       part_of({"page=16 lse", "page=7 kv_lengths=129,70 causal align=bottom-right lse",
                "page=1 window=100,20 align=bottom-right weights=probabilities", "page=16 cache=q8_0"})) {
    const std::string text = sized(words, "d32");
    if (!takes_storage_of(parsed(text).desc)) continue;
    for (const std::uint32_t kv_splits : {0U, 3U}) {
      options.kv_splits = kv_splits;
      EXPECT_TRUE(runs_right(runtime(), text, options)) << kv_splits;
    }
  }
}

class MatrixFeature : public MatrixKernelTest {};
INSTANTIATE_TEST_SUITE_P(Matrix, MatrixFeature, testing::Values("matrix"), kernel_test_name);

TEST_P(MatrixFeature, QuantisedKeysAndValues) {
  for (const char* const words : part_of<const char*>(kQuantisedOnMatrices)) {
    EXPECT_TRUE(runs_right(runtime(), with_sizes(words, kManyLengths, "b2 hq4 hkv2 f16"), {kernel()}));
  }
}

using FeatureOfPlans = GpuTest;

TEST_F(FeatureOfPlans, KernelsRefuseByName) {
  EXPECT_TRUE(has(reason_against(runtime(), "matrix2", "64x64 d64 f16 cache=q8_0"), "q8_0"));
  EXPECT_EQ(reason_against(runtime(), "lane", "64x64 d64 softcap=3 sinks alibi window=3,3"), "");
}

TEST_F(FeatureOfPlans, MasksOfManyKeysGetABlockMask) {
  const auto passes = [&](std::string_view problem) {
    const auto plan = make_plan(runtime(), parsed(problem).desc, {.kernel = "lane"});
    std::string names;
    if (!plan.ok()) return plan.error().message;
    for (const DispatchInfo& dispatch : plan.value().dispatches()) names += std::string(dispatch.pass) + " ";
    return names;
  };
  EXPECT_EQ(passes("64x256 d16 mask=bits"), "block_mask lane ");
  EXPECT_EQ(passes("64x256 d16"), "lane ");
  EXPECT_EQ(passes("64x256 d16 weights=masked"), "lane weights ");
  // Never more than three pipelines.
  EXPECT_EQ(passes("1x4096 d16 mask=bits weights=masked"), "lane combine weights ");
}

}  // namespace
}  // namespace vkattn::tests
