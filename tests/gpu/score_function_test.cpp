// Compares the user's score functions with equal functions in C++, in every kernel.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "gpu/score_support.hpp"
#include "support/special_numbers.hpp"

namespace vkattn::tests {
namespace {

INSTANTIATE_TEST_SUITE_P(Kernels, ScoreFunctions, testing::ValuesIn(kEveryFormName), kernel_test_name);

// Runs the functions that problem strings can name, alone and with words that random_test.cpp draws for them.
TEST_P(ScoreFunctions, EqualTheReference) {
  const std::string problem = typed("b2 hq4 hkv2 70x83 d16 lse");
  for (const char* word : part_of({" score=prefix", " score=documents", " score=alibi", " score=bias"})) {
    EXPECT_TRUE(runs_right(runtime(), problem + word, RunOptions{kernel()}));
  }
  EXPECT_TRUE(runs_right(runtime(), typed("b3 h2 40x75 d16 kv_lengths=0,33,75 causal align=3 lse", "bf16"),
                         options(both())));
}

// A function that multiplies scores also multiplies their rounding errors in float16.
TEST_P(ScoreFunctions, EqualTheReferenceInFloat16) {
  if (kernel() != "tile") GTEST_SKIP() << "it has no form with float16 arithmetic";
  if (!capabilities().shader_float16) GTEST_SKIP() << "the device has no shaderFloat16";
  RunOptions run = options(setup("float score(float s, Position p) { return 8.0 * s; }", {}, {},
                                 [](double s, const reference::RowIndex&, std::int64_t) { return 8 * s; }));
  run.arithmetic_type = DataType::kFloat16;
  double largest = 0;
  run.largest_share = &largest;
  EXPECT_TRUE(runs_right(runtime(), "b2 hq4 hkv2 70x83 d64 f16 lse", run));
  run.score = both();
  EXPECT_TRUE(runs_right(runtime(), "b3 h2 40x75 d24 f16 kv_lengths=0,33,75 causal align=3 lse", run));
  std::printf("at most %.2f of the tolerance\n", largest);
}

// Positions count in the whole problem, even if a dispatch sees only a part of it.
TEST_P(ScoreFunctions, SeeThePositionsOfTheWholeProblem) {
  RunOptions run = options({});
  // If the kernel can cut the keys of one head, they are cut as well.
  const std::uint64_t range = kernel() == "matrix" ? 6144 : kernel() == "lane" ? 3072 : 5120;
  run.device = device_with([&](Capabilities& c) { c.max_storage_buffer_range = range; });
  run.inspect = [](const AttentionPlan& plan) {
    EXPECT_TRUE(has(plan.describe(), " windows of the tensors"));
  };
  for (const auto& score : part_of({both, relative_bias})) {
    run.score = score();
    EXPECT_TRUE(runs_right(runtime(), typed("b2 hq4 hkv2 70x83 d16 lse"), run));
  }
}

TEST_P(ScoreFunctions, GoWithSplitsOverKeys) {
  RunOptions run = options({});
  run.kv_splits = 5;
  for (const auto& score : part_of({both, relative_bias})) {
    run.score = score();
    EXPECT_TRUE(runs_right(runtime(), typed("b2 hq4 hkv2 6x300 d16 lse"), run));
  }
}

// Keys that are hidden from all rows never take part in the arithmetic.
TEST_P(ScoreFunctions, HideNan) {
  const char* const by_score = R"(
    float score(float s, Position p) { return p.key % 3 == 1 ? -1.0 / float(p.batch) : s; })";
  const ScoreSetup hidden = setup(
      by_score, {}, {},
      [](double s, const reference::RowIndex&, std::int64_t key) { return key % 3 == 1 ? kHidden : s; });
  RunOptions run = options({});
  run.prepare = [](harness::ProblemRun& filled) {
    const AttentionDesc& desc = filled.problem().desc;
    for (std::int64_t h = 0; h < desc.kv_heads; ++h) {
      for (std::int64_t j = 1; j < desc.kv_length; j += 3) {
        write_row(runtime(), filled.key(), desc.key, 0, h, j, desc.head_dim, kNan);
        if (is_on_matrix_units()) continue;  // they promise it for K only
        write_row(runtime(), filled.value(), desc.value, 0, h, j, desc.value_dim, kNan);
      }
    }
  };
  for (const ScoreSetup& score : part_of({both(), hidden})) {
    run.score = score;
    EXPECT_TRUE(runs_right(runtime(), typed("hq4 hkv2 40x90 d16 lse"), run));
  }
}

// Indices are clamped to the bound range: too large ones to the last element, negative ones to the first.
TEST_P(ScoreFunctions, ReadNothingOutsideOfATable) {
  const char* const source = R"(
    float score(float s, Position p) {
      return s + (p.key % 2 == 0 ? table(0x7fffffffu - p.key) : table(-int(p.key) - 1) + table(-2147483647 - 1));
    })";
  const auto score = [](double s, const reference::RowIndex&, std::int64_t key) {
    return s + (key % 2 == 0 ? 3.0 : 4.0);
  };
  EXPECT_TRUE(runs_right(runtime(), typed("h2 33x40 d16 lse"),
                         options(setup(source, {{"table"}}, {bits({2.0F, 9.0F, 3.0F})}, score))));
}

