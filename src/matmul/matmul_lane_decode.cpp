// Host half of the lane_decode kernel for matrix multiplication (shaders/matmul/matmul_lane_decode.comp): a
// CPU's vector reads the other matrix of a product of a few rows or columns.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/block_limits.hpp"
#include "kernels/kernel.hpp"
#include "kernels/subgroup_size.hpp"
#include "matmul/matmul_kernel.hpp"
#include "shared/matmul_constants.h"
#include "shared/shared_memory.h"

namespace vkattn::detail {

namespace {

// Sums are private, and a step's multiply-adds are all written out. A lane reads quantised elements by whole
// blocks.
bool is_possible_step(const MatmulTile& tile, DataType type) {
  const auto block = static_cast<std::uint32_t>(block_elements(type));
  return tile.threads == 0 && is_power(tile.rows, 1, 16) && tile.columns >= 1 && tile.columns <= 8 &&
         is_power(tile.inner, 4, 32) && (block == 1 || tile.inner == block) && tile.rows * tile.columns <= 64;
}

// Whether each cache line is read ahead. Prefetchers follow longer rows, and a smaller matrix stays in a
// core's own cache.
bool touches(const MatmulView& view, DataType type, const Capabilities& capabilities) {
  constexpr std::int64_t kLongestInner = 1024;
  constexpr double kFewestBytes = 512 * 1024;
  const double bytes = static_cast<double>(view.rows) * static_cast<double>(view.inner) * block_bytes(type) /
                       block_elements(type);
  return view.inner <= kLongestInner && bytes >= kFewestBytes && capabilities.max_loop_iterations == 0;
}

}  // namespace

Result<MatmulConfig> configure_matmul_lane_decode(const MatmulDesc& desc, const Capabilities& capabilities,
                                                  MatmulTiles tiles,
                                                  const std::optional<MatmulCopies>& copies) {
  if (Result<void> s = check_no_copies(copies); !s) return s.error();
  if (!loads_wide(capabilities)) return unsupported("is for CPUs with 64-bit integers and 16-bit storage");
  const auto lanes = lanes_of_one_size(capabilities);
  if (!lanes) return lanes.error();
  const MatmulView given = view_of(desc);
  MatmulView view = desc.rows < desc.columns ? exchanged(given) : given;
  const DataType type = matrix_of(view.a, desc).type;
  if (view.a.type == VKATTN_MATMUL_TYPE_ONES || (block_elements(type) == 1 && view.a.inner_stride != 1)) {
    return unsupported("reads the larger matrix in lines of its inner dimension, along which ",
                       view.a.tensor == 0 ? "a" : "b", " does not lie");
  }
  const auto columns = static_cast<std::uint32_t>(std::clamp<std::int64_t>(view.columns, 1, UINT32_MAX));
  std::uint32_t most = 0;
  std::optional<Result<void>> fits;
  for (const MatmulTile& tile : tiles) {
    if (!is_possible_step(tile, type)) continue;
    most = std::max(most, tile.columns);
    if (columns > tile.columns) continue;
    const std::uint32_t shared_bytes = 4 * VKATTN_MATMUL_LANE_DECODE_STAGE(tile.rows, columns, *lanes);
    fits = check_limits({shared_bytes, *lanes, 1}, capabilities);
    if (!*fits) continue;
    MatmulConfig config;
    config.view = view;
    config.tile = tile;
    config.columns = columns;
    config.workgroup_size = *lanes;
    config.required_subgroup_size = required_subgroup_size(capabilities, *lanes);
    config.block_rows = tile.rows;
    config.block_columns = columns;
    config.shader = "matmul_lane_decode_wide";
    const bool is_touched = touches(view, type, capabilities);
    config.constants = {{VKATTN_MATMUL_SPEC_TOUCHES, is_touched ? 1U : 0U}};
    config.summary = message(tile.rows, " rows x ", columns, columns == 1 ? " column" : " columns",
                             " a subgroup, ", *lanes, " lanes of ", tile.inner, " of inner a step",
                             is_touched ? ", cache lines first" : "");
    return config;
  }
  if (fits) return no_block_fits(*fits);
  if (most == 0) return no_possible_tile(tiles);
  return unsupported("takes up to ", most, " rows or columns; the product has ", view.columns);
}

}  // namespace vkattn::detail
