// The one-call form on host arrays.
#include <vkattn/runtime.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

using ComputeTest = GpuTest;

/// Two queries and keys whose scaled scores are 1 on the diagonal and 0 beside it.
const std::vector<float> kTwoRows{1, 0, 1, 0, 0, 1, 0, 1};
const std::vector<float> kValues{2, 3, 5, 7};

AttentionDesc two_by_two() {
  return {.query_length = 2, .kv_length = 2, .head_dim = 4, .value_dim = 2};
}

TEST_F(ComputeTest, TheWorkedExample) {
  AttentionDesc desc = two_by_two();
  desc.has_lse = true;
  std::vector<float> output(4), lse(2);
  const HostTensors tensors{
      .query = kTwoRows, .key = kTwoRows, .value = kValues, .output = output, .lse = lse};
  for (int call = 0; call < 2; ++call) {  // the second finds the plan of the first
    must(runtime().compute(desc, tensors));
    const float p = 1 / (1 + std::exp(-1.0F));
    const std::vector<float> expected{2 * p + 5 * (1 - p), 3 * p + 7 * (1 - p), 5 * p + 2 * (1 - p),
                                      7 * p + 3 * (1 - p)};
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(output[i], expected[i], 1e-5) << i;
    for (const float value : lse) EXPECT_NEAR(value, std::log(1 + std::exp(1.0F)), 1e-5);
    output.assign(4, 0);
    lse.assign(2, 0);
  }
}

/// A mask, a length and a row that is not written, which keeps what it had.
TEST_F(ComputeTest, FeaturesTakeTheirArraysByName) {
  AttentionDesc desc = two_by_two();
  desc.mask.type = MaskType::kBytes;
  desc.query_lengths = Lengths::kPerEntry;
  const std::vector<std::uint8_t> mask{0, 1, 1, 1};
  const std::vector<std::int32_t> one{1};
  std::vector<float> output(4, 9);
  must(runtime().compute(desc, {.query = kTwoRows,
                                .key = kTwoRows,
                                .value = kValues,
                                .output = output,
                                .query_lengths = one,
                                .mask = mask}));
  EXPECT_EQ(output, (std::vector<float>{5, 7, 9, 9}));
}

TEST_F(ComputeTest, ArraysThatAreMissingOrTooSmallAreNamed) {
  std::vector<float> output(4), small(3);
  const auto is_missing = [](const AttentionDesc& desc, const HostTensors& tensors,
                             const std::vector<std::string>& words) {
    EXPECT_TRUE(is_refused(runtime().compute(desc, tensors), ErrorCode::kInvalidArgument, words));
  };
  is_missing(two_by_two(), {.query = kTwoRows, .key = kTwoRows, .output = output},
             {"value has 0 bytes", "HostTensors::value"});
  is_missing(two_by_two(), {.query = kTwoRows, .key = kTwoRows, .value = kValues, .output = small},
             {"output has 12 bytes"});
  is_missing(AttentionDesc{}, {}, {"query_length is not set"});
}

/// 16-bit tensors of an odd number of elements, and nothing at all.
TEST_F(ComputeTest, OddAndEmptyArrays) {
  AttentionDesc desc{.query_length = 1, .kv_length = 1, .head_dim = 1};
  desc.set_type(DataType::kFloat16);
  const std::vector<std::uint16_t> one{float_to_half(1.0F)}, value{float_to_half(-3.5F)};
  std::vector<std::uint16_t> output(1);
  must(runtime().compute(desc, {.query = one, .key = one, .value = value, .output = output}));
  EXPECT_EQ(output, value);
  desc.query_length = 0;
  EXPECT_TRUE(runtime().compute(desc, {.key = one, .value = value}).ok());
}

}  // namespace
}  // namespace vkattn::tests
