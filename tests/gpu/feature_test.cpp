// The ends of features: nothing visible, windows that begin beyond the keys, sinks far above the scores,
// batches without a row, shared pages. pairs_test.cpp has the features themselves, each with each other.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/any_kernel.hpp"

namespace vkattn::tests {
namespace {

/// Words that a problem gets besides its sizes. Q, A and B stand for the query length and for two that are
/// shorter.
constexpr std::array kFeatureWords{
    "window=300,-1 align=310 lse",
    "window=-1,300 align=-295 lse",
    "window=0,0 align=bottom-right kv_lengths=129,40",
    "mask=bits:bhqk hidden=1 lse",
    "mask=bits:hqk hidden=0.8 block=32 window=60,60",
    "sinks mask=bits hidden=1 lse",
    "sinks alibi align=300 output=f32 lse",  // sinks far above the scores
    "softcap=0.5 causal magnitude=10",
    "sequences query_lengths=0,0 kv_lengths=20,129 lse",  // no tensor of queries at all
    "sequences query_lengths=A,B kv_lengths=0,0 lse",
    "sequences=queries query_lengths=0,0 page=16 lse",
    "sequences=queries query_lengths=Q,B kv_lengths=129,100 ring=50 window=30,0 align=bottom-right sinks lse",
    "page=1 kv_lengths=100,129",
    "weights=probabilities kv_lengths=129,40 sinks window=50,3",
    "softcap=4 alibi mask=f16 sinks causal align=bottom-right kv_lengths=120,77 query_lengths=A,Q "
    "dropout=0.1 lse",
};

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

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

/// decode takes few rows, the others enough for several tiles.
std::string with_sizes(std::string_view words, bool few_rows, std::string_view sizes) {
  std::string text(words);
  const std::pair<const char*, const char*> lengths[] = {
      {"A", few_rows ? "2" : "45"}, {"B", few_rows ? "1" : "33"}, {"Q", few_rows ? "3" : "70"}};
  for (const auto& [letter, length] : lengths) {
    for (const std::string before : {"=", ","}) text = replaced(text, before + letter, before + length);
  }
  return std::string(few_rows ? "3x129 " : "70x129 ") + std::string(sizes) + " " + text;
}

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
    return with_sizes(words, kernel() == "decode", "b2 hq4 hkv2 " + std::string(dims)) +
           (is_on_matrix_units() ? " f16" : "");
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, Feature, testing::ValuesIn(kEveryKernelName), kernel_test_name);

TEST_P(Feature, MatchesTheReference) {
  for (const char* const words : part_of<const char*>(kFeatureWords)) {
    EXPECT_TRUE(runs_right(runtime(), sized(words), {kernel()}));
  }
}

/// All rows of a tile see the last keys, and some of them earlier ones: two loops that share the keys.
TEST_P(Feature, KeysOfAWindowCountOnce) {
  EXPECT_TRUE(runs_right(runtime(), sized("window=20,-1 align=50 lse"), {kernel()}));
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
       part_of({"mask=bits:bhqk hidden=0.8 block=16 sinks lse", "mask=bytes:q alibi causal"})) {
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
    EXPECT_TRUE(runs_right(runtime(), with_sizes(words, false, "b2 hq4 hkv2 f16"), {kernel()}));
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
