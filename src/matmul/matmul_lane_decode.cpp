// Host half of the lane_decode kernel for matrix multiplication: a CPU's vector reads the other matrix of a
// product of a few rows or columns. The form depends on how that matrix lies: in lines of its inner dimension
// (shaders/matmul/matmul_lane_decode.comp), or across, in lines of its outer one
// (matmul_lane_decode_across.comp).
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

bool lies_across(const MatmulView& view) {
  return view.a.loads == VKATTN_MATMUL_LOADS_OUTER;
}

// Sums are private, and a step's multiply-adds are all written out. A lane reads quantised elements by whole
// blocks, and a matrix that lies across by quads of rows.
bool is_possible_step(const MatmulTile& tile, const MatmulView& view, DataType type) {
  const auto block = static_cast<std::uint32_t>(block_elements(type));
  const std::uint32_t fewest_rows = lies_across(view) ? 4 : 1;
  const std::uint32_t most_rows = lies_across(view) ? 32 : 16;
  return tile.threads == 0 && is_power(tile.rows, fewest_rows, most_rows) && tile.columns >= 1 &&
         tile.columns <= 8 && is_power(tile.inner, 4, 32) && (block == 1 || tile.inner == block) &&
         tile.rows * tile.columns <= 64;
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

std::string count_of(std::uint32_t count, const char* thing) {
  return message(count, " ", thing, count == 1 ? "" : "s");
}

// The form whose lanes share the inner dimension.
void choose_shared_inner(const MatmulView& view, DataType type, const Capabilities& capabilities,
                         std::uint32_t lanes, MatmulConfig& config) {
  config.required_subgroup_size = required_subgroup_size(capabilities, lanes);
  config.block_rows = config.tile.rows;
  config.shader = "matmul_lane_decode_wide";
  const bool is_touched = touches(view, type, capabilities);
  config.constants = {{VKATTN_MATMUL_SPEC_TOUCHES, is_touched ? 1U : 0U}};
  config.summary =
      message(config.tile.rows, " rows x ", count_of(config.columns, "column"), " a subgroup, ", lanes,
              " lanes of ", config.tile.inner, " of inner a step", is_touched ? ", cache lines first" : "");
}

// The form whose lanes have rows of their own.
void choose_own_rows(std::uint32_t lanes, MatmulConfig& config) {
  config.block_rows = config.tile.rows * lanes;
  config.shader = "matmul_lane_decode_across_wide";
  config.summary = message(lanes, " lanes of ", config.tile.rows, " rows x ",
                           count_of(config.columns, "column"), ", ", config.tile.inner, " of inner a step");
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
  const bool in_lines = block_elements(type) > 1 || view.a.inner_stride == 1 || lies_across(view);
  if (view.a.type == VKATTN_MATMUL_TYPE_ONES || !in_lines) {
    return unsupported("reads the larger matrix in lines of its inner dimension, or, by four, in those of ",
                       view.a.tensor == 0 ? "a's rows" : "b's columns", ", but it lies in neither");
  }
  const auto columns = static_cast<std::uint32_t>(std::clamp<std::int64_t>(view.columns, 1, UINT32_MAX));
  std::uint32_t most = 0;
  std::optional<Result<void>> fits;
  for (const MatmulTile& tile : tiles) {
    if (!is_possible_step(tile, view, type)) continue;
    most = std::max(most, tile.columns);
    if (columns > tile.columns) continue;
    const std::uint32_t shared_bytes =
        lies_across(view) ? 0 : 4 * VKATTN_MATMUL_LANE_DECODE_STAGE(tile.rows, columns, *lanes);
    fits = check_limits({shared_bytes, *lanes, 1}, capabilities);
    if (!*fits) continue;
    MatmulConfig config;
    config.view = view;
    config.tile = tile;
    config.columns = columns;
    config.workgroup_size = *lanes;
    config.block_columns = columns;
    if (lies_across(view)) {
      choose_own_rows(*lanes, config);
    } else {
      choose_shared_inner(view, type, capabilities, *lanes, config);
    }
    return config;
  }
  if (fits) return no_block_fits(*fits);
  if (most == 0) return no_possible_tile(tiles);
  return unsupported("takes up to ", most, " rows or columns; the product has ", view.columns);
}

}  // namespace vkattn::detail
