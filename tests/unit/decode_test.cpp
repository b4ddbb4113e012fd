// The decode kernel's choice of threads, rows and subgroups from made-up capabilities.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "kernels/kernel.hpp"
#include "kernels/tile_table.hpp"
#include "problem/problem.hpp"
#include "shared/attention_constants.h"

namespace vkattn::detail {
namespace {

using bench::parse_problem;

Result<KernelConfig> configure(const AttentionDesc& desc, const Capabilities& capabilities) {
  return configure_decode(desc, capabilities, table_tiles("decode", desc, capabilities));
}

AttentionDesc desc_of(const std::string& problem) {
  return parse_problem(problem).value().desc;
}

/// A device with subgroups of 32 that shuffle, and 48 KiB.
Capabilities gpu() {
  Capabilities capabilities;
  capabilities.device_type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  capabilities.max_stage_storage_buffers = 8;
  capabilities.max_workgroup_invocations = 1024;
  capabilities.max_workgroup_size = {1024, 1024, 64};
  capabilities.max_shared_memory_bytes = 48 * 1024;
  capabilities.subgroup_size = capabilities.min_subgroup_size = capabilities.max_subgroup_size = 32;
  capabilities.subgroup_shuffle = true;
  capabilities.storage_buffer_16bit = true;
  return capabilities;
}

std::uint32_t value_of(const KernelConfig& config, std::uint32_t id) {
  const auto& all = config.constants;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const SpecializationValue& value) { return value.id == id; });
  return found == all.end() ? ~0U : found->value;
}

std::uint32_t columns_of(const char* problem, const Capabilities& capabilities) {
  return value_of(configure(desc_of(problem), capabilities).value(), VKATTN_SPEC_DECODE_COLUMNS);
}

TEST(Decode, ThreadsShareAKeyBySixteenBytes) {
  EXPECT_EQ(columns_of("hq8 hkv2 1x4096 d64 f16", gpu()), 8U);
  EXPECT_EQ(columns_of("hq8 hkv2 1x4096 d128 f16", gpu()), 16U);
  EXPECT_EQ(columns_of("hq8 hkv2 1x4096 d256 f16", gpu()), 32U);
  EXPECT_EQ(columns_of("1x4096 d8 f16", gpu()), 1U);
}

TEST(Decode, ATileHoldsAllRows) {
  for (int rows = 1; rows <= 16; ++rows) {
    for (const char* dims : {"d3", "d64 f16", "d128 f16", "d128", "d256 bf16", "d320 dv256"}) {
      const auto config = configure(desc_of("hq" + std::to_string(rows) + " hkv1 1x999 " + dims), gpu());
      ASSERT_TRUE(config.ok()) << config.error().message;
      EXPECT_GE(config->rows_per_workgroup, static_cast<std::uint32_t>(rows)) << dims;
      EXPECT_LT(config->rows_per_workgroup, 2U * static_cast<std::uint32_t>(rows)) << dims;
      EXPECT_LE(value_of(*config, VKATTN_SPEC_DECODE_ROWS), 4U) << dims;
    }
  }
}

TEST(Decode, MoreRowsAreRefusedByName) {
  const auto refused = configure(desc_of("hq8 hkv2 5x4096 d64"), gpu());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(refused.error().message.find("20"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("query rows"), std::string::npos) << refused.error().message;
}

TEST(Decode, TheSmallestDeviceThatShufflesTakesEveryProblem) {
  Capabilities smallest;
  smallest.max_stage_storage_buffers = 8;
  smallest.subgroup_size = smallest.min_subgroup_size = smallest.max_subgroup_size = 32;
  smallest.subgroup_shuffle = true;
  for (const char* problem : {"1x1 d1", "hq16 hkv1 1x99 d576 dv576", "hq4 hkv1 4x99 d576 dv512 f16",
                              "hq16 hkv1 1x99 d128 f16", "h2 16x99 d3", "0x5 d8", "hq0 hkv1 1x5 d8"}) {
    const auto config = configure(desc_of(problem), smallest);
    ASSERT_TRUE(config.ok()) << problem << ": " << config.error().message;
    EXPECT_LE(config->shared_bytes, smallest.max_shared_memory_bytes) << problem;
    EXPECT_LE(config->workgroup_size, smallest.max_workgroup_invocations) << problem;
    EXPECT_EQ(config->shader, "attention_decode_words") << problem;
    EXPECT_EQ(config->required_subgroup_size, 0U) << problem;
  }
}

TEST(Decode, SharedMemoryIsNamedWithBothNumbers) {
  Capabilities capabilities = gpu();
  capabilities.max_shared_memory_bytes = 1024;
  const auto refused = configure(desc_of("hq8 hkv2 1x4096 d128 f16"), capabilities);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded);
  for (const char* word : {"maxComputeSharedMemorySize", "1024"})
    EXPECT_NE(refused.error().message.find(word), std::string::npos) << refused.error().message;
}

