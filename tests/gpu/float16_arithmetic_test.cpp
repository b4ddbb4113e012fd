// float16 arithmetic (PlanOptions::arithmetic_type): problems against the reference within its tolerance, a
// sum that shows it, its limits, and what cannot do it.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "gpu/support.hpp"
#include "support/special_numbers.hpp"

namespace vkattn::tests {
namespace {

class Float16Arithmetic : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!capabilities().shader_float16) GTEST_SKIP() << "the device has no shaderFloat16";
  }

  static RunOptions float16() {
    RunOptions options{"tile"};
    options.arithmetic_type = DataType::kFloat16;
    options.inspect = [](const AttentionPlan& plan) {
      EXPECT_EQ(plan.arithmetic_type(), DataType::kFloat16);
      EXPECT_EQ(plan.probability_type(), DataType::kFloat16);
    };
    return options;
  }

  /// The error of a plan in float16.
  static std::string refusal(std::string_view problem, RunOptions options = float16()) {
    const auto plan = make_plan(runtime(), parsed(problem).desc, options);
    return plan.ok() ? "" : plan.error().message;
  }
};

TEST_F(Float16Arithmetic, Problems) {
  double largest = 0;
  RunOptions options = float16();
  options.largest_share = &largest;
  // The table's block, and the least sums.
  for (const auto& tile : {std::optional<TileSizes>(), std::optional(TileSizes{64, 0, 16, 1, 1, 8})}) {
    options.tile = tile;
    options.kv_splits = 0;
    for (const char* problem : part_of(
             {"b2 hq4 hkv2 65x129 d64 f16 causal lse", "h2 37x75 d33 dv17 f16 kv_lengths=70 lse",
              "hq4 hkv1 33x65 d128 f16 output=f32 causal align=bottom-right", "5x40 d192 dv320 f16",
              "h2 70x300 d64 f16 data=uniform lse", "20x90 d64 f16 scale=3 lse", "20x90 d80 f16 scale=0.001",
              "20x90 d64 f16 magnitude=0.001", "9x300 d64 f16 magnitude=10 scale=0.01 lse",
              "b2 h3 40x100 d31 f16 pad=3 shift=5 layout=bshd", "30x600 d64 f16 data=equal output=f32",
              "b2 hq4 hkv2 33x90 d40 f16 mask=bits:bhqk softcap=5 sinks lse weights=probabilities",
              "h2 33x90 d40 f16 alibi dropout=0.3 page=16"})) {
      EXPECT_TRUE(runs_right(runtime(), problem, options));
    }
    options.kv_splits = 3;
    EXPECT_TRUE(runs_right(runtime(), "hq4 hkv2 9x300 d64 f16 causal align=bottom-right lse", options));
  }
  std::printf("at most %.2f of the tolerance\n", largest);
  // Vulkan lets others truncate, which is all one way.
  EXPECT_LT(largest, capabilities().rounds_float16_to_nearest ? 0.8 : 1.0) << "the tolerance has a margin";
}

// By hand: equal scores, so that the output is the mean. In float16 2048 and 1 are 2048, so that seven ones
// are lost that come after it in its sum. Seven before it are 7, and with it 2056, the even one of the two
// nearest. All of this goes one way, which the tolerance does not take into account.
TEST_F(Float16Arithmetic, SumsOfEightProductsAreFloat16) {
  if (!capabilities().rounds_float16_to_nearest)
    GTEST_SKIP() << "the device does not say how it rounds float16";
  const AttentionDesc desc = parsed("1x32 d4 f16 output=f32").desc;
  for (const auto& [large_key, expected] :
       {std::pair{16, (24 + 2048) / 32.0F}, std::pair{31, (24 + 2056) / 32.0F}}) {
    auto run = ready_run(parsed("1x32 d4 f16 output=f32"));
    for (std::int64_t key = 0; key < 32; ++key) {
      const float value = key == large_key ? 2048.0F : 1.0F;
      ASSERT_TRUE(write_row(runtime(), run.key(), desc.key, 0, 0, key, 4, 0.0F).ok());
      ASSERT_TRUE(write_row(runtime(), run.value(), desc.value, 0, 0, key, 4, value).ok());
    }
    const auto plan = make_plan(runtime(), desc, float16());
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    ASSERT_TRUE(run.execute(harness::Runnable(plan.value())).ok());
    EXPECT_EQ(read_element(runtime(), run.output(), desc.output, 0), expected) << large_key;
  }
}

// Queries are scaled before their products: without, sums of these would be beyond the largest float16,
// 65504. By hand: equal scores of -100 * 128 * 64 / 8, and values of 3.
TEST_F(Float16Arithmetic, ScoresMayBeLarge) {
  const AttentionDesc desc = parsed("1x40 d64 f16 output=f32 lse").desc;
  auto run = ready_run(parsed("1x40 d64 f16 output=f32 lse"));
  for (std::int64_t key = 0; key < 40; ++key) {
    ASSERT_TRUE(write_row(runtime(), run.key(), desc.key, 0, 0, key, 64, 128.0F).ok());
    ASSERT_TRUE(write_row(runtime(), run.value(), desc.value, 0, 0, key, 64, 3.0F).ok());
  }
  ASSERT_TRUE(write_row(runtime(), run.query(), desc.query, 0, 0, 0, 64, -100.0F).ok());
  const auto plan = make_plan(runtime(), desc, float16());
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_TRUE(run.execute(harness::Runnable(plan.value())).ok());
  for (std::int64_t dim = 0; dim < 64; ++dim) {
    EXPECT_NEAR(read_element(runtime(), run.output(), desc.output, dim), 3.0F, 1e-5) << dim;
  }
}

