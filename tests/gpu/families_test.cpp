// What the tile table and the kernels choose for families of GPUs, as if this device were one of them.
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
  /// But for blocks that do not fit the shared memory.
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

// Each block size once, on a problem whose last blocks are not full and one of fewer rows than a block has.
TEST_F(FamiliesTest, EveryBlockOfTile) {
  for (const TileSizes& tile : detail::all_tiles("tile")) {
    for (const char* problem :
         part_of({"hq4 hkv2 70x75 d72 f16 causal lse", "37x133 d128 dv40 kv_lengths=130",
                  "h2 3x70 d33 dv17 softcap=4 window=20,20"}))
      run_block(tile, problem, DataType::kFloat32);
  }
}

// The same in float16 arithmetic, with the blocks that it has of its own, and the least sums that there are.
// Sums of the output have 4 keys where a block has no more.
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

// Keys and values that stay float16 in shared memory: blocks that are not full, dims behind the last of a
// chunk, windows. GCN has subgroups of 64, which this device may not have: rows are reduced through shared
// memory there.
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
    if (!options.device->capabilities().subgroup_shuffle) continue;  // its subgroups are not this device's
    for (const char* problem : decode_problems()) {
      EXPECT_TRUE(runs_right(runtime(), problem, options));
    }
  }
}

// Subgroups of 16 and more make an Intel GPU one of Xe2. lavapipe has such with LP_NATIVE_VECTOR_WIDTH=512,
// as gpu.wide_subgroups runs this.
TEST_F(FamiliesTest, Xe2InWideSubgroups) {
  RunOptions decode = on(kIntelXe2, "decode");
  if (!decode.device->capabilities().subgroup_shuffle) {
    GTEST_SKIP() << "subgroups of " << capabilities().min_subgroup_size << " at the least, not of 16";
  }
  for (const char* problem : tile_problems()) {
    EXPECT_TRUE(runs_right(runtime(), problem, on(kIntelXe2, "tile")));
  }
  for (const char* problem : decode_problems()) EXPECT_TRUE(runs_right(runtime(), problem, decode));
  // Limits of its own: two rows of a thread, and queries in registers none the less.
  decode.inspect = [](const AttentionPlan& plan) {
    for (const char* words :
         {"4 rows x 16 keys a step, 128 invocations, 16 to a key", "queries in registers"})
      EXPECT_TRUE(has(plan.describe(), words));
  };
  EXPECT_TRUE(runs_right(runtime(), "hq8 hkv2 1x300 d128 f16 causal align=bottom-right lse", decode));
}

}  // namespace
}  // namespace vkattn::tests
