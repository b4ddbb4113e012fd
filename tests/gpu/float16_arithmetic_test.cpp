// float16 arithmetic (PlanOptions::arithmetic_type): sums that show it, its limits, and refusals.
// pairs_test.cpp has problems in it, families_test.cpp block sizes, nan_test.cpp NaN.
#include <cmath>
#include <functional>
#include <memory>
#include <string>

#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

class Float16Arithmetic : public GpuTest {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override {
    return capabilities().shader_float16 ? "" : "the device has no shaderFloat16";
  }

  static RunOptions float16() {
    RunOptions options{.kernel = "tile", .arithmetic_type = DataType::kFloat16};
    options.inspect = [](const AttentionPlan& plan) {
      EXPECT_EQ(plan.arithmetic_type(), DataType::kFloat16);
      EXPECT_EQ(plan.probability_type(), DataType::kFloat16);
    };
    return options;
  }

  /// Gives all keys of a problem of one head a value, and optionally their elements too.
  static void fill_keys(const harness::ProblemRun& run, const std::function<float(std::int64_t)>& value,
                        float element = 0) {
    const AttentionDesc& desc = run.problem().desc;
    for (std::int64_t key = 0; key < desc.kv_length; ++key) {
      write_row(runtime(), run.key(), desc.key, 0, 0, key, desc.head_dim, element);
      write_row(runtime(), run.value(), desc.value, 0, 0, key, desc.value_dim, value(key));
    }
  }
  static void execute(harness::ProblemRun& run, const RunOptions& options = float16()) {
    const auto plan = must(make_plan(runtime(), run.problem().desc, options));
    ASSERT_TRUE(run.execute(harness::Runnable(plan)).ok());
  }
};

class Float16Sums : public Float16Arithmetic {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override {
    if (capabilities().rounds_float16_to_nearest) return Float16Arithmetic::reason_to_skip();
    return "the device does not say how it rounds float16";
  }
};

// Computed by hand: scores are equal, so the output is the mean. In float16 2048 + 1 is 2048, in float32 it
// is 2049. A 1 is lost if it is in the same sum of 8 keys as the 2048, in whatever order a compiler adds
// these keys and whether or not it fuses multiplications and additions. Other 1s stay. Dim d has its 1 in key
// d.
TEST_F(Float16Sums, SumsOfEightProductsAreFloat16) {
  const Problem problem = parsed("1x32 d4 dv32 f16 output=f32");
  const AttentionDesc& desc = problem.desc;
  for (const std::int64_t large_key : {0, 16, 21, 31}) {
    auto run = ready_run(problem);
    fill_keys(run, [&](std::int64_t key) { return key == large_key ? 2048.0F : 0.0F; });
    for (std::int64_t key = 0; key < 32; ++key) {
      if (key == large_key) continue;
      write_element(runtime(), run.value(), desc.value, key * 32 + key, 1.0F);
    }
    execute(run);
    for (std::int64_t dim = 0; dim < 32; ++dim) {
      const float sum = dim / 8 == large_key / 8 ? 2048.0F : 2049.0F;
      EXPECT_EQ(read_element(runtime(), run.output(), desc.output, dim), sum / 32) << large_key << " " << dim;
    }
  }
}

// Computed by hand: all values but one are 1, so seven of them are in a sum with 2048. If they are added one
// by one after the 2048, all are lost, which the tolerance of tests does not allow for. If they are added
// before it, none is lost, and 2055 becomes 2056. A compiler may also add some of them first, which gives a
// number between. But the result is never the odd 2055 of float32.
TEST_F(Float16Sums, SumsOfEightProductsLoseNoMoreThanIsPromised) {
  const Problem problem = parsed("1x32 d4 f16 output=f32");
  for (const std::int64_t large_key : {16, 31}) {
    auto run = ready_run(problem);
    fill_keys(run, [&](std::int64_t key) { return key == large_key ? 2048.0F : 1.0F; });
    execute(run);
    for (std::int64_t dim = 0; dim < 4; ++dim) {
      const float sum = 32 * read_element(runtime(), run.output(), problem.desc.output, dim) - 24;
      EXPECT_GE(sum, 2048) << large_key;
      EXPECT_LE(sum, 2056) << large_key;
      EXPECT_EQ(std::fmod(sum, 2.0F), 0) << large_key << ": " << sum;
    }
  }
}

// Computed by hand: with one key the lse is its score. The key has 2048 and then ones. Query d has a 1 in its
// first dim and in dim d. The 1 is lost if it is in the same sum as the 2048. That sum has the even dims of
// the first 32, in whatever order they are added.
TEST_F(Float16Sums, SumsOfSixteenDimsAreFloat16) {
  const Problem problem = parsed("64x1 d64 f16 scale=1 lse");
  const AttentionDesc& desc = problem.desc;
  auto run = ready_run(problem);
  for (std::int64_t query = 0; query < 64; ++query) {
    write_row(runtime(), run.query(), desc.query, 0, 0, query, 64, 0.0F);
    for (const std::int64_t dim : {std::int64_t{0}, query}) {
      write_element(runtime(), run.query(), desc.query, query * 64 + dim, 1.0F);
    }
  }
  write_row(runtime(), run.key(), desc.key, 0, 0, 0, 64, 1.0F);
  write_row(runtime(), run.key(), desc.key, 0, 0, 0, 1, 2048.0F);
  RunOptions options = float16();
  options.tile = TileSizes{64, 0, 16, 1, 1, 32};
  execute(run, options);
  for (std::int64_t query = 0; query < 64; ++query) {
    const bool is_lost = query % 2 == 0 && query < 32;
    EXPECT_NEAR(read_element(runtime(), run.lse(), TensorDesc{}, query), is_lost ? 2048 : 2049, 0.01)
        << query;
  }
}

