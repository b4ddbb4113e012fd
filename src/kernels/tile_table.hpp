// The tile table: block sizes of the kernels as data, best first.
#pragma once

#include <vkattn/tuning.hpp>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace vkattn::detail {

/// Architectures of devices that need block sizes of their own.
enum class Architecture : std::uint8_t {
  kAny,
  kLavapipe,
  kSwiftShader,
  kAmdGcn,
  kAmdRdna,
  kNvidia,
  kIntelGen12,  ///< to Arc A: a thread's 128 registers of 32 bytes are shared by 8, 16 or 32 invocations
  kIntelXe2,    ///< Lunar Lake and Arc B on: registers of 64 bytes, 16 or 32 invocations
  kMali,        ///< 64 registers, or 32 of twice as many invocations
  kAdreno,      ///< fewer waves, the more registers
  kOther
};

[[nodiscard]] Architecture architecture(const Capabilities& capabilities);

enum class DeviceClass : std::uint8_t {
  kAny,
  kCpu,
  kGpu,
  kNone  ///< no device takes the entry by itself: it is measured by `vkattn tune`, or asked for
};

/// The devices and problems of an entry. Numbers but the last are the least that the problem must have; 0:
/// any.
struct TileMatch {
  DeviceClass device = DeviceClass::kAny;
  Architecture architecture = Architecture::kAny;
  std::int64_t head_dim = 0;
  std::int64_t rows = 0;  ///< of one KV head
  std::int64_t keys = 0;
  /// Only where takes_long_steps() and rows_share_keys() are true and no mask hides keys.
  bool long_steps = false;
  std::int64_t most_keys = 0;
};

struct TileEntry {
  std::string_view kernel;
  TileMatch match;
  TileSizes tile;
};

/// The kernel's block sizes of the entries that match, in the table's order, once each. So an entry for some
/// devices or problems stands before the ones for all.
[[nodiscard]] std::vector<TileSizes> matching_tiles(std::span<const TileEntry> table, std::string_view kernel,
                                                    const AttentionDesc& desc,
                                                    const Capabilities& capabilities);

/// The table's name for block sizes of the kernel tile in float16 arithmetic alone.
inline constexpr std::string_view kTileFloat16 = "tile in float16";

/// The kernel's block sizes for the problem on the device, best first. The kernel checks them against the
/// device's limits.
[[nodiscard]] std::vector<TileSizes> table_tiles(std::string_view kernel, const AttentionDesc& desc,
                                                 const Capabilities& capabilities);

/// All block sizes of a kernel in the table, for any device and problem, once each. Those of float16
/// arithmetic alone come first. Without long steps those are left out that only takes_long_steps() brings in.
[[nodiscard]] std::vector<TileSizes> all_tiles(std::string_view kernel,
                                               DataType arithmetic_type = DataType::kFloat32,
                                               bool with_long_steps = true);

/// Calls visit(name, size) for each size of a TileSizes or MatmulTile, by the names that files and messages
/// use.
template <class Tile, class Visit>
void for_each_size(Tile& tile, Visit&& visit) {
  visit("threads", tile.threads);
  visit("subgroups", tile.subgroups);
  if constexpr (requires { tile.inner; }) {
    visit("rows", tile.rows);
    visit("columns", tile.columns);
    visit("inner", tile.inner);
    visit("stages", tile.stages);
  } else {
    visit("columns", tile.columns);
    visit("rows", tile.rows);
    visit("keys", tile.keys);
    visit("dims", tile.dims);
  }
}

}  // namespace vkattn::detail
