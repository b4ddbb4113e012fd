// Rules of the host half of decode and of the pass over a mask, from made-up capabilities. Single decisions
// are in decisions.txt.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "made_up_device.hpp"
#include "shared/attention_constants.h"

namespace vkattn::tests {
namespace {

using namespace detail;

constexpr HostKernel kDecode{"decode", configure_decode};

/// A device with subgroups of 32 that shuffle.
Capabilities gpu() {
  Capabilities capabilities = made_up_gpu();
  capabilities.subgroup_shuffle = true;
  return capabilities;
}

TEST(Decode, ATileHoldsAllRows) {
  for (std::uint32_t rows = 1; rows <= 16; ++rows) {
    for (const std::string dims : {"d3", "d64 f16", "d128 f16", "d128", "d256 bf16", "d320 dv256"}) {
      const auto config = kDecode.configured("hq" + std::to_string(rows) + " hkv1 1x999 " + dims, gpu());
      EXPECT_GE(config.rows_per_workgroup, rows) << dims;
      EXPECT_LT(config.rows_per_workgroup, 2U * rows) << dims;
      EXPECT_LE(constant(config, VKATTN_SPEC_DECODE_ROWS), 4U) << dims;
    }
  }
}

TEST(Decode, TheSmallestDeviceThatShufflesTakesEveryProblem) {
  Capabilities smallest = with_lanes(small_device(DeviceType::kOther), 32);
  smallest.subgroup_shuffle = true;
  for (const char* problem : {"1x1 d1", "hq16 hkv1 1x99 d576 dv576", "hq4 hkv1 4x99 d576 dv512 f16",
                              "hq16 hkv1 1x99 d128 f16", "h2 16x99 d3", "0x5 d8", "hq0 hkv1 1x5 d8"}) {
    const KernelConfig config = kDecode.configured(problem, smallest);
    EXPECT_LE(config.shared_bytes, smallest.max_shared_memory_bytes) << problem;
    EXPECT_LE(config.workgroup_size, smallest.max_workgroup_invocations) << problem;
    EXPECT_EQ(config.shader, "attention_decode_words") << problem;
    EXPECT_EQ(config.required_subgroup_size, 0U) << problem;
  }
}

/// The positions that the pass counts are those that it looks at: with one mask for all heads, once for each
/// query that a block's rows have.
TEST(BlockMask, CountsTheQueriesOfHeadsThatShareAMask) {
  const auto flops = [](const std::string& problem, std::uint32_t rows) {
    KernelConfig kernel;
    kernel.rows_per_workgroup = rows;
    kernel.block_mask_keys = 32;
    return configure_block_mask(parsed(problem).desc.resolved(), made_up_gpu(), kernel).workgroup_flops;
  };
  const std::string shared = "64x64 d16 mask=bits:qk", own = "64x64 d16 mask=bits:hqk";
  const double query = flops("hq8 hkv8 " + shared, 1);
  EXPECT_GT(query, 0);
  EXPECT_DOUBLE_EQ(flops("hq8 hkv8 " + shared, 12), 12 * query);
  EXPECT_DOUBLE_EQ(flops("hq8 hkv1 " + own, 12), 12 * query);
  EXPECT_DOUBLE_EQ(flops("hq8 hkv1 " + shared, 4), query);
  EXPECT_DOUBLE_EQ(flops("hq8 hkv1 " + shared, 32), 4 * query);
  EXPECT_DOUBLE_EQ(flops("hq8 hkv1 " + shared, 12), 2 * query) << "rows 0 to 11, 12 to 23 and so on";
  EXPECT_DOUBLE_EQ(flops("hq7 hkv1 " + shared, 9), 3 * query)
      << "rows 27 to 35 are of the queries 3, 4 and 5";
}

}  // namespace
}  // namespace vkattn::tests
