// Runs what the tile table and the kernels choose for families of GPUs, as if this device were one of them.
#include <span>
#include <utility>
#include <vector>

#include "gpu/gpu_family.hpp"
#include "gpu/support.hpp"
#include "kernels/kernel.hpp"
#include "kernels/tile_table.hpp"

namespace vkattn::tests {
namespace {

class FamiliesTest : public GpuTest {
 protected:
  static RunOptions on(const GpuFamily& family, const char* kernel) {
    RunOptions options{.kernel = kernel,
                       .device = device_with([&](Capabilities& c) { pretend(c, family, kernel); }),
                       .family = family.name};
    return options;
  }
  /// Runs the problem with a block of tile, unless the block does not fit the shared memory.
  static void run_block(const TileSizes& tile, const char* problem, DataType arithmetic) {
    RunOptions options = on(kIntelGen12, "tile");
    options.tile = tile;
    options.arithmetic_type = arithmetic;
    const auto configure =
        arithmetic == DataType::kFloat16 ? detail::configure_tile_float16 : detail::configure_tile;
    const auto fits =
        configure(parsed("1x1 d8 f16").desc.resolved(), options.device->capabilities(), {&tile, 1});
    if (!fits.ok() && fits.error().code == ErrorCode::kLimitExceeded) return;
    EXPECT_TRUE(runs_right(runtime(), problem, options)) << to_string(tile);
  }
  static std::vector<const char*> tile_problems() {
    return part_of({"hq4 hkv2 70x75 d64 f16 causal lse", "9x70 d80", "h2 40x70 d256 f16 lse"});
  }
  static std::vector<const char*> decode_problems() {
    return part_of({"hq8 hkv2 1x300 d64 f16 lse",
                    "hq4 hkv2 3x257 d48 causal align=bottom-right kv_lengths=250",
                    "hq15 hkv1 1x130 d128 bf16 softcap=9"});
  }
};

// Runs each block size once, on problems whose last blocks are not full and on one with fewer rows than a
// block.
TEST_F(FamiliesTest, EveryBlockOfTile) {
  for (const TileSizes& tile : detail::all_tiles("tile")) {
    for (const char* problem :
         part_of({"hq4 hkv2 70x75 d72 f16 causal lse", "37x133 d128 dv40 kv_lengths=130",
                  "h2 3x70 d33 dv17 softcap=4 window=20,20"}))
      run_block(tile, problem, DataType::kFloat32);
  }
}

// Runs each block size in float16 arithmetic, also the blocks that only this arithmetic has, and the smallest
// sums. The sums of the output have 4 keys if a block has only 4.
TEST_F(FamiliesTest, EveryBlockOfTileInFloat16) {
  if (!capabilities().shader_float16) GTEST_SKIP() << "the device has no shaderFloat16";
  std::vector<TileSizes> tiles = detail::all_tiles("tile");
  for (const TileSizes& tile : detail::all_tiles(detail::kTileFloat16)) tiles.push_back(tile);
  tiles.push_back({64, 0, 4, 1, 1, 16});
  tiles.push_back({64, 0, 16, 1, 1, 8});
  std::vector<std::pair<TileSizes, const char*>> all;
  for (const TileSizes& tile : tiles) {
    for (const char* problem : {"hq4 hkv2 70x75 d72 f16 causal lse", "37x133 d128 dv40 f16 kv_lengths=130",
                                "h2 3x70 d33 dv17 f16 softcap=4 window=20,20"}) {
      all.emplace_back(tile, problem);
    }
  }
  for (const auto& [tile, problem] : part_of(std::span<const std::pair<TileSizes, const char*>>(all)))
    run_block(tile, problem, DataType::kFloat16);
}

TEST_F(FamiliesTest, Tile) {
  for (const GpuFamily& family : kGpuFamilies) {
    for (const char* problem : tile_problems()) {
      EXPECT_TRUE(runs_right(runtime(), problem, on(family, "tile")));
    }
  }
}

// Keys and values stay float16 in shared memory: blocks that are not full, dims after the last whole chunk,
// windows. GCN has subgroups of 64. If this device does not have them, rows are reduced through shared
// memory.
TEST_F(FamiliesTest, TileWithKeysAndValuesInFloat16) {
  using OfFamily = std::pair<GpuFamily, const char*>;
  for (const auto& [family, problem] : part_of({OfFamily{kAmdGcn, "hq4 hkv2 70x75 d128 f16 causal lse"},
                                                OfFamily{kAmdGcn, "37x133 d100 dv136 f16 kv_lengths=130"},
                                                OfFamily{kAdreno, "hq4 hkv2 70x75 d64 f16 causal lse"},
                                                OfFamily{kAdreno, "h2 40x300 d96 dv36 f16 window=20,20"},
                                                OfFamily{kAdreno, "37x133 d20 dv4 f16 kv_lengths=130"}})) {
    RunOptions options = on(family, "tile");
    options.inspect = [](const AttentionPlan& plan) {
      EXPECT_TRUE(has(plan.describe(), "K and V in float16"));
    };
    EXPECT_TRUE(runs_right(runtime(), problem, options));
  }
}

TEST_F(FamiliesTest, Decode) {
  if (!capabilities().subgroup_shuffle) GTEST_SKIP() << "the device has no subgroup shuffles";
  for (const GpuFamily& family : kGpuFamilies) {
    const RunOptions options = on(family, "decode");
    if (!options.device->capabilities().subgroup_shuffle)
      continue;  // its subgroups are not those of this device
    for (const char* problem : decode_problems()) {
      EXPECT_TRUE(runs_right(runtime(), problem, options));
    }
  }
}

// Subgroups of at least 16 lanes make an Intel GPU one of Xe2. lavapipe has them with
// LP_NATIVE_VECTOR_WIDTH=512, which the CTest test gpu.wide_subgroups sets.
TEST_F(FamiliesTest, Xe2InWideSubgroups) {
  RunOptions decode = on(kIntelXe2, "decode");
  if (!decode.device->capabilities().subgroup_shuffle) {
    GTEST_SKIP() << "subgroups of " << capabilities().min_subgroup_size << " at the least, not of 16";
  }
  for (const char* problem : tile_problems()) {
    EXPECT_TRUE(runs_right(runtime(), problem, on(kIntelXe2, "tile")));
  }
  for (const char* problem : decode_problems()) EXPECT_TRUE(runs_right(runtime(), problem, decode));
  // Xe2 has limits of its own: a thread has two rows, and its queries still stay in registers.
  decode.inspect = [](const AttentionPlan& plan) {
    for (const char* words :
         {"4 rows x 16 keys a step, 128 invocations, 16 to a key", "queries in registers"})
      EXPECT_TRUE(has(plan.describe(), words));
  };
  EXPECT_TRUE(runs_right(runtime(), "hq8 hkv2 1x300 d128 f16 causal align=bottom-right lse", decode));
}

}  // namespace
}  // namespace vkattn::tests
