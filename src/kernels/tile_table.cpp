// The tile table: see tile_table.hpp. docs/trials/ has the measurements behind the numbers.
#include "kernels/tile_table.hpp"

#include <algorithm>
#include <array>

#include "attention/features.hpp"
#include "kernels/kernel.hpp"
#include "kernels/vendors.hpp"

namespace vkattn::detail {

namespace {

constexpr TileMatch cpu(std::int64_t rows, std::int64_t keys) {
  return {DeviceClass::kCpu, Architecture::kAny, 0, rows, keys};
}

constexpr TileMatch cpu_up_to(std::int64_t most_keys) {
  return {DeviceClass::kCpu, Architecture::kAny, 0, 0, 0, true, most_keys};
}

constexpr TileMatch gpu(Architecture architecture, std::int64_t head_dim = 0, std::int64_t rows = 0) {
  return {DeviceClass::kGpu, architecture, head_dim, rows};
}

constexpr std::int64_t kManyRows = 4096;  // of one KV head

constexpr TileMatch wide(std::int64_t head_dim) {
  return {DeviceClass::kAny, Architecture::kAny, head_dim};
}

constexpr TileSizes lane(std::uint32_t threads, std::uint32_t rows, std::uint32_t keys) {
  return {threads, 0, 0, rows, keys, 0};
}
constexpr TileSizes lane_decode(std::uint32_t rows, std::uint32_t keys) {
  return {0, 0, 0, rows, keys, 0};
}
constexpr TileSizes tile(std::uint32_t threads, std::uint32_t columns, std::uint32_t rows, std::uint32_t keys,
                         std::uint32_t dims = 32) {
  return {threads, 0, columns, rows, keys, dims};
}
constexpr TileSizes matrix(std::uint32_t subgroups, std::uint32_t keys) {
  return {0, subgroups, 0, 1, keys, 0};
}

// Heads of up to `dims` dims have their keys read a step ahead.
constexpr TileSizes decode(std::uint32_t threads, std::uint32_t row_sets, std::uint32_t keys,
                           std::uint32_t dims = 0) {
  return {threads, 0, 0, row_sets, keys, dims};
}
constexpr TileSizes matrix2(std::uint32_t threads, std::uint32_t rows, std::uint32_t keys) {
  return {threads, 0, 0, rows, keys, 0};
}
constexpr TileSizes staged(std::uint32_t subgroups, std::uint32_t rows, std::uint32_t keys) {
  return {0, subgroups, 0, rows, keys, 0};
}

// With numbers of rows in lanes, of which `columns` share a row. Heads of up to `dims` dims have their scores
// computed a tile ahead.
constexpr TileSizes lanes(std::uint32_t subgroups, std::uint32_t columns, std::uint32_t rows,
                          std::uint32_t keys, std::uint32_t dims = 0) {
  return {0, subgroups, columns, rows, keys, dims};
}

constexpr std::array kTable{
    // A workgroup of the lane kernel is one SIMD vector of a CPU (threads 0). More keys a step share the
    // loads and stores of the running sums, and cost compile time. Few keys are one step.
    TileEntry{"lane", cpu_up_to(16), lane(0, 4, 16)},
    TileEntry{"lane", cpu_up_to(32), lane(0, 4, 32)},
    TileEntry{"lane", cpu_up_to(48), lane(0, 4, 48)},
    TileEntry{"lane", cpu_up_to(64), lane(0, 4, 64)},
    TileEntry{"lane", cpu_up_to(80), lane(0, 4, 80)},
    TileEntry{"lane", cpu_up_to(96), lane(0, 4, 96)},
    TileEntry{"lane", {DeviceClass::kCpu, Architecture::kAny, 0, 0, 512, true}, lane(0, 4, 64)},
    TileEntry{"lane", cpu(32, 128), lane(0, 4, 32)},
    TileEntry{"lane", cpu(32, 32), lane(0, 4, 16)},
    TileEntry{"lane", cpu(32, 0), lane(0, 4, 8)},
    TileEntry{"lane", cpu(16, 128), lane(0, 2, 32)},
    TileEntry{"lane", cpu(16, 32), lane(0, 2, 16)},
    TileEntry{"lane", cpu(16, 0), lane(0, 2, 8)},
    TileEntry{"lane", cpu(0, 128), lane(0, 1, 32)},
    TileEntry{"lane", cpu(0, 32), lane(0, 1, 16)},
    TileEntry{"lane", cpu(0, 0), lane(0, 1, 8)},
    TileEntry{"lane", {DeviceClass::kGpu}, lane(64, 1, 8)},

    // Rows, and keys of a lane in a step: at most 64 scores, and one tile for up to 8 rows. Fewer rows take
    // less shared memory.
    TileEntry{"lane_decode", {DeviceClass::kAny, Architecture::kAny, 0, 5}, lane_decode(8, 8)},
    TileEntry{"lane_decode", {DeviceClass::kAny, Architecture::kAny, 0, 3}, lane_decode(4, 8)},
    TileEntry{"lane_decode", {}, lane_decode(2, 16)},
    TileEntry{"lane_decode", {}, lane_decode(1, 8)},

    // A CPU is given tile only where it is asked for. Fewer dims to a thread compile several times as fast.
    TileEntry{"tile", {DeviceClass::kCpu}, tile(128, 16, 4, 4)},
    TileEntry{"tile", {DeviceClass::kCpu}, tile(128, 16, 4, 2)},
    // By the registers that their compilers use (docs/compilers.txt): a thread's sums are rows * value_dim /
    // columns.
    TileEntry{"tile", gpu(Architecture::kIntelGen12, 160), tile(256, 8, 1, 4)},
    TileEntry{"tile", gpu(Architecture::kIntelGen12, 65), tile(256, 8, 2, 4)},
    TileEntry{"tile", gpu(Architecture::kIntelGen12), tile(256, 8, 4, 4, 16)},
    TileEntry{"tile", gpu(Architecture::kIntelGen12), tile(64, 8, 2, 4)},
    // In subgroups of 8 float16 leaves half of each register unused, and spills.
    TileEntry{kTileFloat16, gpu(Architecture::kIntelGen12), tile(256, 16, 1, 4)},
    TileEntry{"tile", gpu(Architecture::kIntelXe2, 160), tile(256, 16, 2, 2)},
    TileEntry{"tile", gpu(Architecture::kIntelXe2, 65), tile(256, 16, 4, 2)},
    TileEntry{"tile", gpu(Architecture::kIntelXe2), tile(256, 16, 4, 4)},
    TileEntry{"tile", gpu(Architecture::kIntelXe2), tile(64, 16, 2, 2)},
    TileEntry{"tile", gpu(Architecture::kMali, 129), tile(128, 8, 1, 2, 16)},
    TileEntry{"tile", gpu(Architecture::kMali, 97), tile(128, 32, 2, 1, 16)},
    TileEntry{"tile", gpu(Architecture::kMali, 65), tile(128, 8, 1, 2, 16)},
    TileEntry{"tile", gpu(Architecture::kMali), tile(128, 8, 1, 4, 16)},
    TileEntry{"tile", gpu(Architecture::kMali), tile(64, 16, 1, 1, 16)},
    TileEntry{"tile", gpu(Architecture::kAdreno), tile(128, 16, 4, 2, 16)},
    TileEntry{"tile", gpu(Architecture::kAdreno), tile(128, 16, 1, 2, 16)},
    // Largest first: for devices with 48, 32 and 16 KiB of shared memory, then for few rows. Wide heads take
    // more columns, so that a thread has fewer dims and more rows of the output.
    TileEntry{"tile", wide(96), tile(256, 16, 4, 4)},
    TileEntry{"tile", wide(192), tile(256, 16, 4, 2)},
    TileEntry{"tile", wide(192), tile(128, 16, 4, 2)},
    TileEntry{"tile", {}, tile(256, 8, 4, 4)},
    TileEntry{"tile", {}, tile(128, 8, 4, 4)},
    TileEntry{"tile", {}, tile(64, 8, 4, 4)},
    TileEntry{"tile", {}, tile(64, 8, 2, 4)},
    TileEntry{"tile", {}, tile(64, 8, 1, 4)},
    TileEntry{"tile", {}, tile(64, 16, 1, 2)},

    // Threads, sets of rows at the most, keys in flight. The last one of all devices fits each of them; wide
    // heads take the small one in the small subgroups of a CPU.
    TileEntry{"decode", {}, decode(128, 2, 4)},
    TileEntry{"decode", {}, decode(256, 16, 4)},
    TileEntry{"decode", {}, decode(128, 2, 2)},
    TileEntry{"decode", {}, decode(256, 16, 2)},
    TileEntry{"decode", {}, decode(128, 16, 2)},
    TileEntry{"decode", {}, decode(256, 16, 1)},
    TileEntry{"decode", {}, decode(128, 16, 1)},
    TileEntry{"decode", {DeviceClass::kCpu}, decode(32, 16, 1)},
    // No GPU has measured these; compilers for some give them more registers (docs/trials/gpu_compilers.md).
    TileEntry{"decode", {DeviceClass::kNone}, decode(128, 2, 4, 256)},
    TileEntry{"decode", {DeviceClass::kNone}, decode(128, 2, 2, 256)},
    TileEntry{"decode", {DeviceClass::kNone}, decode(256, 16, 1, 256)},

    // 8 subgroups read keys and values once for twice as many rows, and have more waves or fewer instructions
    // (docs/trials/gpu_compilers.md); with fewer rows compute units would be left without a workgroup.
    TileEntry{"matrix", gpu(Architecture::kAmdRdna, 0, kManyRows), matrix(8, 32)},
    TileEntry{"matrix", gpu(Architecture::kNvidia, 0, kManyRows), matrix(8, 32)},
    TileEntry{"matrix", gpu(Architecture::kIntelXe2, 0, kManyRows), matrix(8, 32)},
    // More keys spill there.
    TileEntry{"matrix", gpu(Architecture::kIntelGen12), matrix(4, 16)},
    TileEntry{"matrix", gpu(Architecture::kIntelGen12), matrix(2, 16)},
    TileEntry{"matrix", gpu(Architecture::kIntelGen12), matrix(1, 16)},
    TileEntry{"matrix", {}, matrix(4, 32)},
    TileEntry{"matrix", {}, matrix(2, 32)},
    TileEntry{"matrix", {}, matrix(1, 32)},
    TileEntry{"matrix", {}, matrix(4, 16)},
    TileEntry{"matrix", {}, matrix(2, 16)},
    TileEntry{"matrix", {}, matrix(1, 16)},
    TileEntry{"matrix", {}, matrix(4, 8)},
    TileEntry{"matrix", {}, matrix(2, 8)},
    TileEntry{"matrix", {}, matrix(1, 8)},

    // With threads: matrices of workgroup scope, on an H100 the fastest.
    TileEntry{"matrix2", gpu(Architecture::kAny, 129), matrix2(128, 64, 32)},
    TileEntry{"matrix2", gpu(Architecture::kAny, 65), matrix2(128, 64, 64)},
    TileEntry{"matrix2", {DeviceClass::kGpu}, matrix2(128, 64, 128)},
    TileEntry{"matrix2", {DeviceClass::kGpu}, matrix2(128, 64, 64)},
    TileEntry{"matrix2", {DeviceClass::kGpu}, matrix2(256, 128, 64)},
    TileEntry{"matrix2", {DeviceClass::kGpu}, matrix2(128, 64, 32)},
    TileEntry{"matrix2", {DeviceClass::kGpu}, matrix2(256, 64, 64)},
    TileEntry{"matrix2", {DeviceClass::kGpu}, matrix2(256, 64, 32)},
    TileEntry{"matrix2", {DeviceClass::kGpu}, matrix2(128, 32, 64)},
    TileEntry{"matrix2", {DeviceClass::kGpu}, matrix2(128, 32, 32)},
    TileEntry{"matrix2", {DeviceClass::kGpu}, matrix2(256, 32, 32)},
    // With subgroups: matrices of these, staged in shared memory, for keys that tensor addressing does not
    // take.
    TileEntry{"matrix2", gpu(Architecture::kAny, 65), staged(8, 16, 64)},
    TileEntry{"matrix2", {DeviceClass::kGpu}, staged(8, 16, 128)},
    TileEntry{"matrix2", {DeviceClass::kGpu}, staged(4, 16, 64)},
    TileEntry{"matrix2", {DeviceClass::kGpu}, staged(8, 16, 64)},
    TileEntry{"matrix2", {DeviceClass::kGpu}, staged(4, 16, 32)},
    TileEntry{"matrix2", {DeviceClass::kGpu}, staged(8, 16, 32)},
    TileEntry{"matrix2", {DeviceClass::kGpu}, staged(2, 16, 64)},
    TileEntry{"matrix2", {DeviceClass::kGpu}, staged(1, 16, 64)},
    TileEntry{"matrix2", {DeviceClass::kGpu}, staged(4, 16, 16)},
    // On NVIDIA's GPUs 4 lanes share a row. No GPU has measured these.
    TileEntry{"matrix2", {DeviceClass::kNone}, lanes(4, 4, 32, 32)},
    TileEntry{"matrix2", {DeviceClass::kNone}, lanes(4, 4, 32, 64)},
    TileEntry{"matrix2", {DeviceClass::kNone}, lanes(8, 4, 16, 64)},
    TileEntry{"matrix2", {DeviceClass::kNone}, lanes(8, 4, 16, 128)},
    TileEntry{"matrix2", {DeviceClass::kNone}, lanes(4, 4, 16, 64)},
    TileEntry{"matrix2", {DeviceClass::kNone}, lanes(4, 4, 32, 32, 64)},
    TileEntry{"matrix2", {DeviceClass::kNone}, lanes(8, 4, 16, 64, 128)},
    // Emulated matrices are unrolled by the compiler, so small ones; the last for the widest heads.
    TileEntry{"matrix2", {DeviceClass::kCpu}, staged(2, 8, 16)},
    TileEntry{"matrix2", {DeviceClass::kCpu}, staged(4, 8, 32)},
    TileEntry{"matrix2", {DeviceClass::kCpu}, staged(1, 8, 8)},
};

bool matches(const TileMatch& match, const AttentionDesc& desc, const Capabilities& capabilities) {
  if (match.device == DeviceClass::kNone) return false;
  if (match.device != DeviceClass::kAny && (match.device == DeviceClass::kCpu) != capabilities.is_cpu())
    return false;
  if (match.architecture != Architecture::kAny && match.architecture != architecture(capabilities))
    return false;
  // Behind a mask, blocks that it hides should be small.
  const bool may_be_long = takes_long_steps(capabilities) && rows_share_keys(desc) && !scores_hide(desc);
  if (match.long_steps && !may_be_long) return false;
  if (match.most_keys != 0 && desc.kv_length > match.most_keys) return false;
  return desc.head_dim >= match.head_dim && packed_rows(desc) >= match.rows && desc.kv_length >= match.keys;
}

void add_once(std::vector<TileSizes>& tiles, const TileSizes& tile) {
  if (std::find(tiles.begin(), tiles.end(), tile) == tiles.end()) tiles.push_back(tile);
}

}  // namespace

Architecture architecture(const Capabilities& capabilities) {
  if (capabilities.is_cpu()) {
    const bool swiftshader = capabilities.driver_name.find("SwiftShader") != std::string::npos ||
                             capabilities.device_name.find("SwiftShader") != std::string::npos;
    return swiftshader ? Architecture::kSwiftShader : Architecture::kLavapipe;
  }
  switch (capabilities.vendor_id) {
    case kVendorAmd:
      // GCN has waves of 64 only.
      return capabilities.min_subgroup_size == 64 ? Architecture::kAmdGcn : Architecture::kAmdRdna;
    case kVendorNvidia:
      return Architecture::kNvidia;
    case kVendorIntel:
      return capabilities.min_subgroup_size >= 16 ? Architecture::kIntelXe2 : Architecture::kIntelGen12;
    case kVendorArm:
      return Architecture::kMali;
    case kVendorQualcomm:
      return Architecture::kAdreno;
    default:
      return Architecture::kOther;
  }
}

std::vector<TileSizes> matching_tiles(std::span<const TileEntry> table, std::string_view kernel,
                                      const AttentionDesc& desc, const Capabilities& capabilities) {
  std::vector<TileSizes> tiles;
  tiles.reserve(table.size());
  for (const TileEntry& entry : table) {
    if (entry.kernel == kernel && matches(entry.match, desc, capabilities)) add_once(tiles, entry.tile);
  }
  return tiles;
}

std::vector<TileSizes> table_tiles(std::string_view kernel, const AttentionDesc& desc,
                                   const Capabilities& capabilities) {
  return matching_tiles(kTable, kernel, desc, capabilities);
}

std::vector<TileSizes> all_tiles(std::string_view kernel, DataType arithmetic_type, bool with_long_steps) {
  std::vector<TileSizes> tiles;
  if (arithmetic_type == DataType::kFloat16 && kernel == "tile") tiles = all_tiles(kTileFloat16);
  for (const TileEntry& entry : kTable) {
    if (entry.kernel == kernel && (with_long_steps || !entry.match.long_steps)) add_once(tiles, entry.tile);
  }
  return tiles;
}

}  // namespace vkattn::detail