// -inf hides a key, also from rows that see no other key, with and without visible().
TEST_P(ScoreFunctions, MayReturnMinusInfinity) {
  const std::string source = R"(
    float score(float s, Position p) { return p.key % 3 == 2 ? s : table(p.query == 4 ? 0 : int(p.key % 3)); })";
  const std::vector<std::vector<std::uint32_t>> table{{0xff800000U, 0xff800000U}};
  const auto score = [](double s, const reference::RowIndex&, std::int64_t key) {
    return key % 3 == 2 ? s : kHidden;
  };
  const ScoreSetup without = setup(source.c_str(), {{"table"}}, table, score);
  const std::string visible = source + "bool visible(Position p) { return p.key != 2 || p.query != 5; }";
  const auto sees_less = [](double s, const reference::RowIndex& row, std::int64_t key) {
    return key % 3 == 2 && (key != 2 || row.query != 5) ? s : kHidden;
  };
  const ScoreSetup with = setup(visible.c_str(), {{"table"}}, table, sees_less);
  struct Case {
    const char* problem;
    const ScoreSetup* score;
  };
  for (const Case& one : part_of<Case>({{"h2 9x70 d16 lse mask=f32", &without},
                                        {"h2 9x70 d16 lse sinks", &without},
                                        {"h2 9x2 d16 lse", &without},
                                        {"h2 9x70 d16 lse mask=f32", &with},
                                        {"h2 9x2 d16 lse", &with}})) {
    EXPECT_TRUE(runs_right(runtime(), typed(one.problem), options(*one.score)));
  }
}

// Numbers hide no key, however low they are. Numbers below -2.3e38 count as -2.3e38.
TEST_P(ScoreFunctions, MayReturnTheLowestNumber) {
  const ScoreSetup lowest = setup(
      "float score(float s, Position p) { return p.query == 2 ? -3.4e38 : s; }", {}, {},
      [](double s, const reference::RowIndex& row, std::int64_t) { return row.query == 2 ? -3.4e38 : s; });
  EXPECT_TRUE(runs_right(runtime(), typed("h2 9x70 d16 lse"), options(lowest)));
}

// A problem's other features change scores after the function. Only softcap does so before it.
TEST_P(ScoreFunctions, GoWithEveryFeature) {
  for (const char* const more : part_of({"softcap=3 alibi mask=f16 sinks window=60,20 weights=masked",
                                         "query_lengths=3,5 sequences kv_lengths=40,75 causal",
                                         "page=16 kv_lengths=75,20", "ring=64 kv_lengths=75,33 dropout=0.2",
                                         "mask=bits:bhqk hidden=0.8 block=16 weights=probabilities"})) {
    const std::string problem = typed(std::string("b2 hq4 hkv2 9x75 d16 lse ") + more);
    EXPECT_TRUE(runs_right(runtime(), problem, options(both())));
  }
}

/// Entries end before the first block that is looked at. A CPU driver once ran the body of a loop with no
/// rows in it.
TEST_P(ScoreFunctions, GoWithPagesOfEntriesThatEndEarly) {
  const std::string problem = typed("b3 135x290 d66 kv_lengths=194,153,52 page=1 score=documents");
  EXPECT_TRUE(runs_right(runtime(), problem, RunOptions{kernel()}));
}

// Only a function that says what is visible is called before the kernel runs.
TEST_P(ScoreFunctions, HideWholeBlocksBeforeTheKernelRuns) {
  const auto passes = [](const ScoreSetup& score) {
    std::vector<std::string> names;
    const auto plan = make_plan(runtime(), parsed(typed("h2 256x512 d64")).desc, options(score));
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    if (!plan.ok()) return names;
    for (const DispatchInfo& dispatch : plan->dispatches()) names.emplace_back(dispatch.pass);
    return names;
  };
  const auto has_block_mask = [&](const ScoreSetup& score) {
    const auto names = passes(score);
    return std::find(names.begin(), names.end(), "block_mask") != names.end();
  };
  if (!is_on_matrix_units()) {
    EXPECT_TRUE(has_block_mask(documents()));
  }
  EXPECT_FALSE(has_block_mask(relative_bias()));
}

}  // namespace
}  // namespace vkattn::tests
