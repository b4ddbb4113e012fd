// The tile table: see tile_table.hpp. docs/performance.md tells what the numbers come from.
#include "kernels/tile_table.hpp"

#include <algorithm>
#include <array>

#include "kernels/kernel.hpp"
#include "kernels/vendors.hpp"

namespace vkattn::detail {

namespace {

enum class Device : std::uint8_t { kAny, kCpu, kGpu };

// What an entry is for. Numbers are the least that the problem must have; 0: any.
struct Match {
  Device device = Device::kAny;
  Architecture architecture = Architecture::kAny;
  std::uint32_t key_bytes = 0;  ///< of an element of K
  std::int64_t head_dim = 0;
  std::int64_t rows = 0;  ///< of one KV head
  std::int64_t keys = 0;
};

struct Entry {
  std::string_view kernel;
  Match match;
  TileShape tile;
};

constexpr Match cpu(std::int64_t rows, std::int64_t keys) {
  return {Device::kCpu, Architecture::kAny, 0, 0, rows, keys};
}

constexpr Match wide(std::int64_t head_dim) {
  return {Device::kAny, Architecture::kAny, 0, head_dim};
}

constexpr TileShape lane(std::uint32_t threads, std::uint32_t rows, std::uint32_t keys) {
  return {threads, 0, 0, rows, keys, 0};
}
constexpr TileShape tile(std::uint32_t threads, std::uint32_t columns, std::uint32_t rows,
                         std::uint32_t keys) {
  return {threads, 0, columns, rows, keys, 32};
}
constexpr TileShape matrix(std::uint32_t subgroups, std::uint32_t keys) {
  return {0, subgroups, 0, 1, keys, 0};
}

constexpr TileShape decode(std::uint32_t threads, std::uint32_t row_sets, std::uint32_t keys) {
  return {threads, 0, 0, row_sets, keys, 0};
}
constexpr TileShape matrix2(std::uint32_t threads, std::uint32_t rows, std::uint32_t keys) {
  return {threads, 0, 0, rows, keys, 0};
}

constexpr std::array kTable{
    // A workgroup of the lane kernel is one SIMD vector of a CPU (threads 0). More keys a step share the
    // loads and stores of the running sums, and cost compile time.
    Entry{"lane", cpu(32, 128), lane(0, 4, 32)},
    Entry{"lane", cpu(32, 32), lane(0, 4, 16)},
    Entry{"lane", cpu(32, 0), lane(0, 4, 8)},
    Entry{"lane", cpu(16, 128), lane(0, 2, 32)},
    Entry{"lane", cpu(16, 32), lane(0, 2, 16)},
    Entry{"lane", cpu(16, 0), lane(0, 2, 8)},
    Entry{"lane", cpu(0, 128), lane(0, 1, 32)},
    Entry{"lane", cpu(0, 32), lane(0, 1, 16)},
    Entry{"lane", cpu(0, 0), lane(0, 1, 8)},
    Entry{"lane", {Device::kGpu}, lane(64, 1, 8)},

    // A CPU is given tile only where it is asked for. Fewer dims to a thread compile several times as fast.
    Entry{"tile", {Device::kCpu}, tile(128, 16, 4, 2)},
    // Largest first: for devices with 48, 32 and 16 KiB of shared memory, then for few rows. Wide heads take
    // more columns, so that a thread has fewer dims and more rows of the output.
    Entry{"tile", wide(96), tile(256, 16, 4, 4)},
    Entry{"tile", wide(192), tile(256, 16, 4, 2)},
    Entry{"tile", wide(192), tile(128, 16, 4, 2)},
    Entry{"tile", {}, tile(256, 8, 4, 4)},
    Entry{"tile", {}, tile(128, 8, 4, 4)},
    Entry{"tile", {}, tile(64, 8, 4, 4)},
    Entry{"tile", {}, tile(64, 8, 2, 4)},
    Entry{"tile", {}, tile(64, 8, 1, 4)},
    Entry{"tile", {}, tile(64, 16, 1, 2)},

    // Threads, sets of rows at the most, keys in flight. The last fits every Vulkan device.
    Entry{"decode", {}, decode(128, 2, 4)},
    Entry{"decode", {}, decode(256, 16, 4)},
    Entry{"decode", {}, decode(128, 2, 2)},
    Entry{"decode", {}, decode(256, 16, 2)},
    Entry{"decode", {}, decode(128, 16, 2)},
    Entry{"decode", {}, decode(256, 16, 1)},
    Entry{"decode", {}, decode(128, 16, 1)},

    Entry{"matrix", {}, matrix(4, 32)},
    Entry{"matrix", {}, matrix(2, 32)},
    Entry{"matrix", {}, matrix(1, 32)},
    Entry{"matrix", {}, matrix(4, 16)},
    Entry{"matrix", {}, matrix(2, 16)},
    Entry{"matrix", {}, matrix(1, 16)},
    Entry{"matrix", {}, matrix(4, 8)},
    Entry{"matrix", {}, matrix(2, 8)},
    Entry{"matrix", {}, matrix(1, 8)},

    // With threads: matrices of workgroup scope. Without: of one subgroup.
    Entry{"matrix2", {Device::kGpu}, matrix2(128, 64, 64)},
    Entry{"matrix2", {Device::kGpu}, matrix2(256, 128, 64)},
    Entry{"matrix2", {Device::kGpu}, matrix2(128, 64, 32)},
    Entry{"matrix2", {Device::kGpu}, matrix2(256, 64, 64)},
    Entry{"matrix2", {Device::kGpu}, matrix2(256, 64, 32)},
    Entry{"matrix2", {Device::kGpu}, matrix2(128, 32, 64)},
    Entry{"matrix2", {Device::kGpu}, matrix2(128, 32, 32)},
    Entry{"matrix2", {Device::kGpu}, matrix2(256, 32, 32)},
    Entry{"matrix2", {Device::kGpu}, matrix2(0, 32, 32)},
    Entry{"matrix2", {Device::kGpu}, matrix2(0, 16, 32)},
    Entry{"matrix2", {Device::kGpu}, matrix2(0, 16, 16)},
    Entry{"matrix2", {Device::kGpu}, matrix2(0, 8, 8)},
    // Emulated matrices are unrolled by the compiler, so small ones.
    Entry{"matrix2", {Device::kCpu}, matrix2(0, 8, 16)},
    Entry{"matrix2", {Device::kCpu}, matrix2(0, 8, 32)},
};

bool matches(const Match& match, const AttentionDesc& desc, const Capabilities& capabilities) {
  if (match.device != Device::kAny && (match.device == Device::kCpu) != capabilities.is_cpu()) return false;
  if (match.architecture != Architecture::kAny && match.architecture != architecture(capabilities))
    return false;
  if (match.key_bytes != 0 && match.key_bytes != element_bytes(desc.key.type)) return false;
  return desc.head_dim >= match.head_dim && packed_rows(desc) >= match.rows && desc.kv_length >= match.keys;
}

void add_once(std::vector<TileShape>& tiles, const TileShape& tile) {
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
      return Architecture::kIntel;
    default:
      return Architecture::kOther;
  }
}

std::vector<TileShape> table_tiles(std::string_view kernel, const AttentionDesc& desc,
                                   const Capabilities& capabilities) {
  std::vector<TileShape> tiles;
  for (const Entry& entry : kTable) {
    if (entry.kernel == kernel && matches(entry.match, desc, capabilities)) add_once(tiles, entry.tile);
  }
  return tiles;
}

std::vector<TileShape> all_tiles(std::string_view kernel) {
  std::vector<TileShape> tiles;
  for (const Entry& entry : kTable) {
    if (entry.kernel == kernel) add_once(tiles, entry.tile);
  }
  return tiles;
}

}  // namespace vkattn::detail
