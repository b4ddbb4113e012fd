// Host half of the tile kernel for matrix multiplication (shaders/matmul/matmul_tile.comp).
#include <algorithm>
#include <bit>
#include <optional>

#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/block_limits.hpp"
#include "matmul/matmul_kernel.hpp"
#include "shared/matmul_constants.h"
#include "shared/shared_memory.h"

namespace vkattn::detail {

namespace {

// Threads form a grid, as square as a power of two can be, with at least as many columns as rows.
std::uint32_t grid_columns(const MatmulTile& tile) {
  return std::uint32_t{1} << static_cast<unsigned>(std::bit_width(tile.threads)) / 2U;
}
std::uint32_t block_rows(const MatmulTile& tile) {
  return tile.threads / grid_columns(tile) * tile.rows;
}
std::uint32_t block_columns(const MatmulTile& tile) {
  return grid_columns(tile) * tile.columns;
}

std::uint32_t shared_bytes(const MatmulTile& tile) {
  return 4 * (VKATTN_MATMUL_TILE_STAGE(block_rows(tile), tile.inner) +
              VKATTN_MATMUL_TILE_STAGE(block_columns(tile), tile.inner));
}

// Elements in quads that a thread fetches before it writes them to shared memory; they wait in registers.
constexpr std::uint32_t kMaxFetches = 8;

bool is_block_tile(const MatmulTile& tile) {
  const bool in_range = is_power(tile.threads, 16, 1024) && is_power(tile.rows, 1, 8) &&
                        is_power(tile.columns, 1, 8) && is_power(tile.inner, 4, 64);
  if (!in_range || block_rows(tile) < 4 || block_columns(tile) < 4) return false;
  const std::uint32_t quads = std::max(block_rows(tile), block_columns(tile)) * tile.inner / 4;
  return quads <= kMaxFetches * tile.threads;
}

}  // namespace

Result<MatmulConfig> configure_matmul_tile(const MatmulDesc& desc, const Capabilities& capabilities,
                                           MatmulTiles tiles, const std::optional<MatmulCopies>& copies) {
  if (Result<void> s = check_no_copies(copies); !s) return s.error();
  std::optional<Result<void>> fits;
  for (const MatmulTile& tile : tiles) {
    if (!is_block_tile(tile)) continue;
    fits = check_limits({shared_bytes(tile), tile.threads, 0}, capabilities);
    if (!*fits) continue;
    // A large block is wasted on few rows or columns.
    const auto wastes = [](std::int64_t size, std::uint32_t block) {
      return size * 2 <= std::int64_t{block};
    };
    const bool is_last = &tile == &tiles.back();
    if (!is_last && (wastes(desc.rows, block_rows(tile)) || wastes(desc.columns, block_columns(tile))))
      continue;
    MatmulConfig config;
    config.view = view_of(desc);
    config.tile = tile;
    config.columns = tile.columns;
    config.workgroup_size = tile.threads;
    config.block_rows = block_rows(tile);
    config.block_columns = block_columns(tile);
    config.shader = matmul_shader(desc, capabilities, "matmul_tile");
    config.constants.push_back({VKATTN_MATMUL_SPEC_GRID_COLUMNS, grid_columns(tile)});
    config.summary = message(config.block_rows, " rows x ", config.block_columns, " columns a block, ",
                             tile.inner, " of inner staged at a time, ", tile.threads, " invocations, ",
                             shared_bytes(tile), " bytes of shared memory");
    return config;
  }
  return fits ? no_block_fits(*fits) : no_possible_tile(tiles);
}

}  // namespace vkattn::detail
