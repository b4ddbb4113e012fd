// float16 arithmetic on made-up devices: the kernels that have it, and their blocks.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/select.hpp"
#include "kernels/vendors.hpp"
#include "made_up_device.hpp"
#include "reference/reference.hpp"
#include "support/must.hpp"

namespace vkattn::tests {
namespace {

using namespace detail;

Capabilities float16_gpu() {
  Capabilities device = made_up_gpu();
  device.subgroup_shuffle = device.shader_float16 = true;
  return device;
}

// The list of kernels and the plans give the same answers.
TEST(Float16Arithmetic, KernelsAreListedForIt) {
  for (const auto& [type, accepts] : {std::pair{DataType::kFloat32, true}, {DataType::kFloat16, false}}) {
    int seen = 0;
    for (const KernelSupport& support : kernel_support(desc_of("64x64 d64 f16"), float16_gpu(), type)) {
      if (support.kernel == "tile") {
        EXPECT_EQ(support.reason, "");
        ++seen;
      }
      if (support.kernel == "lane") {
        EXPECT_EQ(support.reason.empty(), accepts) << support.reason;
        ++seen;
      }
    }
    EXPECT_EQ(seen, 2);
  }
}

// A refusal is a sentence that names what float16 arithmetic needs, even if no kernel is named.
TEST(Float16Arithmetic, IsRefusedByName) {
  const Capabilities gpu = float16_gpu();
  const auto refusal = [&](const Capabilities& device, const char* problem, std::string_view kernel) {
    PlanOptions options;
    options.kernel = kernel;
    options.arithmetic_type = DataType::kFloat16;
    return message_of(select_kernel(desc_of(problem).resolved(), device, options));
  };
  EXPECT_EQ(refusal(gpu, "64x64 d64 f16", ""), "");
  EXPECT_EQ(refusal(gpu, "64x64 d64 f16 output=f32 mask=bytes", "tile"), "");
  for (const Kernel& kernel : ordered_kernels(desc_of("1x64 d64 f16").resolved(), gpu)) {
    if (kernel.configure_float16 != nullptr) continue;
    EXPECT_TRUE(has(refusal(gpu, "1x64 d64 f16", kernel.name),
                    "has no form with float16 arithmetic (PlanOptions::arithmetic_type)"));
  }
  EXPECT_TRUE(has(refusal(gpu, "64x64 d64", ""), "AttentionDesc::query.type is f32"));
  EXPECT_TRUE(has(refusal(gpu, "64x64 d64 f16 key=bf16", ""), "AttentionDesc::key.type is bf16"));
  EXPECT_TRUE(has(refusal(gpu, "64x64 d64 f16 value=q8_0", ""), "AttentionDesc::value.type is q8_0"));
  Capabilities without = gpu;
  without.shader_float16 = false;
  EXPECT_TRUE(has(refusal(without, "64x64 d64 f16", ""), "needs shaderFloat16, which is not enabled"));
  without = gpu;
  without.storage_buffer_16bit = false;
  EXPECT_TRUE(
      has(refusal(without, "64x64 d64 f16", ""), "needs storageBuffer16BitAccess, which is not enabled"));
}

// Its forms of tile use less than three quarters of the shared memory, and sums no longer than the tolerance
// allows. It has block sizes of its own where other sizes spill.
TEST(Float16Arithmetic, HasFormsOfTile) {
  const Capabilities device = float16_gpu();
  const HostKernel float32{"tile", configure_tile}, float16{"tile", configure_tile_float16};
  const KernelConfig config = float16.configured("512x512 d64 f16", device);
  EXPECT_EQ(config.shader, "attention_tile_float16");
  EXPECT_EQ(config.arithmetic_type, DataType::kFloat16);
  EXPECT_EQ(config.probability_type, DataType::kFloat16);
  EXPECT_EQ(config.tile, float32.configured("512x512 d64 f16", device).tile);
  EXPECT_LT(config.shared_bytes, float32.configured("512x512 d64 f16", device).shared_bytes * 3 / 4);
  EXPECT_EQ(float16.configured("512x512 d64 f16 mask=bytes", device).shader,
            "attention_tile_float16_features");
  const std::vector<TileSizes> long_sums{{256, 0, 16, 4, 4, 64}};
  EXPECT_TRUE(has(message_of(configure_tile_float16(desc_of("512x512 d64 f16"), device, long_sums)),
                  "float16 arithmetic takes block sizes with at most 32 dims at a time"));
  EXPECT_TRUE(configure_tile(desc_of("512x512 d64 f16"), device, long_sums).ok());
}

// In subgroups of 8 other block sizes would spill.
TEST(Float16Arithmetic, HasBlockSizesOfItsOwnOnIntel) {
  Capabilities device = float16_gpu();
  device.vendor_id = kVendorIntel;
  set_subgroup_sizes(device, 8, 32);
  PlanOptions options;
  options.kernel = "tile";
  options.arithmetic_type = DataType::kFloat16;
  const auto selection = must(select_kernel(desc_of("h8 1024x1024 d64 f16"), device, options));
  EXPECT_EQ(selection.config.tile, (TileSizes{256, 0, 16, 1, 4, 32}));
}

// docs/semantics.md, "float16 arithmetic", computed by hand: sums of 16 dims and of 8 keys, and what may be
// flushed from sums of 4 and of 2.
TEST(Float16Arithmetic, HasATolerance) {
  const AttentionDesc desc = desc_of("1x20 d64 dv1 f16 output=f32 lse");
  reference::Row row;
  row.output = {1.0};
  row.value_magnitude = {2.0};
  row.value_sum = {40.0};
  row.visible_keys = 20;
  row.score_magnitude = row.product_magnitude = 3.0;
  row.product_lost = 0.25;
  row.value_lost = {0.125};
  row.largest_weight = 0.5;
  const double least = 0x1p-14, unit = 0x1p-11;
  const double score = 5 * unit * 3 + 0.25 + 16 * (2 * std::log(2.0)) * least;
  const double output = (std::expm1(score) + (1 + std::sqrt(8.0)) * unit) * 2 + 0.125 + 11 * 0.5 * least;
  const auto more = [](double in_float16, double in_float32) { return in_float16 - in_float32; };
  EXPECT_NEAR(more(reference::output_tolerance(desc, row, 0, DataType::kFloat16, DataType::kFloat16),
                   reference::output_tolerance(desc, row, 0, DataType::kFloat16)),
              output, 1e-12);
  EXPECT_NEAR(
      more(reference::lse_tolerance(desc, row, DataType::kFloat16), reference::lse_tolerance(desc, row)),
      score, 1e-12);
}

// Computed by hand. Queries are scaled by 0.5 = 2^-1 to 1 and 2^-3. A score may lose the product 2^-16 of the
// first key, with 2^-3 in place of 0.25, and the third key's own 2^-15. A value may lose the product 2^-14,
// and everything from the fourth key, whose weight is below 2^-13 of the largest.
TEST(Float16Arithmetic, LosesSmallNumbersInTheReference) {
  const std::vector<float> query{2, 0.25F};
  const std::vector<float> key{1, 0x1p-13F, -1, 0, -0x1p-15F, 8, -10, 0};
  const std::vector<float> value{1, 0x1p-14F, 1, 1, 1, 0.5F, 4, -4};
  const AttentionDesc desc = desc_of("1x4 d2 dv2 scale=0.5 lse").resolved();
  reference::Inputs inputs{HostTensors{.query = query, .key = key, .value = value}};
  const reference::Row row = reference::compute_row(desc, inputs, {});
  const double first = 1 + 0x1p-16;
  const double sum = 1 + std::exp(-1 - first) + std::exp(1 - 0x1p-15 - first) + std::exp(-10 - first);
  EXPECT_DOUBLE_EQ(row.lse, first + std::log(sum));
  EXPECT_DOUBLE_EQ(row.product_magnitude, 10);
  EXPECT_DOUBLE_EQ(row.product_lost, 0x1p-15);
  EXPECT_DOUBLE_EQ(row.largest_weight, 1 / sum);
  const double of_fourth = 4 * std::exp(-10 - first) / sum;
  EXPECT_DOUBLE_EQ(row.value_lost[0], of_fourth);
  EXPECT_DOUBLE_EQ(row.value_lost[1], 0x1p-14 / sum + of_fourth);
  // A function that multiplies scores by 8 adds 7 times the score: 70 for the fourth key.
  inputs.score_hook = [](const reference::RowIndex&, std::int64_t, std::span<double> scores) {
    for (double& score : scores) score *= 8;
  };
  EXPECT_DOUBLE_EQ(reference::compute_row(desc, inputs, {}).product_magnitude, 80);
}

}  // namespace
}  // namespace vkattn::tests