TEST_F(Float16Arithmetic, HiddenNanNeverLeaksAndSeenNanArrives) {
  RunOptions options = float16();
  for (const auto& [text, key] :
       {std::pair{"40x64 d24 f16 causal lse", 50}, std::pair{"37x150 d64 f16 kv_lengths=70", 70},
        std::pair{"40x64 d24 f16 causal lse", 20}}) {
    const Problem problem = parsed(text);
    const AttentionDesc& desc = problem.desc;
    if (key == 20 && !capabilities().preserves_nan_float32) continue;
    options.prepare = [&, key = key](harness::ProblemRun& run) {
      const Result<void> status = write_row(runtime(), run.key(), desc.key, 0, 0, key, desc.head_dim, kNan);
      if (!status.ok()) return status;
      return write_row(runtime(), run.value(), desc.value, 0, 0, key, desc.value_dim, kInfinity);
    };
    EXPECT_TRUE(runs_right(runtime(), problem, options)) << "NaN at key " << key;
  }
}

TEST_F(Float16Arithmetic, WhatCannotDoItSaysWhy) {
  for (const auto& [problem, words] :
       {std::pair{"8x8 d8", "AttentionDesc::query.type is f32"},
        std::pair{"8x8 d8 f16 key=bf16", "AttentionDesc::key.type is bf16"},
        std::pair{"8x8 d32 f16 value=q8_0", "AttentionDesc::value.type is q8_0"}}) {
    EXPECT_NE(refusal(problem).find(words), std::string::npos) << refusal(problem);
  }
  for (const char* const kernel : {"lane", "decode", "matrix", "matrix2"}) {
    RunOptions options = float16();
    options.kernel = kernel;
    const std::string reason = refusal("8x8 d16 f16", options);
    EXPECT_NE(reason.find("has no form with float16 arithmetic (PlanOptions::arithmetic_type)"),
              std::string::npos)
        << reason;
  }
  RunOptions options = float16();
  options.arithmetic_type = DataType::kBfloat16;
  EXPECT_NE(refusal("8x8 d16 f16", options).find("PlanOptions::arithmetic_type is bf16"), std::string::npos);
}

TEST_F(Float16Arithmetic, WhatIsNotEnabledIsNamed) {
  RunOptions options = float16();
  options.device = device_with([](Capabilities& c) { c.shader_float16 = false; });
  EXPECT_NE(refusal("8x8 d16 f16", options).find("needs shaderFloat16, which is not enabled"),
            std::string::npos);
  options.device = device_with([](Capabilities& c) { c.storage_buffer_16bit = false; });
  EXPECT_NE(refusal("8x8 d16 f16", options).find("needs storageBuffer16BitAccess, which is not enabled"),
            std::string::npos);
}

// What was measured in float32 says nothing of float16, which has entries of its own in the table.
TEST_F(Float16Arithmetic, MeasuredBlockSizesAreOfFloat32) {
  const AttentionDesc desc = parsed("h2 64x64 d32 f16").desc.resolved();
  PlanOptions options;
  options.deferred_compilation = true;
  options.arithmetic_type = DataType::kFloat16;
  const auto by_table = AttentionPlan::create(runtime().device(), desc, options);
  ASSERT_TRUE(by_table.ok()) << by_table.error().message;
  const TileSizes measured{64, 0, 16, 1, 2, 32};
  ASSERT_FALSE(by_table->tile() == measured);
  options.tuning =
      std::make_shared<Tuning>(Tuning{"a file", "", {{"h2 64x64 d32 f16", desc, {"tile", measured}, 0, {}}}});
  const auto plan = AttentionPlan::create(runtime().device(), desc, options);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->tile(), by_table->tile());
  EXPECT_NE(plan->describe().find("in a file: that was in float32 arithmetic"), std::string::npos)
      << plan->describe();
  options.arithmetic_type = DataType::kFloat32;
  EXPECT_EQ(AttentionPlan::create(runtime().device(), desc, options)->tile(), measured);
}

// Where the kernel is left to the library it is the one that can.
TEST_F(Float16Arithmetic, ChoosesAKernelThatCan) {
  PlanOptions options;
  options.arithmetic_type = DataType::kFloat16;
  options.pipeline_cache = runtime().pipeline_cache();
  const auto plan = AttentionPlan::create(runtime().device(), parsed("8x8 d16 f16").desc, options);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan.value().kernel_name(), "tile");
}

}  // namespace
}  // namespace vkattn::tests
