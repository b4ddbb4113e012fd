// Tensors in unusual memory: transposed, interleaved, repeated, and without 16-bit storage. pairs_test.cpp
// and random_test.cpp vary layouts, padding and offsets.
#include "gpu/any_kernel.hpp"

namespace vkattn::tests {
namespace {

class StridesTest : public AnyKernelTest {};

INSTANTIATE_TEST_SUITE_P(Kernels, StridesTest, testing::ValuesIn(kEveryFormName), kernel_test_name);

TEST_P(StridesTest, OfEveryKind) {
  struct Case {
    const char* what;
    const char* problem;
    void (*change)(AttentionDesc& desc);
  };
  const Case cases[] = {
      {"key transposed", "b2 h3 19x45 d24 shift=1",
       [](AttentionDesc& d) {
         d.key.strides = {3 * 24 * 47, 24 * 47, 1, 47};
       }},
      {"value interleaved", "b2 h3 19x45 d24 dv17 causal",
       [](AttentionDesc& d) {
         d.value.strides = {3 * 45 * 40, 45 * 40, 40, 2};
       }},
      {"query, output and lse transposed", "b2 h3 19x45 d24 dv17 lse",
       [](AttentionDesc& d) {
         d.query.strides = {3 * 24 * 19, 24 * 19, 1, 19};
         d.output.strides = {3 * 17 * 20, 17 * 20, 1, 20};
         d.lse_strides = {1, 2, 6, 1};
       }},
      {"heads innermost", "b2 h4 19x45 d8",
       [](AttentionDesc& d) {
         d.query.strides = {19 * 32, 1, 32, 4};
         d.key.strides = {45 * 32, 1, 32, 4};
         d.value.strides = {1, 2, 8 * 8, 8};
         d.output.strides = {19 * 40, 10, 40, 1};
       }},
      {"inputs repeated", "b3 h4 19x45 d8",
       [](AttentionDesc& d) { d.key.strides->batch = d.value.strides->head = d.query.strides->batch = 0; }},
      {"one key row for all positions", "b2 19x45 d8", [](AttentionDesc& d) { d.key.strides->row = 0; }}};
  for (const Case& one : cases) {
    const std::vector<const char*> types = is_on_matrix_units()
                                               ? std::vector{"", " cache=e4m3"}
                                               : std::vector{"f32", "f16", "bf16", "key=e4m3 value=e4m3"};
    for (const char* type : part_of<const char*>(types)) {
      Problem problem = parsed(typed(one.problem, type) + (is_on_matrix_units() ? type : ""));
      one.change(problem.desc);
      if (!takes_storage_of(problem.desc)) continue;
      EXPECT_TRUE(runs_right(runtime(), problem, {kernel()})) << one.what;
    }
  }
}

/// Rows 2048 bytes apart: on CPUs lane keeps the sums of such an output apart, and not those of rows 1984
/// bytes apart.
TEST_P(StridesTest, RowsThatShareSetsOfACache) {
  if (is_on_matrix_units()) GTEST_SKIP() << "has no such rule";
  for (const char* problem : part_of({"h16 37x45 d32 layout=bshd lse", "h16 37x45 d31 layout=bshd lse",
                                      "hq16 hkv4 21x45 d24 dv32 layout=bshd causal"})) {
    RunOptions options{kernel()};
    if (std::string_view(kernel()) == "lane" && runtime().device().capabilities().is_cpu()) {
      options.inspect = [&](const AttentionPlan& plan) {
        EXPECT_EQ(plan.workspace_bytes() != 0, plan.desc().output.strides->row % 512 == 0) << problem;
      };
    }
    EXPECT_TRUE(runs_right(runtime(), parsed(fitted(problem)), options));
  }
}

/// No two rows of these tensors share a word, so none is refused. pairs_test.cpp has rows that share words.
TEST_P(StridesTest, OutputsWithout16BitStorage) {
  if (is_on_matrix_units()) GTEST_SKIP() << "needs 16-bit storage";
  RunOptions options = seen_as(kernel(), [](Capabilities& c) { c.storage_buffer_16bit = false; });
  Problem transposed = parsed(fitted("19x45 d9 key=f16 value=bf16"));
  transposed.desc.key.strides = {0, 0, 1, 45};
  EXPECT_TRUE(runs_right(runtime(), transposed, options)) << "key transposed";
  run_part({"b2 h2 19x45 d16 f16", "b2 h2 19x45 d16 bf16 shift=2 pad=2", "b2 h2 19x45 d16 f16 layout=bshd",
            "h2 65x45 d15 output=f16 pad=1"},
           options);
}

}  // namespace
}  // namespace vkattn::tests
