// Host half of the lane kernel for matrix multiplication (shaders/matmul/matmul_lane.comp).
#include <algorithm>

#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/block_limits.hpp"
#include "kernels/kernel.hpp"
#include "matmul/matmul_copies.hpp"
#include "matmul/matmul_kernel.hpp"
#include "shared/matmul_constants.h"

namespace vkattn::detail {

namespace {

// Sums are private, and a step's multiply-adds are all written out.
bool is_lane_tile(const MatmulTile& tile) {
  return is_power(tile.rows, 1, 8) && is_power(tile.columns, 4, 64) && is_power(tile.inner, 4, 32) &&
         tile.rows * tile.columns <= 256 && tile.rows * tile.columns * tile.inner <= 4096;
}

// Chooses the view that is cheaper for invocations: they gather the elements of a, and read those of b at one
// address for all of them.
MatmulView lane_view(const MatmulDesc& desc, const Capabilities& capabilities,
                     const std::optional<MatmulCopies>& copies, std::uint32_t threads) {
  MatmulView view = view_of(desc);
  if (loads_wide(capabilities)) choose_copies(desc, capabilities, copies, view);
  const auto few = [&](std::int64_t size) { return size < std::int64_t{threads}; };
  const bool fewer_rows = few(desc.rows) && desc.rows < desc.columns;
  // In an operand that lies across, four neighbours of one invocation lie beside those of the next; a copy's
  // rows are spread over a cache.
  const auto rank = [](const MatmulOperand& operand) {
    return operand.loads == VKATTN_MATMUL_LOADS_OUTER ? 2 : operand.is_copied ? 1 : 0;
  };
  const bool better = rank(view.b) > rank(view.a) && !few(desc.columns);
  return fewer_rows || better ? exchanged(view) : view;
}

// Whether a smaller tile is better: most of a block's rows or columns would be repeated ones, or a step would
// load so many elements one by one that it takes seconds to compile.
bool is_wasteful(const MatmulTile& tile, std::uint32_t threads, const MatmulView& view) {
  const bool one_by_one =
      view.a.loads == VKATTN_MATMUL_LOADS_SINGLE || view.b.loads == VKATTN_MATMUL_LOADS_SINGLE;
  const bool gathers_neighbours = view.a.loads == VKATTN_MATMUL_LOADS_OUTER;
  const bool takes_long = one_by_one && (tile.inner > 4 || (tile.rows > 4 && !gathers_neighbours));
  return takes_long || view.rows * 2 <= std::int64_t{threads} * tile.rows ||
         view.columns * 2 <= std::int64_t{tile.columns};
}

}  // namespace

Result<MatmulConfig> configure_matmul_lane(const MatmulDesc& desc, const Capabilities& capabilities,
                                           MatmulTiles tiles, const std::optional<MatmulCopies>& copies) {
  if (!loads_wide(capabilities)) {
    if (Result<void> s = check_no_copies(copies); !s) return s.error();
  }
  if (copies && copies->a && desc.a_is_ones) {
    return invalid("PlanOptions::copies asks for a copy of a, which is all ones and has no tensor");
  }
  // A workgroup of one SIMD vector is the smallest unit that spreads over the threads of a CPU.
  const std::uint32_t simd = std::clamp(capabilities.subgroup_size, 4U, 64U);
  for (const MatmulTile& tile : tiles) {
    const std::uint32_t threads = tile.threads != 0 ? tile.threads : simd;
    if (!is_lane_tile(tile) || !check_limits({0, threads, 0}, capabilities)) continue;
    MatmulConfig config;
    config.view = lane_view(desc, capabilities, copies, threads);
    if (&tile != &tiles.back() && is_wasteful(tile, threads, config.view)) continue;
    config.tile = tile;
    config.columns = tile.columns;
    config.tile.threads = threads;
    config.workgroup_size = threads;
    config.block_rows = threads * tile.rows;
    config.block_columns = tile.columns;
    // Rows of 4 neighbours are those of one invocation.
    if (tile.rows % 4 != 0 && config.view.a.loads == VKATTN_MATMUL_LOADS_OUTER) {
      config.view.a.loads = VKATTN_MATMUL_LOADS_SINGLE;
    }
    config.shader =
        loads_wide(capabilities) ? "matmul_lane_wide" : matmul_shader(desc, capabilities, "matmul_lane");
    config.summary = message(threads, " invocations a workgroup, ", tile.rows, " rows x ", tile.columns,
                             " columns each, ", tile.inner, " of inner a step");
    return config;
  }
  return no_possible_tile(tiles);
}

}  // namespace vkattn::detail