TEST(Decode, ShufflesWhereSubgroupsHoldAKey) {
  const AttentionDesc desc = desc_of("hq8 hkv2 1x4096 d128 f16");
  EXPECT_EQ(configure(desc, gpu())->shader, "attention_decode");
  Capabilities changed = gpu();
  changed.storage_buffer_16bit = false;
  EXPECT_EQ(configure(desc, changed)->shader, "attention_decode_words");
  changed = gpu();
  changed.min_subgroup_size = 16;
  changed.subgroup_size_control = changed.required_subgroup_size = changed.compute_full_subgroups = true;
  EXPECT_EQ(configure(desc, changed)->shader, "attention_decode");
  EXPECT_EQ(configure(desc, changed)->required_subgroup_size, 16U) << "the smallest that holds a key";
  changed.min_subgroup_size = changed.max_subgroup_size = changed.subgroup_size = 64;
  EXPECT_EQ(configure(desc, changed)->required_subgroup_size, 64U);
  changed.max_workgroup_subgroups = 1;
  EXPECT_FALSE(configure(desc, changed).ok()) << "no block is one subgroup";
}

TEST(Decode, SubgroupsThatHoldNoKeyAreRefusedByName) {
  const AttentionDesc desc = desc_of("hq8 hkv2 1x4096 d128 f16");
  const auto reason = [](const AttentionDesc& problem, const Capabilities& capabilities) {
    const auto config = configure(problem, capabilities);
    EXPECT_FALSE(config.ok());
    return config ? std::string() : config.error().message;
  };
  Capabilities changed = gpu();
  changed.subgroup_shuffle = false;
  EXPECT_NE(reason(desc, changed).find("subgroup shuffles"), std::string::npos) << reason(desc, changed);
  changed = gpu();
  changed.min_subgroup_size = 16;  // and no way to ask for one
  EXPECT_NE(reason(desc, changed).find("16 to 32"), std::string::npos) << reason(desc, changed);
  changed = gpu();
  changed.subgroup_size = changed.min_subgroup_size = changed.max_subgroup_size = 8;
  EXPECT_TRUE(configure(desc, changed).ok());
  const AttentionDesc wide = desc_of("hq8 hkv2 1x4096 d576");
  EXPECT_NE(reason(wide, changed).find("144 elements"), std::string::npos) << reason(wide, changed);
  changed.device_type = VK_PHYSICAL_DEVICE_TYPE_CPU;
  EXPECT_TRUE(configure(wide, changed).ok()) << "no registers to spill";
}

TEST(Decode, SixteenByteLoadsWhereRowsAreAligned) {
  const auto loads = [](const char* problem) {
    return value_of(configure(desc_of(problem), gpu()).value(), VKATTN_SPEC_DECODE_KEY_LOADS8);
  };
  EXPECT_EQ(loads("1x99 d64 f16"), 1U);
  EXPECT_EQ(loads("1x99 d60 f16"), 0U);
  EXPECT_EQ(loads("1x99 d64 f16 aligned=8"), 0U);
  EXPECT_EQ(loads("1x99 d64"), 0U) << "float32 has 4 elements in 16 bytes";
}

}  // namespace
}  // namespace vkattn::detail
