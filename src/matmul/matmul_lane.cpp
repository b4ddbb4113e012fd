// Host half of the lane kernel for matrix multiplication (shaders/matmul/matmul_lane.comp).
#include <algorithm>

#include "common/integers.hpp"
#include "common/message.hpp"
#include "matmul/matmul_kernel.hpp"
#include "shared/matmul_constants.h"

namespace vkattn::detail {

namespace {

// Sums are private, and a step's multiply-adds are all written out.
bool is_possible(const MatmulTile& tile) {
  return is_power(tile.rows, 1, 8) && is_power(tile.columns, 4, 64) && is_power(tile.inner, 4, 32) &&
         tile.rows * tile.columns <= 256 && tile.rows * tile.columns * tile.inner <= 4096;
}

}  // namespace

Result<MatmulConfig> configure_matmul_lane(const MatmulDesc& desc, const Capabilities& capabilities,
                                           MatmulTiles tiles) {
  // A workgroup of one SIMD vector is the smallest unit that spreads over the threads of a CPU.
  const std::uint32_t simd = std::clamp(capabilities.subgroup_size, 4U, 64U);
  for (const MatmulTile& tile : tiles) {
    const std::uint32_t threads = tile.threads != 0 ? tile.threads : simd;
    if (!is_possible(tile) || !fits_workgroup(threads, capabilities)) continue;
    MatmulConfig config;
    // Rows are spread over invocations: where there are few, columns take their place.
    config.view = view_of(desc, desc.rows < desc.columns && desc.rows < static_cast<std::int64_t>(threads));
    config.tile = tile;
    config.tile.threads = threads;
    config.workgroup_size = threads;
    config.block_rows = threads * tile.rows;
    config.block_columns = tile.columns;
    // Rows of 4 neighbours are those of one invocation.
    if (tile.rows % 4 != 0 && config.view.a.loads == VKATTN_MATMUL_LOADS_OUTER) {
      config.view.a.loads = VKATTN_MATMUL_LOADS_SINGLE;
    }
    const bool wide = capabilities.is_cpu() && capabilities.shader_int64 && capabilities.storage_buffer_16bit;
    config.shader = wide ? "matmul_lane_wide" : matmul_shader(desc, capabilities, "matmul_lane");
    config.summary = message(threads, " invocations a workgroup, ", tile.rows, " rows x ", tile.columns,
                             " columns each, ", tile.inner, " of inner a step");
    return config;
  }
  return no_possible_tile(tiles);
}

}  // namespace vkattn::detail
