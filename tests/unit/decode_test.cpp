// The decode kernel's choice of threads, rows and subgroups from made-up capabilities.
#include <gtest/gtest.h>

#include <string>
#include <utility>

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

TEST(Decode, ThreadsShareAKeyBySixteenBytes) {
  for (const auto& [problem, columns] : {std::pair{"hq8 hkv2 1x4096 d64 f16", 8U},
                                         {"hq8 hkv2 1x4096 d128 f16", 16U},
                                         {"hq8 hkv2 1x4096 d256 f16", 32U},
                                         {"1x4096 d8 f16", 1U}}) {
    EXPECT_EQ(constant(kDecode.configured(problem, gpu()), VKATTN_SPEC_DECODE_COLUMNS), columns) << problem;
  }
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
  Capabilities smallest = with_lanes(small_device(VK_PHYSICAL_DEVICE_TYPE_OTHER), 32);
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

TEST(Decode, ShufflesWhereSubgroupsHoldAKey) {
  const char* const problem = "hq8 hkv2 1x4096 d128 f16";
  EXPECT_EQ(kDecode.configured(problem, gpu()).shader, "attention_decode");
  const Capabilities words = changed(gpu(), [](auto& c) { c.storage_buffer_16bit = false; });
  EXPECT_EQ(kDecode.configured(problem, words).shader, "attention_decode_words");
  Capabilities several = gpu();
  several.min_subgroup_size = 16;
  EXPECT_TRUE(has(kDecode.reason(problem, several), "16 to 32")) << "no way to ask for one";
  several.subgroup_size_control = several.required_subgroup_size = several.compute_full_subgroups = true;
  EXPECT_EQ(kDecode.configured(problem, several).shader, "attention_decode");
  EXPECT_EQ(kDecode.configured(problem, several).required_subgroup_size, 16U)
      << "the smallest that holds a key";
  several = with_lanes(several, 64);
  EXPECT_EQ(kDecode.configured(problem, several).required_subgroup_size, 64U);
  several.max_workgroup_subgroups = 1;
  EXPECT_FALSE(kDecode(problem, several).ok()) << "no block is one subgroup";
}

TEST(Decode, RefusesByNameWithNumbers) {
  const char* const problem = "hq8 hkv2 1x4096 d128 f16";
  const char* const wide = "hq8 hkv2 1x4096 d576";
  EXPECT_TRUE(
      has(kDecode.reason("hq8 hkv2 5x4096 d64", gpu()), "holds 16 query rows of one KV head; here are 20"));
  const Capabilities little = changed(gpu(), [](auto& c) { c.max_shared_memory_bytes = 1024; });
  EXPECT_TRUE(
      has(kDecode.reason(problem, little, ErrorCode::kLimitExceeded), "maxComputeSharedMemorySize is 1024"));
  const Capabilities without = changed(gpu(), [](auto& c) { c.subgroup_shuffle = false; });
  EXPECT_TRUE(has(kDecode.reason(problem, without), "subgroup shuffles"));
  Capabilities small = with_lanes(gpu(), 8);
  EXPECT_EQ(kDecode.reason(problem, small), "");
  EXPECT_TRUE(has(kDecode.reason(wide, small), "144 elements"));
  small.device_type = VK_PHYSICAL_DEVICE_TYPE_CPU;
  EXPECT_EQ(kDecode.reason(wide, small), "") << "no registers to spill";
}

TEST(Decode, SixteenByteLoadsWhereRowsAreAligned) {
  const auto loads = [](const char* problem) {
    return constant(kDecode.configured(problem, gpu()), VKATTN_SPEC_DECODE_KEY_LOADS8);
  };
  EXPECT_EQ(loads("1x99 d64 f16"), 1U);
  EXPECT_EQ(loads("1x99 d60 f16"), 0U);
  EXPECT_EQ(loads("1x99 d64 f16 aligned=8"), 0U);
  EXPECT_EQ(loads("1x99 d64"), 0U) << "float32 has 4 elements in 16 bytes";
}

}  // namespace
}  // namespace vkattn::tests
