// The host half of the tile kernel from made-up capabilities: the block that fits the device's shared memory,
// and the form of the shader.
#include <gtest/gtest.h>

#include <tuple>
#include <utility>

#include "made_up_device.hpp"

namespace vkattn::tests {
namespace {

using namespace detail;

constexpr HostKernel kTile{"tile", configure_tile};

Capabilities gpu(std::uint32_t shared_memory_bytes) {
  Capabilities c = made_up_gpu();
  c.device_type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
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
  EXPECT_EQ(shader_with([](auto& c) { c.device_type = VK_PHYSICAL_DEVICE_TYPE_CPU; }), "attention_tile");
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

TEST(Tile, EveryEntryIsTakenOrRefusedByName) {
  for (const std::uint32_t bytes : {16384U, 32768U, 49152U, 65536U}) {
    for (const char* problem : {"1x1 d1", "512x512 d64 f16", "512x512 d576 dv512"}) {
      for (const TileShape& tile : all_tiles("tile")) {
        const auto config = configure_tile(desc_of(problem), gpu(bytes), {&tile, 1});
        if (config.ok()) {
          EXPECT_LE(config->shared_bytes, bytes);
        } else {
          EXPECT_TRUE(has(config.error().message, "maxComputeSharedMemorySize"));
        }
      }
    }
  }
}

}  // namespace
}  // namespace vkattn::tests
