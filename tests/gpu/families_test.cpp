// What the tile table and the kernels choose for families of GPUs, as if this device were one of them.
#include <span>
#include <utility>
#include <vector>

#include "gpu/support.hpp"
#include "kernels/kernel.hpp"
#include "kernels/tile_table.hpp"
#include "kernels/vendors.hpp"

namespace vkattn::tests {
namespace {

class FamiliesTest : public GpuTest {
 protected:
  /// This device with another vendor's name: its subgroups, features and limits are its own.
  static RunOptions on(std::uint32_t vendor_id, const char* kernel) {
    RunOptions options{kernel};
    options.device = device_with([=](Capabilities& c) {
      c.vendor_id = vendor_id;
      if (c.is_cpu()) c.device_type = DeviceType::kDiscreteGpu;
    });
    return options;
  }
};

constexpr std::uint32_t kVendors[] = {detail::kVendorNvidia, detail::kVendorIntel, detail::kVendorArm,
                                      detail::kVendorQualcomm};

// Each block size once, on a problem whose last blocks are not full and one of fewer rows than a block has.
TEST_F(FamiliesTest, EveryBlockOfTile) {
  for (const TileSizes& tile : detail::all_tiles("tile")) {
    RunOptions options = on(detail::kVendorIntel, "tile");
    options.tile = tile;
    const TileSizes tiles[] = {tile};
    const auto fits =
        detail::configure_tile(parsed("1x1 d8").desc.resolved(), options.device->capabilities(), tiles);
    if (!fits.ok() && fits.error().code == ErrorCode::kLimitExceeded) continue;  // shared memory
    for (const char* problem :
         part_of({"hq4 hkv2 70x75 d72 f16 causal lse", "37x133 d128 dv40 kv_lengths=130",
                  "h2 3x70 d33 dv17 softcap=4 window=20,20"})) {
      EXPECT_TRUE(runs_right(runtime(), problem, options)) << to_string(tile);
    }
  }
}

// The same in float16 arithmetic, with the blocks that it has of its own. Sums of the output have 4 keys
// where a block has no more.
TEST_F(FamiliesTest, EveryBlockOfTileInFloat16) {
  if (!capabilities().shader_float16) GTEST_SKIP() << "the device has no shaderFloat16";
  std::vector<TileSizes> tiles = detail::all_tiles("tile");
  for (const TileSizes& tile : detail::all_tiles(detail::kTileFloat16)) tiles.push_back(tile);
  tiles.push_back({64, 0, 4, 1, 1, 16});
  std::vector<std::pair<TileSizes, const char*>> all;
  for (const TileSizes& tile : tiles) {
    for (const char* problem : {"hq4 hkv2 70x75 d72 f16 causal lse", "37x133 d128 dv40 f16 kv_lengths=130",
                                "h2 3x70 d33 dv17 f16 softcap=4 window=20,20"}) {
      all.emplace_back(tile, problem);
    }
  }
  using Pairs = std::span<const std::pair<TileSizes, const char*>>;
  for (const auto& [tile, problem] : part_of(Pairs(all))) {
    RunOptions options = on(detail::kVendorIntel, "tile");
    options.tile = tile;
    options.arithmetic_type = DataType::kFloat16;
    const TileSizes given[] = {tile};
    const auto fits = detail::configure_tile_float16(parsed("1x1 d8 f16").desc.resolved(),
                                                     options.device->capabilities(), given);
    if (!fits.ok() && fits.error().code == ErrorCode::kLimitExceeded) continue;  // shared memory
    EXPECT_TRUE(runs_right(runtime(), problem, options)) << to_string(tile);
  }
}

TEST_F(FamiliesTest, Tile) {
  for (const std::uint32_t vendor : kVendors) {
    for (const char* problem :
         part_of({"hq4 hkv2 70x75 d64 f16 causal lse", "9x70 d80", "h2 40x70 d256 f16 lse"})) {
      EXPECT_TRUE(runs_right(runtime(), problem, on(vendor, "tile"))) << vendor;
    }
  }
}

// Keys and values that stay float16 in shared memory: blocks that are not full, dims behind the last of a
// chunk, windows. GCN has subgroups of 64, which this device may not have: rows are reduced through shared
// memory there.
TEST_F(FamiliesTest, TileWithKeysAndValuesInFloat16) {
  using OfVendor = std::pair<std::uint32_t, const char*>;
  for (const auto& [vendor, problem] :
       part_of({OfVendor{detail::kVendorAmd, "hq4 hkv2 70x75 d128 f16 causal lse"},
                OfVendor{detail::kVendorAmd, "37x133 d100 dv136 f16 kv_lengths=130"},
                OfVendor{detail::kVendorQualcomm, "hq4 hkv2 70x75 d64 f16 causal lse"},
                OfVendor{detail::kVendorQualcomm, "h2 40x300 d96 dv36 f16 window=20,20"},
                OfVendor{detail::kVendorQualcomm, "37x133 d20 dv4 f16 kv_lengths=130"}})) {
    RunOptions options = on(vendor, "tile");
    options.device = device_with([&, vendor = vendor](Capabilities& c) {
      c.vendor_id = vendor;
      if (c.is_cpu()) c.device_type = DeviceType::kDiscreteGpu;
      if (vendor != detail::kVendorAmd) return;
      c.subgroup_shuffle = false;
      c.subgroup_size = c.min_subgroup_size = c.max_subgroup_size = 64;
    });
    options.inspect = [](const AttentionPlan& plan) {
      EXPECT_NE(plan.describe().find("K and V in float16"), std::string::npos) << plan.describe();
    };
    EXPECT_TRUE(runs_right(runtime(), problem, options)) << vendor << ' ' << problem;
  }
}

TEST_F(FamiliesTest, Decode) {
  if (!capabilities().subgroup_shuffle) GTEST_SKIP() << "the device has no subgroup shuffles";
  for (const std::uint32_t vendor : kVendors) {
    for (const char* problem :
         part_of({"hq8 hkv2 1x300 d64 f16 lse", "hq4 hkv2 3x257 d48 causal align=bottom-right kv_lengths=250",
                  "hq15 hkv1 1x130 d128 bf16 softcap=9"})) {
      RunOptions options = on(vendor, "decode");
      EXPECT_TRUE(runs_right(runtime(), problem, options)) << vendor;
    }
  }
}

}  // namespace
}  // namespace vkattn::tests
