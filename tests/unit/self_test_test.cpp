// What a self-test calls right and wrong.
#include "self_test/small_problem.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "program/program.hpp"
#include "support/problem_text.hpp"
#include "support/text.hpp"

namespace vkattn::detail {
namespace {

using tests::has;

/// Two keys of equal scores: each output is the mean of their values, the lse log(2).
class FirstDifference : public testing::Test {
 protected:
  [[nodiscard]] std::string difference() {
    const AttentionDesc desc = tests::parsed("2x2 d1 lse").desc;
    return first_difference(desc,
                            {.query = query_, .key = key_, .value = value_, .output = output_, .lse = lse_},
                            DataType::kFloat32);
  }

  std::vector<float> query_{0, 0}, key_{1, 2}, value_{3, 5};
  std::vector<float> output_{4, 4}, lse_{std::log(2.0F), std::log(2.0F)};
};

TEST_F(FirstDifference, RightResultsHaveNone) {
  EXPECT_EQ(difference(), "");
}

TEST_F(FirstDifference, WrongOutputsAreNamed) {
  for (const float wrong :
       {0.0F, 4.01F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    output_[1] = wrong;
    EXPECT_TRUE(has(difference(), "query 1, dim 0")) << wrong;
  }
}

TEST_F(FirstDifference, WrongLogSumExpsAreNamed) {
  lse_[1] = 0;
  EXPECT_TRUE(has(difference(), "query 1, lse"));
}

TEST(SmallProblem, HasAHeadWhereTheProblemHasNone) {
  AttentionDesc desc = tests::parsed("64x64 d32").desc;
  for (const std::int64_t kv_heads : {0, 2}) {
    desc.query_heads = 0;
    desc.kv_heads = kv_heads;
    EXPECT_TRUE(validate(desc).ok());
    EXPECT_EQ(small_problem(desc).query_heads, 1) << kv_heads;
    EXPECT_GE(timed_problem(desc, 16).query_heads, 1) << kv_heads;
  }
}

AttentionDesc timed(const char* problem, std::int64_t compute_units = 16) {
  return timed_problem(tests::parsed(problem).desc, compute_units);
}

TEST(TimedProblem, IsOneForEveryProblemOfAPipeline) {
  EXPECT_EQ(timed("h2 64x64 d32 f16"), timed("b3 h5 7x900 d32 f16"));
  EXPECT_EQ(timed("hq8 hkv2 64x64 d32 f16"), timed("hq4 hkv1 9x64 d32 f16"));
  EXPECT_EQ(timed("64x64 d32 window=3,4"), timed("64x64 d32 window=30,1 causal"));
  EXPECT_EQ(timed("64x64 d32 window=3,1"), timed("64x64 d32 window=30,0 causal"));
  EXPECT_EQ(timed("h2 64x64 d32 mask=f32:bhqk"), timed("h2 64x64 d32 mask=f32:k"));
  EXPECT_NE(timed("64x64 d32 f16"), timed("64x64 d32 f16 causal"));
  EXPECT_NE(timed("64x64 d32 f16"), timed("64x64 d32 bf16"));
  EXPECT_NE(timed("64x64 d32"), timed("64x64 d32 page=16")) << "the form with features";
}

TEST(TimedProblem, FillsTheDevice) {
  for (const char* const problem : {"h2 64x64 d32 f16", "hq8 hkv2 64x64 d32 f16"}) {
    const AttentionDesc small = timed(problem, 1), large = timed(problem, 96), huge = timed(problem, 100'000);
    EXPECT_EQ(small.kv_heads, 1);
    EXPECT_GE(large.query_heads * large.query_length, 96 * 128);
    EXPECT_EQ(huge.kv_heads, 64) << "but takes no more memory than that";
  }
}

TEST(TimedProblem, IsValidWithTensorsOfItsSize) {
  for (const char* const problem :
       {"h2 64x64 d32", "hq4 hkv2 64x64 d17 f16 mask=bits:bhqk causal",
        "h2 50x70 d64 mask=f16:k sinks softcap=5", "h3 60x60 d40 bf16 mask=bytes:bqk alibi=given dropout=0.1",
        "h2 64x64 d32 f16 cache=q8_0 kv_lengths=50", "h2 64x64 d32 key=q4_0 value=e4m3",
        "h2 64x64 d17 cache=e4m3 page=16", "64x64 d32 sequences query_lengths=40 kv_lengths=60",
        "h2 64x64 d32 window=3,4 align=7 ring=50"}) {
    const AttentionDesc desc = timed(problem);
    ASSERT_TRUE(validate(desc).ok()) << problem << ": " << validate(desc).error().message;
    const auto tensors = small_tensors(desc);
    for (const TensorRow& row : tensor_table()) {
      if (!row.is_used(desc)) continue;
      const TensorExtents e = tensor_extents(row, desc);
      const auto bytes =
          static_cast<std::size_t>(tensor_bytes(row.storage(desc), e.batch, e.heads, e.rows, e.dims).value());
      EXPECT_GE(tensors[row.range].size(), bytes) << problem << ", " << row.name;
      EXPECT_LE(tensors[row.range].size(), bytes + 3) << problem << ", " << row.name;
    }
  }
}

/// The key of an outcome.
TEST(HashOfPasses, TellsSubgroupSizesAndModes) {
  std::vector<ProgramPass> passes(1);
  passes[0].specialization = {{1, 2}};
  const std::uint64_t any = hash_of(passes, {});
  EXPECT_EQ(hash_of(passes, {}), any);
  EXPECT_NE(hash_of(passes, {.maximal_reconvergence = true}), any);
  EXPECT_NE(hash_of(passes, {.subgroup_uniform_control_flow = true}),
            hash_of(passes, {.maximal_reconvergence = true}));
  EXPECT_NE(hash_of(passes, {.float16_to_nearest = true}), any);
  passes[0].required_subgroup_size = 16;
  const std::uint64_t of_16 = hash_of(passes, {});
  passes[0].required_subgroup_size = 32;
  EXPECT_NE(of_16, any);
  EXPECT_NE(hash_of(passes, {}), of_16);
}

}  // namespace
}  // namespace vkattn::detail
