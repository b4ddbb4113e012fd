// Host half of the matrix kernel (shaders/matrix/attention_matrix.comp): the matrix shape, and the tile that
// fits the device.
#include <algorithm>
#include <optional>
#include <string_view>

#include "attention/features.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/block_limits.hpp"
#include "kernels/matrix_common.hpp"
#include "kernels/vendors.hpp"
#include "shared/attention_constants.h"
#include "shared/shared_memory.h"

namespace vkattn::detail {

namespace {

// Registers of 32 bits that a lane may hold.
struct FragmentLimits {
  std::uint32_t sums;  ///< of float32; wider heads take several slices of value dims
  std::uint32_t held;  ///< for sums, scores and queries; beyond it queries stay in shared memory
};

// By the registers that Mesa's compilers use (docs/compilers.txt): Intel's holds a matrix's operands
// unpacked.
FragmentLimits fragment_limits(const Capabilities& capabilities) {
  return capabilities.vendor_id == kVendorIntel ? FragmentLimits{32, 0} : FragmentLimits{128, 160};
}

// Dims that share a scale in the quantised types that have one for each block.
constexpr std::uint32_t kScaleDims = block_elements(DataType::kQ8_0);

// One configuration of the shader; the names are those of its constants.
struct MatrixTile {
  MatrixShape shape;
  std::uint32_t subgroup_size = 0, subgroups = 0, row_blocks = 1;
  std::uint32_t keys = 0, head_dims = 0, slice_dims = 0;  // dims padded to whole matrices
  std::uint32_t head_dim = 0;                             // not padded
  bool query_in_registers = true;
  bool values_transposed = false;
  bool prefetch = false;
  bool skip_tiles = true;
  bool writes_out = false;
  bool features = false;
  bool keys_scaled = false, values_scaled = false;  // by blocks of kScaleDims

