// Rules of the host half of decode, from made-up capabilities. Single decisions are in decisions.txt.
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

}  // namespace
}  // namespace vkattn::tests
