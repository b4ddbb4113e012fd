// NaN and infinity in every key and value that no row sees, however it is hidden: none may reach an output.
#include <array>
#include <string>

#include "gpu/any_kernel.hpp"
#include "gpu/hidden_rows.hpp"

namespace vkattn::tests {
namespace {

/// Every kind of hiding, so that some keys are hidden from all rows.
constexpr std::array kHiding{
    "mask=f32:k hidden=0.5 block=4 lse",
    "mask=f32:bhqk hidden=0.95 block=64 lse",
    "mask=f16:bk hidden=0.7 block=1",
    "mask=bytes:bhk hidden=0.5 block=8 lse",
    "mask=bits:bhk hidden=0.5 block=3",
    "mask=bits:bhqk hidden=0.95 block=64 lse",
    "causal lse",
    "causal align=-20",
    "window=5,3 lse",
    "window=10,0 align=bottom-right",
    "kv_lengths=40,129 causal lse",
    "query_lengths=2,0 causal align=7",
    "ring=64 kv_lengths=129,40 lse",
    "ring=120 kv_lengths=129,120 window=9,0 align=bottom-right",
    "page=16 kv_lengths=100,3 lse",
    "page=7 window=20,0 align=bottom-right",
    "sequences query_lengths=2,3 kv_lengths=30,50 causal lse",
    "sequences=queries query_lengths=2,3 kv_lengths=100,30 page=16 causal align=bottom-right lse",
    "mask=bytes:k hidden=0.5 block=4 causal window=60,0 align=bottom-right kv_lengths=120,77 alibi softcap=4 "
    "sinks weights=probabilities lse",
    "dropout=0.3 mask=bits:k hidden=0.5 block=5 lse",
};

/// The same of quantised keys and values.
constexpr std::array kQuantisedHiding{
    "cache=q8_0 mask=bits:k hidden=0.5 block=8 lse",
    "cache=q4_0 page=16 kv_lengths=100,3",
    "cache=e4m3 window=5,3 lse",
};

testing::AssertionResult hides(const Runtime& runtime, const std::string& text, const std::string& kernel,
                               bool in_values, Bad bad, DataType arithmetic = DataType::kFloat32) {
  RunOptions options{.kernel = kernel, .arithmetic_type = arithmetic};
  options.prepare = [&](harness::ProblemRun& run) {
    const AttentionDesc& desc = run.problem().desc;
    StoredRows seen;
    must(run.visit_inputs([&](const reference::Inputs& inputs) { seen = seen_rows(desc, inputs).keys; }));
    EXPECT_GT(poison_unseen(runtime, run.key(), harness::key_shape(desc), seen, bad), 0U)
        << "nothing is hidden from all rows: " << text;
    if (in_values) (void)poison_unseen(runtime, run.value(), harness::value_shape(desc), seen, bad);
  };
  return runs_right(runtime, text, options);
}

class Poison : public AnyKernelTest {
 protected:
  static std::string sized(const char* words, const char* dims) {
    return std::string(kernel() == "decode" ? "3x129 " : "70x129 ") + "b2 hq4 hkv2 " + dims + " " + words +
           (is_on_matrix_units() ? " f16" : "");
  }
};

/// On matrix units it is promised of V only where no row of a block sees the key. A NaN as the scale of a
/// hidden block reaches nothing, in V either.
TEST_P(Poison, HiddenFromAllRowsNeverLeaks) {
  const bool on_matrices = is_on_matrix_units();
  for (const char* const words : part_of<const char*>(kHiding)) {
    const std::string text = sized(words, on_matrices ? "d24 dv16" : "d20 dv12");
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
  for (const char* const words : part_of<const char*>(kHiding)) {
    for (const Bad bad : kEveryBad) {
      EXPECT_TRUE(hides(runtime(), sized(words, "d20 dv12 f16"), kernel(), true, bad, DataType::kFloat16))
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

INSTANTIATE_TEST_SUITE_P(Kernels, Poison, testing::ValuesIn(kEveryKernelName), kernel_test_name);

}  // namespace
}  // namespace vkattn::tests
