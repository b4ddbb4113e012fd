// The host halves of tile and decode from made-up capabilities: the block that fits the device, the form of
// the shader, threads and rows.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>

#include "kernels/vendors.hpp"
#include "made_up_device.hpp"
#include "shared/attention_constants.h"

namespace vkattn::tests {
namespace {

using namespace detail;

constexpr HostKernel kTile{"tile", configure_tile};

Capabilities gpu(std::uint32_t shared_memory_bytes) {
  Capabilities c = made_up_gpu();
  c.device_type = DeviceType::kIntegratedGpu;
  c.max_shared_memory_bytes = shared_memory_bytes;
  c.max_workgroup_invocations = 256;
  c.max_workgroup_size = {256, 256, 64};
  c.subgroup_shuffle = true;
  return c;
}

TEST(Tile, TheLargestBlockThatFitsTheSharedMemory) {
  for (const bool shuffle : {true, false}) {
    for (const auto& [problem, bytes, threads, rows] :
         {std::tuple{"512x512 d64 f16", 16384U, 128U, 64U}, std::tuple{"512x512 d64 f16", 32768U, 256U, 128U},
          std::tuple{"512x512 d64 f16", 49152U, 256U, 128U}, std::tuple{"512x512 d128", 16384U, 128U, 64U},
          std::tuple{"512x512 d128", 32768U, 256U, 128U}, std::tuple{"512x512 d128", 49152U, 256U, 64U},
          std::tuple{"512x512 d256", 16384U, 128U, 32U}, std::tuple{"512x512 d256", 32768U, 256U, 64U},
          std::tuple{"512x512 d256", 49152U, 256U, 64U}}) {
      Capabilities capabilities = gpu(bytes);
      capabilities.subgroup_shuffle = shuffle;
      const KernelConfig config = kTile.configured(problem, capabilities);
      EXPECT_EQ(config.workgroup_size, threads) << problem << ' ' << bytes;
      EXPECT_EQ(config.rows_per_workgroup, rows) << problem << ' ' << bytes;
      EXPECT_LE(config.shared_bytes, bytes) << problem;
      EXPECT_GT(config.shared_bytes * 2, bytes < 49152 ? bytes : 0U) << "a smaller block than it could be";
    }
  }
}

TEST(Tile, FewRowsGetSmallBlocks) {
  for (const auto& [problem, rows] :
       {std::pair{"1x4096 d64", 4U}, std::pair{"4x4096 d64", 4U}, std::pair{"hq8 hkv1 1x4096 d64", 8U},
        std::pair{"16x4096 d64", 16U}, std::pair{"32x4096 d64", 32U}, std::pair{"64x4096 d64", 64U},
        std::pair{"65x4096 d64", 128U}}) {
    EXPECT_EQ(kTile.configured(problem, gpu(32768)).rows_per_workgroup, rows) << problem;
  }
}

TEST(Tile, RowsAreReducedInSubgroupsWhereTheyAreGranted) {
  const Capabilities granted = gpu(32768);
  EXPECT_EQ(kTile.configured("64x64 d64", granted).shader, "attention_tile_subgroup_words");
  EXPECT_EQ(kTile.configured("64x64 d64", granted).required_subgroup_size, 0U) << "there is only one";
  const auto shader_with = [&](auto change) {
    return kTile.configured("64x64 d64 f16", changed(granted, change)).shader;
  };
  EXPECT_EQ(shader_with([](auto&) {}), "attention_tile_subgroup");
  EXPECT_EQ(shader_with([](auto& c) { c.subgroup_shuffle = false; }), "attention_tile");
  EXPECT_EQ(shader_with([](auto& c) { c.subgroup_shuffle = c.storage_buffer_16bit = false; }),
            "attention_tile_words");
  EXPECT_EQ(shader_with([](auto& c) { c.min_subgroup_size = 8; }), "attention_tile") << "no size is sure";
  EXPECT_EQ(shader_with([](auto& c) { set_subgroup_sizes(c, 4, 4); }), "attention_tile")
      << "a row has more threads than a subgroup";
  EXPECT_EQ(shader_with([](auto& c) { set_subgroup_sizes(c, 256, 256); }), "attention_tile")
      << "the workgroup is no whole subgroup";
  EXPECT_EQ(shader_with([](auto& c) { c.device_type = DeviceType::kCpu; }), "attention_tile");
}

TEST(Tile, ASubgroupSizeIsAskedForWhereThereAreSeveral) {
  Capabilities several = gpu(32768);
  several.min_subgroup_size = 8;
  several.required_subgroup_size = several.compute_full_subgroups = true;
  const auto size_with = [&](auto change) {
    return kTile.configured("64x64 d64", changed(several, change)).required_subgroup_size;
  };
  EXPECT_EQ(size_with([](auto&) {}), 32U);
  several.vendor_id = 0x8086;
  EXPECT_EQ(size_with([](auto&) {}), 8U);
  EXPECT_EQ(size_with([](auto& c) { c.min_subgroup_size = 16; }), 16U);
  EXPECT_EQ(size_with([](auto& c) { c.max_workgroup_subgroups = 1; }), 0U);
  EXPECT_EQ(size_with([](auto& c) { c.compute_full_subgroups = false; }), 0U);
}

// On which GPUs that saves registers: docs/trials/gpu_compilers.md.
TEST(Tile, KeysAndValuesStayFloat16WhereThatSavesRegisters) {
  const auto packs = [](std::uint32_t vendor_id, const char* problem, std::uint32_t subgroup_size = 64) {
    Capabilities c = gpu(32768);
    c.vendor_id = vendor_id;
    set_subgroup_sizes(c, subgroup_size, subgroup_size);
    return constant(kTile.configured(problem, c), VKATTN_SPEC_TILE_PACKED) == 1U;
  };
  for (const char* problem : {"512x512 d128 f16", "512x512 d96 dv100 f16"}) {
    EXPECT_TRUE(packs(kVendorAmd, problem)) << problem;
    EXPECT_FALSE(packs(kVendorAmd, problem, 32)) << "RDNA3 issues two float32 multiply-adds at a time";
    EXPECT_FALSE(packs(kVendorIntel, problem)) << problem;
  }
  EXPECT_TRUE(packs(kVendorQualcomm, "512x512 d64 f16"));
  EXPECT_FALSE(packs(kVendorQualcomm, "512x512 d128 f16"));
  for (const char* problem :
       {"512x512 d64 f16", "512x512 d128", "512x512 d128 bf16", "512x512 d128 f16 value=q8_0",
        "512x512 d102 f16", "512x512 d128 dv126 f16", "512x512 d128 f16 pad=1", "512x512 d128 f16 shift=1"}) {
    EXPECT_FALSE(packs(kVendorAmd, problem)) << problem;
  }
  Capabilities amd = gpu(49152);
  const KernelConfig without = kTile.configured("512x512 d128 f16", amd);
  amd.vendor_id = kVendorAmd;
  set_subgroup_sizes(amd, 64, 64);
  const KernelConfig with = kTile.configured("512x512 d128 f16", amd);
  EXPECT_EQ(with.rows_per_workgroup, without.rows_per_workgroup);
  EXPECT_LT(with.shared_bytes, without.shared_bytes * 4 / 5);
}

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

// Wider subgroups of Intel before Xe2 leave each invocation fewer registers.
TEST(Decode, WideHeadsTakeTheNextWiderSubgroupsOfIntel) {
  Capabilities c = gpu();
  c.vendor_id = kVendorIntel;
  c.required_subgroup_size = c.compute_full_subgroups = true;
  set_subgroup_sizes(c, 8, 32);
  c.max_workgroup_subgroups = 64;
  for (const auto& [problem, size] : {std::pair{"1x4096 d128 f16", 8U},
                                      {"1x4096 d256 f16", 8U},
                                      {"1x4096 d512 f16", 16U},
                                      {"1x4096 d576 dv512 f16", 32U}}) {
    EXPECT_EQ(kDecode.configured(problem, c).required_subgroup_size, size) << problem;
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
  small.device_type = DeviceType::kCpu;
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
