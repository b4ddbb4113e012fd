// Host half of the matrix kernel for matrix multiplication (shaders/matmul/matmul_matrix.comp).
#include <algorithm>
#include <optional>
#include <string_view>

#include "common/checked.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/block_limits.hpp"
#include "kernels/matrix_common.hpp"
#include "kernels/split.hpp"
#include "kernels/tile_table.hpp"
#include "kernels/vendors.hpp"
#include "matmul/matmul_kernel.hpp"
#include "shared/matmul_constants.h"
#include "shared/shared_memory.h"

namespace vkattn::detail {

namespace {

// One configuration of the shader; the names are those of its constants.
struct MatrixTile {
  MatrixShape shape;
  std::uint32_t subgroup_size = 0, subgroups = 0;
  std::uint32_t rows = 0, columns = 0, inner = 0, stages = 1;
  bool a_by_outer = false, b_by_outer = false;

  [[nodiscard]] std::uint32_t threads() const { return subgroup_size * subgroups; }
  // Subgroups form a grid with as many columns as rows, or half as many.
  [[nodiscard]] std::uint32_t grid_columns() const { return subgroups >= 4 ? 2 : 1; }
  [[nodiscard]] std::uint32_t block_rows() const { return subgroups / grid_columns() * rows; }
  [[nodiscard]] std::uint32_t block_columns() const { return grid_columns() * columns; }
  /// Registers of 32 bits that a lane has for its sums.
  [[nodiscard]] std::uint32_t sums() const { return rows * columns / subgroup_size; }
  [[nodiscard]] std::uint32_t shared_bytes() const {
    const auto stage = [&](std::uint32_t outer, bool by_outer) -> std::uint32_t {
      return by_outer ? VKATTN_MATMUL_MATRIX_STAGE4(inner, outer) : VKATTN_MATMUL_MATRIX_STAGE4(outer, inner);
    };
    return 16 * stages * (stage(block_rows(), a_by_outer) + stage(block_columns(), b_by_outer)) +
           4 * VKATTN_MATMUL_RESULT_STAGE(subgroups, shape.m, shape.n);
  }
  [[nodiscard]] BlockNeeds needs() const { return {shared_bytes(), threads(), subgroups}; }
  [[nodiscard]] bool is_possible() const {
    return is_power(subgroups, 1, 16) && is_power(rows, 8, 128) && is_power(columns, 8, 128) &&
           is_power(inner, 8, 128) && rows % shape.m == 0 && columns % shape.n == 0 && inner % shape.k == 0;
  }
};

// By the registers that Mesa's compilers use (docs/compilers.txt).
std::uint32_t most_sums(const Capabilities& capabilities) {
  const Architecture it = architecture(capabilities);
  const bool is_intel = it == Architecture::kIntelGen12 || it == Architecture::kIntelXe2;
  return is_intel ? 32 : 128;
}

Result<void> check_types(const MatmulDesc& desc) {
  if (!desc.a_is_ones && element_bytes(desc.a.type) == 2 && desc.a.type == desc.b.type) return {};
  return unsupported("takes a and b of float16 (or bfloat16, where the device has such matrices); here a is ",
                     desc.a_is_ones ? "all ones" : name(desc.a.type), " and b ", name(desc.b.type));
}

// Whether every compute unit has a block. Blocks of at most 64 x 64 always pass: smaller ones are not worth
// it.
bool keeps_device_busy(const MatmulDesc& desc, const Capabilities& capabilities, const MatrixTile& tile) {
  if (tile.block_rows() * tile.block_columns() <= 64 * 64) return true;
  const std::int64_t blocks = divide_up(desc.rows, std::int64_t{tile.block_rows()}) *
                              divide_up(desc.columns, std::int64_t{tile.block_columns()});
  return saturating_multiply(desc.batch, blocks) >= compute_units(capabilities);
}

// The first tile that fits the device, has registers for its sums, is not mostly wasted and leaves no compute
// unit idle. If there is none, the smallest that fits, or the limit that the smallest of all exceeds.
Result<MatrixTile> choose_tile(const MatmulDesc& desc, const Capabilities& capabilities, MatrixTile tile,
                               MatmulTiles tiles) {
  std::optional<MatrixTile> smallest, smallest_too_large;
  for (const MatmulTile& candidate : tiles) {
    tile.subgroups = candidate.subgroups;
    tile.rows = candidate.rows;
    tile.columns = candidate.columns;
    tile.inner = candidate.inner;
    tile.stages = std::max(candidate.stages, 1U);
    if (!tile.is_possible()) continue;
    const bool fits = check_limits(tile.needs(), capabilities).ok();
    const bool wasteful = desc.rows * 2 <= std::int64_t{tile.block_rows()} ||
                          desc.columns * 2 <= std::int64_t{tile.block_columns()};
    const bool good = !wasteful && tile.sums() <= most_sums(capabilities) &&
                      (tiles.size() == 1 || keeps_device_busy(desc, capabilities, tile));
    if (fits && good) return tile;
    const auto area = [](const MatrixTile& it) { return it.block_rows() * it.block_columns(); };
    std::optional<MatrixTile>& least = fits ? smallest : smallest_too_large;
    if (!least || area(tile) < area(*least)) least = tile;
  }
  if (smallest) return *smallest;
  if (smallest_too_large) return no_block_fits(check_limits(smallest_too_large->needs(), capabilities));
  const MatrixShape& shape = tile.shape;
  return unsupported("has no block sizes for matrices of ", shape.m, "x", shape.n, "x", shape.k);
}

void add_constants(const MatmulDesc& desc, const MatrixTile& tile, MatmulConfig& config) {
  const auto add = [&](std::uint32_t id, auto value) {
    config.constants.push_back({id, static_cast<std::uint32_t>(value)});
  };
  add(VKATTN_MATMUL_SPEC_GRID_COLUMNS, tile.grid_columns());
  add(VKATTN_MATMUL_SPEC_MATRIX_M, tile.shape.m);
  add(VKATTN_MATMUL_SPEC_MATRIX_N, tile.shape.n);
  add(VKATTN_MATMUL_SPEC_MATRIX_K, tile.shape.k);
  add(VKATTN_MATMUL_SPEC_SUBGROUP_SIZE, tile.subgroup_size);
  add(VKATTN_MATMUL_SPEC_STAGES, tile.stages);
  add(VKATTN_MATMUL_SPEC_A_LOADS8, has_loads8(config.view.a, desc));
  add(VKATTN_MATMUL_SPEC_B_LOADS8, has_loads8(config.view.b, desc));
}

}  // namespace

bool has_loads8(const MatmulOperand& operand, const MatmulDesc& desc) {
  const auto aligned = [](std::int64_t extent, std::int64_t stride) {
    return extent <= 1 || stride % 8 == 0;
  };
  if (matrix_of(operand, desc).alignment_bytes < 16 || !aligned(desc.batch, operand.batch_stride))
    return false;
  if (operand.loads == VKATTN_MATMUL_LOADS_INNER) return aligned(operand.outer, operand.outer_stride);
  return operand.loads == VKATTN_MATMUL_LOADS_OUTER && operand.outer % 8 == 0 &&
         aligned(desc.inner, operand.inner_stride);
}

Result<MatmulConfig> configure_matmul_matrix(const MatmulDesc& desc, const Capabilities& capabilities,
                                             MatmulTiles tiles, const std::optional<MatmulCopies>& copies) {
  if (Result<void> s = check_no_copies(copies); !s) return s.error();
  if (Result<void> s = check_types(desc); !s) return s.error();
  const DataType operand = desc.a.type;
  if (Result<void> s = check_matrix_features(capabilities, operand); !s) return s.error();
  const auto shape = best_matrix_shape(capabilities, name(operand));
  if (!shape) return shape.error();
  const auto lanes = matrix_subgroup_size(capabilities, shape->n);
  if (!lanes) return lanes.error();
  MatmulConfig config;
  config.view = view_of(desc);
  MatrixTile begin;
  begin.shape = *shape;
  begin.subgroup_size = *lanes;
  begin.a_by_outer = config.view.a.loads == VKATTN_MATMUL_LOADS_OUTER;
  begin.b_by_outer = config.view.b.loads == VKATTN_MATMUL_LOADS_OUTER;
  const auto chosen = choose_tile(desc, capabilities, begin, tiles);
  if (!chosen) return chosen.error();
  const MatrixTile& tile = *chosen;
  config.tile = {0, tile.rows, tile.columns, tile.inner, tile.subgroups, tile.stages == 2 ? 2U : 0U};
  config.columns = tile.columns;
  config.workgroup_size = tile.threads();
  config.uses_matrix_units = true;
  config.required_subgroup_size = required_subgroup_size(capabilities, *lanes);
  config.block_rows = tile.block_rows();
  config.block_columns = tile.block_columns();
  const bool is_bfloat16 = operand == DataType::kBfloat16;
  config.shader = message("matmul_matrix", writes_out_steps(capabilities) ? "_steps" : "",
                          is_bfloat16 ? "_bfloat16" : "");
  add_constants(desc, tile, config);
  config.summary =
      message(tile.block_rows(), " rows x ", tile.block_columns(), " columns a block, matrices of ", shape->m,
              "x", shape->n, "x", shape->k, ", ", tile.subgroups, " subgroups of ", *lanes, ", ", tile.inner,
              " of inner staged at a time, ", tile.stages == 2 ? "in two stages, " : "", tile.shared_bytes(),
              " bytes of shared memory");
  return config;
}

}  // namespace vkattn::detail
