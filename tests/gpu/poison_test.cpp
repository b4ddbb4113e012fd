// NaN and infinity in every key and value that no row sees, however it is hidden: none may reach an output.
#include <array>
#include <string>
#include <vector>

#include "gpu/any_kernel.hpp"
#include "gpu/hidden_rows.hpp"
#include "support/feature_problems.hpp"

namespace vkattn::tests {
namespace {

/// Ways of hiding quantised keys and values.
constexpr std::array kQuantisedHiding{
    "cache=q8_0 mask=bits:k hidden=0.5 block=8 lse",
    "cache=q4_0 page=16 kv_lengths=100,3",
    "cache=e4m3 window=5,3 lse",
};

testing::AssertionResult hides(const Runtime& runtime, const std::string& text, const std::string& kernel,
                               bool in_values, Bad bad, DataType arithmetic = DataType::kFloat32) {
  RunOptions options{.kernel = kernel, .arithmetic_type = arithmetic};
  options.prepare = [&](harness::ProblemRun& run) {
    EXPECT_GT(poison_hidden_keys(runtime, run, in_values, bad), 0U)
        << "nothing is hidden from all rows: " << text;
  };
  return runs_right(runtime, text, options);
}

class Poison : public AnyKernelTest {
 protected:
  static std::string sized(const char* words, const char* dims) {
    return with_sizes(words, kernel() == "decode" ? kFewLengths : kManyLengths,
                      std::string("b2 hq4 hkv2 ") + dims) +
           (is_on_matrix_units() ? " f16" : "");
  }
  /// Those in which some keys are hidden from all rows.
  static std::vector<FeatureProblem> ways_of_hiding() {
    return part_of<FeatureProblem>(
        feature_problems([](const FeatureProblem& row) { return row.hides_keys; }));
  }
};

/// On matrix units it is promised of V only where no row of a block sees the key. A NaN as the scale of a
/// hidden block reaches nothing, in V either.
TEST_P(Poison, HiddenFromAllRowsNeverLeaks) {
  const bool on_matrices = is_on_matrix_units();
  for (const FeatureProblem& row : ways_of_hiding()) {
    const std::string text = sized(row.words, on_matrices ? "d24 dv16" : "d20 dv12");
    for (const Bad bad : kEveryBad) {
      EXPECT_TRUE(hides(runtime(), text, kernel(), !on_matrices, bad)) << static_cast<int>(bad);
    }
  }
  for (const char* const words : part_of<const char*>(kQuantisedHiding)) {
    const std::string text = sized(words, "d32");
    if (!takes_storage_of(parsed(text).desc)) continue;
    const bool in_values = !on_matrices || text.find("e4m3") == std::string::npos;
    EXPECT_TRUE(hides(runtime(), text, kernel(), in_values, Bad::kNotANumber));
  }
}

TEST_P(Poison, HiddenFromAllRowsNeverLeaksInFloat16) {
  if (kernel() != "tile") GTEST_SKIP() << "it has no form with float16 arithmetic";
  if (!capabilities().shader_float16) GTEST_SKIP() << "the device has no shaderFloat16";
  for (const FeatureProblem& row : ways_of_hiding()) {
    for (const Bad bad : kEveryBad) {
      EXPECT_TRUE(hides(runtime(), sized(row.words, "d20 dv12 f16"), kernel(), true, bad, DataType::kFloat16))
          << static_cast<int>(bad);
    }
  }
}

/// Beyond lengths and the diagonal of all rows kernels on matrix units keep V out too.
TEST_P(Poison, BehindTheLastKeyNeverLeaks) {
  if (!is_on_matrix_units()) GTEST_SKIP() << "HiddenFromAllRowsNeverLeaks has it";
  for (const char* const problem :
       part_of({"h2 37x150 d24 f16 kv_lengths=70 lse", "37x150 d24 f16 kv_lengths=129",
                "3x150 d24 f16 kv_lengths=1 causal align=bottom-right", "37x150 d24 f16 kv_lengths=0 lse",
                "h2 40x64 d24 f16 causal lse", "9x64 d8 f16 causal"})) {
    for (const Bad bad : kEveryBad) {
      EXPECT_TRUE(hides(runtime(), problem, kernel(), true, bad));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Poison, testing::ValuesIn(kEveryFormName), kernel_test_name);

}  // namespace
}  // namespace vkattn::tests