// Queries are scaled before the products. Otherwise sums would exceed the largest float16, 65504. Computed by
// hand: equal scores of -100 * 128 * 64 / 8, and values of 3.
TEST_F(Float16Arithmetic, ScoresMayBeLarge) {
  const Problem problem = parsed("1x40 d64 f16 output=f32 lse");
  const AttentionDesc& desc = problem.desc;
  auto run = ready_run(problem);
  fill_keys(
      run, [](std::int64_t /*key*/) { return 3.0F; }, 128.0F);
  write_row(runtime(), run.query(), desc.query, 0, 0, 0, 64, -100.0F);
  execute(run);
  for (std::int64_t dim = 0; dim < 64; ++dim) {
    EXPECT_NEAR(read_element(runtime(), run.output(), desc.output, dim), 3.0F, 1e-5) << dim;
  }
  // Scores of this size in log2 units come in steps of 1/64 in float32.
  EXPECT_NEAR(read_element(runtime(), run.lse(), TensorDesc{}, 0), -102400 + std::log(40.0), 0.05);
}

// A scale above 1 multiplies the sums: queries times 256 would exceed the largest float16. Computed by hand:
// equal scores of 1024 * 2^-10 * 64 * 256.
TEST_F(Float16Arithmetic, ScalesMayBeLarge) {
  const Problem problem = parsed("1x40 d64 f16 scale=256 output=f32 lse");
  const AttentionDesc& desc = problem.desc;
  auto run = ready_run(problem);
  fill_keys(
      run, [](std::int64_t /*key*/) { return 3.0F; }, 0x1p-10F);
  write_row(runtime(), run.query(), desc.query, 0, 0, 0, 64, 1024.0F);
  execute(run);
  for (std::int64_t dim = 0; dim < 64; ++dim) {
    EXPECT_NEAR(read_element(runtime(), run.output(), desc.output, dim), 3.0F, 1e-5) << dim;
  }
  EXPECT_NEAR(read_element(runtime(), run.lse(), TensorDesc{}, 0), 16384 + std::log(40.0), 0.05);
}

// The unit test Float16Arithmetic.IsRefusedByName has the reasons of kernels, tensors and devices.
TEST_F(Float16Arithmetic, IsFloat16OrFloat32) {
  RunOptions options = float16();
  options.arithmetic_type = DataType::kBfloat16;
  EXPECT_TRUE(is_refused(make_plan(runtime(), parsed("8x8 d16 f16").desc, options),
                         ErrorCode::kInvalidArgument, {"PlanOptions::arithmetic_type is bf16"}));
}

// Block sizes measured in one arithmetic are not used for the other.
TEST_F(Float16Arithmetic, MeasuredBlockSizesAreOfTheirArithmetic) {
  const AttentionDesc desc = parsed("h2 64x64 d32 f16").desc.resolved();
  PlanOptions options{.arithmetic_type = DataType::kFloat16, .deferred_compilation = true};
  const auto by_table = must(AttentionPlan::create(runtime().device(), desc, options));
  const TileSizes measured{64, 0, 16, 1, 2, 32};
  ASSERT_FALSE(by_table.tile() == measured);
  const auto tile_of = [&](DataType measured_in, DataType asked_for) {
    Tuning tuning;
    tuning.problems = {{"h2 64x64 d32 f16", desc, {"tile", measured}, 0, {}, measured_in}};
    options.tuning = std::make_shared<Tuning>(tuning);
    options.arithmetic_type = asked_for;
    const auto plan = AttentionPlan::create(runtime().device(), desc, options);
    return plan.ok() ? plan->tile() : TileSizes{};
  };
  EXPECT_EQ(tile_of(DataType::kFloat32, DataType::kFloat16), by_table.tile());
  EXPECT_EQ(tile_of(DataType::kFloat32, DataType::kFloat32), measured);
  EXPECT_EQ(tile_of(DataType::kFloat16, DataType::kFloat16), measured);
  const auto candidates = tuning_candidates(desc, runtime().device().capabilities(), DataType::kFloat16);
  ASSERT_FALSE(candidates.empty());
  EXPECT_EQ(candidates.front(), (KernelTile{"tile", by_table.tile()}));
}

// If the library chooses, it takes the kernel that has this arithmetic.
TEST_F(Float16Arithmetic, ChoosesAKernelThatCan) {
  PlanOptions options{.arithmetic_type = DataType::kFloat16, .pipeline_cache = runtime().pipeline_cache()};
  const auto plan = must(AttentionPlan::create(runtime().device(), parsed("8x8 d16 f16").desc, options));
  EXPECT_EQ(plan.kernel_name(), "tile");
}

}  // namespace
}  // namespace vkattn::tests