  [[nodiscard]] std::uint32_t threads() const { return subgroup_size * subgroups; }
  [[nodiscard]] std::uint32_t subgroup_rows() const { return row_blocks * shape.m; }
  [[nodiscard]] std::uint32_t block_rows() const { return subgroups * subgroup_rows(); }
  [[nodiscard]] std::uint32_t sums() const { return subgroup_rows() * slice_dims / subgroup_size; }
  [[nodiscard]] std::uint32_t scores() const { return subgroup_rows() * keys / subgroup_size; }
  [[nodiscard]] std::uint32_t shared_bytes() const {
    const std::uint32_t rows = block_rows();
    const std::uint32_t common = VKATTN_MATRIX_KEY_STAGE4(keys, head_dims) +
                                 VKATTN_MATRIX_VALUE_STAGE4(keys, slice_dims, values_transposed) +
                                 VKATTN_MATRIX_QUERY_STAGE4(rows, head_dims, query_in_registers) +
                                 VKATTN_MATRIX_SCORE_STAGE4(rows, keys) + VKATTN_MATRIX_FACTOR_STAGE4(rows);
    const std::uint32_t quantised =
        VKATTN_MATRIX_SCALE_STAGE4(keys, divide_up(head_dim, kScaleDims), keys_scaled) +
        VKATTN_MATRIX_SCALE_STAGE4(keys, slice_dims / kScaleDims, values_scaled) +
        VKATTN_MATRIX_PRODUCT_STAGE4(rows, keys, values_scaled);
    return 16 * (common + (features ? quantised : 0));
  }
  // Conditions of the shader's division of rows among lanes.
  [[nodiscard]] bool is_possible() const {
    if (!is_power(keys, 1, 128) || !is_power(subgroups, 1, 16) || !is_power(row_blocks, 1, 4)) return false;
    const std::uint32_t row_lanes = std::max(1U, subgroup_size / subgroup_rows());
    return keys % shape.n == 0 && keys % shape.k == 0 && keys % (8 * row_lanes) == 0;
  }
};

// 32-bit registers of a lane for its part of the queries.
std::uint32_t query_registers(const MatrixTile& tile, const Capabilities& capabilities) {
  // RDNA3 gives each lane a whole row of an operand, others an equal share.
  const std::uint32_t lanes = capabilities.vendor_id == kVendorAmd ? 16 : tile.subgroup_size;
  return tile.subgroup_rows() * tile.head_dims / lanes / 2;
}

// Whether the subgroups of a workgroup may meet different numbers of matrix operations and subgroup barriers.
bool may_skip_tiles(const Capabilities& capabilities) {
  // Mesa's compiler for Intel is suspected of wrong results where the former differ. To multiply tiles that
  // are hidden costs little: a block has few rows.
  if (capabilities.vendor_id == kVendorIntel) return false;
  // lavapipe (Mesa 26.1) treats a subgroup barrier as one of the workgroup: where their numbers differ, rows
  // stay unwritten.
  return !capabilities.is_cpu();
}

void set_dims(MatrixTile& tile, const AttentionDesc& desc, const Capabilities& capabilities) {
  tile.head_dims = round_up(static_cast<std::uint32_t>(desc.head_dim), tile.shape.k);
  const auto value_dim = static_cast<std::uint32_t>(desc.value_dim);
  const FragmentLimits limits = fragment_limits(capabilities);
  const std::uint32_t widest =
      std::max(tile.shape.n, limits.sums * tile.subgroup_size / tile.subgroup_rows());
  const std::uint32_t slices = divide_up(value_dim, widest);
  // A scale's dims lie in one slice.
  const std::uint32_t unit = tile.values_scaled ? kScaleDims : tile.shape.n;
  tile.slice_dims = round_up(divide_up(value_dim, slices), unit);
  const std::uint32_t held = tile.sums() + tile.scores() + query_registers(tile, capabilities);
  tile.query_in_registers = held <= limits.held;
  // RDNA3 and Intel load an operand's columns key by key; a transposed stage makes them neighbours.
  tile.values_transposed = capabilities.vendor_id == kVendorAmd || capabilities.vendor_id == kVendorIntel;
  // 4 registers for each 8 elements. Not on RDNA3: the registers are worth more waves.
  const std::uint32_t fetched = tile.keys * (tile.head_dims + tile.slice_dims) / 8 / tile.threads() * 4;
  // Nor where they are decoded on the way.
  const bool decodes = is_quantised(desc.key.type) || is_quantised(desc.value.type);
  tile.prefetch = capabilities.vendor_id == kVendorNvidia && tile.query_in_registers && !decodes &&
                  held + fetched <= limits.held;
  tile.skip_tiles = may_skip_tiles(capabilities);
  tile.writes_out = writes_out_steps(capabilities);
}

// The first of the tiles, largest first, that fits the device, or the reason.
Result<MatrixTile> choose_fragments(const AttentionDesc& desc, const Capabilities& capabilities,
                                    const MatrixShape& shape, std::uint32_t lanes, Tiles tiles) {
  MatrixTile tile;
  tile.shape = shape;
  tile.subgroup_size = lanes;
  tile.features = has_features(desc);
  tile.head_dim = static_cast<std::uint32_t>(desc.head_dim);
  tile.keys_scaled = block_elements(desc.key.type) > 1;
  tile.values_scaled = block_elements(desc.value.type) > 1;
  std::optional<Result<void>> fits;
  for (const TileSizes& candidate : tiles) {
    tile.keys = candidate.keys;
    tile.subgroups = candidate.subgroups;
    tile.row_blocks = candidate.rows;
    if (!tile.is_possible()) continue;
    set_dims(tile, desc, capabilities);
    fits = check_limits({tile.shared_bytes(), tile.threads(), tile.subgroups}, capabilities);
    if (!*fits) continue;
    // Subgroups without rows would only help to load.
    const bool wasteful = packed_rows(desc) * 2 <= static_cast<std::int64_t>(tile.block_rows());
    if (wasteful && tile.subgroups > 1 && tiles.size() > 1) continue;
    return tile;
  }
  if (fits) return no_block_fits(*fits);
  return unsupported("has no tile for matrices of ", shape.m, "x", shape.n, "x", shape.k, " in subgroups of ",
                     lanes);
}

void add_specialization(const AttentionDesc& desc, const MatrixTile& tile, SpecializationValues& constants) {
  const auto add = [&](std::uint32_t id, auto value) {
    constants.push_back({id, static_cast<std::uint32_t>(value)});
  };
  add(VKATTN_SPEC_MATRIX_M, tile.shape.m);
  add(VKATTN_SPEC_MATRIX_N, tile.shape.n);
  add(VKATTN_SPEC_MATRIX_K, tile.shape.k);
  add(VKATTN_SPEC_MATRIX_SUBGROUP_SIZE, tile.subgroup_size);
  add(VKATTN_SPEC_MATRIX_ROW_BLOCKS, tile.row_blocks);
  add(VKATTN_SPEC_MATRIX_KEYS, tile.keys);
  add(VKATTN_SPEC_MATRIX_SLICE_DIMS, tile.slice_dims);
  add(VKATTN_SPEC_MATRIX_QUERY_IN_REGISTERS, tile.query_in_registers);
  add(VKATTN_SPEC_MATRIX_VALUES_TRANSPOSED, tile.values_transposed);
  add(VKATTN_SPEC_MATRIX_PREFETCH, tile.prefetch);
  add(VKATTN_SPEC_MATRIX_SKIP_TILES, tile.skip_tiles);
  add(VKATTN_SPEC_WRITES_OUT_STEPS, tile.writes_out);
  add_loads8(desc, constants);
}

}  // namespace

Result<KernelConfig> configure_matrix(const AttentionDesc& desc, const Capabilities& capabilities,
                                      Tiles tiles) {
  if (Result<void> status = check_matrix_types(desc, QuantisedOperands::kAll); !status) return status.error();
  const DataType operand = desc.query.type;
  if (Result<void> status = check_subgroup_matrix_features(capabilities, operand); !status)
    return status.error();
  const auto shape = best_matrix_shape(capabilities, name(operand));
  if (!shape) return shape.error();
  const auto lanes = matrix_subgroup_size(capabilities, shape->n);
  if (!lanes) return lanes.error();
  auto chosen = choose_fragments(desc, capabilities, *shape, *lanes, tiles);
  if (!chosen) return chosen.error();
  const MatrixTile& tile = *chosen;
  KernelConfig config;
  config.shader =
      feature_form(desc, operand == DataType::kBfloat16 ? "attention_matrix_bfloat16" : "attention_matrix");
  config.block_mask_keys = tile.keys;
  config.tile = {0, tile.subgroups, 0, tile.row_blocks, tile.keys, 0};
  config.workgroup_size = tile.threads();
  config.rows_per_workgroup = tile.block_rows();
  config.key_step = tile.keys;
  config.workgroups_per_unit = workgroups_of_a_unit(tile.threads());
  config.shared_bytes = tile.shared_bytes();
  config.probability_type = operand;
  config.uses_matrix_units = true;
  config.required_subgroup_size = required_subgroup_size(capabilities, *lanes);
  add_specialization(desc, tile, config.constants);
  const std::int64_t slices = divide_up(desc.value_dim, std::int64_t{tile.slice_dims});
  config.summary = message(tile.block_rows(), " rows x ", tile.keys, " keys a tile, matrices of ", shape->m,
                           "x", shape->n, "x", shape->k, ", ", tile.subgroups, " subgroups of ", *lanes,
                           ", queries in ", tile.query_in_registers ? "registers, " : "shared memory, ",
                           tile.prefetch ? "next tile prefetched, " : "",
                           slices > 1 ? message("values in ", slices, " slices, ") : "", config.shared_bytes,
                           " bytes of shared memory");
  return config;
}

}  // namespace vkattn::detail
