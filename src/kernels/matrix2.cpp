// Host half of the matrix2 kernel: the form (matrices of workgroup scope,
// shaders/matrix2/attention_matrix2.comp, or of subgroups, attention_matrix2_staged.comp), and the tile that
// the device's flexible matrices allow.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "attention/tensor_rules.hpp"
#include "common/checked.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/block_limits.hpp"
#include "kernels/matrix_common.hpp"
#include "kernels/row_layout.hpp"
#include "kernels/vendors.hpp"
#include "shared/attention_constants.h"
#include "shared/shared_memory.h"

namespace vkattn::detail {

namespace {

// 32-bit registers of an invocation that matrices may take, of 255 that NVIDIA's GPUs have.
constexpr std::uint32_t kMaxHeldRegisters = 224;
// Dims of one matrix of workgroup scope: wider heads take several, evenly.
constexpr std::uint32_t kMaxBlockDims = 256;
// Numbers of a row: reference, sum, and factor or maximum.
constexpr std::uint32_t kRowNumbers = 3;

// One configuration of the shader; the names are those of its constants.
struct Matrix2Tile {
  const FlexibleMatrix* matrices = nullptr;
  std::uint32_t subgroups = 0;  // of the staged form
  std::uint32_t invocations = 0, rows = 0, keys = 0;
  std::uint32_t head_block = 0, value_block = 0;
  std::uint32_t head_dims = 0, value_dims = 0;  // whole blocks
  std::uint32_t held_blocks = 0;                // of head dims, of which queries stay in registers
  std::uint32_t ahead_dims = 0;                 // not 0 if scores are computed a tile ahead
  RowLayout layout;                             // lane_rows is not 0 if numbers of rows stand in lanes

  [[nodiscard]] bool is_staged() const { return subgroups != 0; }
  [[nodiscard]] bool has_rows_in_lanes() const { return layout.lane_rows != 0; }
  [[nodiscard]] std::uint32_t head_blocks() const { return head_dims / head_block; }
  [[nodiscard]] std::uint32_t held_dims() const { return held_blocks * head_block; }
  [[nodiscard]] std::uint32_t block_rows() const { return is_staged() ? rows * subgroups : rows; }
  // Invocations that a matrix is spread over.
  [[nodiscard]] std::uint32_t lanes() const { return is_staged() ? invocations / subgroups : invocations; }
  // Registers of an invocation: sums, scores and the rows' numbers; queries; one operand of K or V, or the
  // references in the shape of the scores; in the staged form also its part of a tile on the way. With rows
  // in lanes there are no such references, but an operand of queries that do not stay, and scores of two
  // tiles if they are computed ahead. A register holds two 16-bit elements.
  [[nodiscard]] std::uint32_t held_registers() const {
    const std::uint32_t accumulators = rows * (value_dims + keys * (ahead_dims != 0 ? 2 : 1));
    const std::uint32_t loaded = keys * std::max(head_block, value_block) / 2;
    const std::uint32_t fetched = is_staged() ? keys * std::max(head_dims, value_dims) / 2 / invocations : 0;
    const std::uint32_t held = accumulators + rows * held_dims() / 2;
    if (has_rows_in_lanes()) {
      const std::uint32_t staged = held_blocks < head_blocks() ? rows * head_block / 2 : 0;
      return (held + loaded + staged) / lanes() + kRowNumbers * layout.lane_rows + fetched;
    }
    return (held + kRowNumbers * rows * row_columns() + std::max(loaded, rows * keys)) / lanes() + fetched;
  }
  [[nodiscard]] std::uint32_t shared_bytes() const {
    if (!is_staged()) return 0;
    return 16 * (VKATTN_MATRIX2_STAGE4(block_rows(), keys, head_dims, held_dims(), value_dims, value_block));
  }

  // The narrowest matrix that holds a number for each row.
  [[nodiscard]] std::uint32_t row_columns() const { return matrices->n_granularity; }
};

// `dims` in as few blocks as `most` allows, all of them of one multiple of the granularity.
std::uint32_t block_dims(std::int64_t dims, std::uint32_t most, std::uint32_t granularity) {
  const auto whole = static_cast<std::uint32_t>(dims);
  const std::uint32_t blocks = divide_up(whole, most);
  return round_up(divide_up(whole, blocks), granularity);
}

// The tile of this size by the granularities of this entry, if they allow it.
std::optional<Matrix2Tile> sized_tile(const AttentionDesc& desc, const Capabilities& capabilities,
                                      const FlexibleMatrix& entry, const TileSizes& size,
                                      std::uint32_t lanes) {
  Matrix2Tile tile;
  tile.matrices = &entry;
  tile.subgroups = size.subgroups;
  tile.invocations = tile.is_staged() ? size.subgroups * lanes : size.threads;
  tile.rows = size.rows;
  tile.keys = size.keys;
  tile.ahead_dims = size.dims;
  if (!tile.is_staged() && entry.workgroup_invocations != tile.invocations) return std::nullopt;
  // Mesa 26.1 reduces the rows of a matrix wrongly where it is of more than 8 rows and of more than 8
  // columns. Numbers in lanes are not reduced in this way.
  const bool in_lanes = size.columns != 0;
  if (in_lanes && !tile.is_staged()) return std::nullopt;  // only subgroups have rows in lanes
  if (capabilities.is_cpu() && size.rows > 8 && !in_lanes) return std::nullopt;
  if (size.rows == 0 || size.keys == 0) return std::nullopt;
  const bool whole = size.rows % entry.m_granularity == 0 && size.keys % entry.n_granularity == 0 &&
                     size.keys % entry.k_granularity == 0;
  if (!whole) return std::nullopt;
  const std::uint32_t most = tile.is_staged() ? kStagedBlockDims : kMaxBlockDims;
  // Queries are also fetched as an accumulator, or by vectors of 8, so several granularities count for them.
  const std::uint32_t head_unit = std::max(entry.n_granularity, entry.k_granularity);
  const std::uint32_t vector = tile.is_staged() ? 8 : 1;
  tile.head_block = block_dims(desc.head_dim, most, std::max(head_unit, vector));
  tile.value_block = block_dims(desc.value_dim, most, std::max(entry.n_granularity, vector));
  tile.head_dims = round_up(static_cast<std::uint32_t>(desc.head_dim), tile.head_block);
  tile.value_dims = round_up(static_cast<std::uint32_t>(desc.value_dim), tile.value_block);
  const std::uint32_t widest = std::max({tile.head_block, tile.value_block, tile.rows, tile.keys});
  if (widest > capabilities.max_flexible_matrix_dimension) return std::nullopt;
  tile.held_blocks = tile.head_blocks();
  return tile;
}

// The matrices whose layout the tile needs to know.
RowLayout layout_sizes(const Matrix2Tile& tile) {
  return {
      .rows = tile.rows, .score_columns = tile.keys, .sum_columns = tile.value_block, .lanes = tile.lanes()};
}

// Puts the numbers of rows into lanes, `columns` of which share a row, if the device's matrices are known to
// lie so. As many queries as there is room for stay in registers.
Result<void> keep_rows_in_lanes(Matrix2Tile& tile, std::uint32_t columns, const Capabilities& capabilities) {
  if (Result<void> s = need_feature(capabilities.subgroup_shuffle, "subgroup shuffles in compute shaders");
      !s)
    return s;
  if (Result<void> s = need_feature(capabilities.subgroup_vote, "subgroup votes in compute shaders"); !s)
    return s;
  const auto refuse = [&](const auto&... why) {
    return unsupported("numbers of rows in lanes (columns ", columns, ") of matrices of ", tile.rows,
                       " rows and ", tile.keys, " and ", tile.value_block, " columns in subgroups of ",
                       tile.lanes(), " ", why...);
  };
  const RowLayout* const found = find_row_layout(capabilities, layout_sizes(tile));
  if (found == nullptr) return refuse("need a probe of the device's matrices, which did not run");
  if (!is_usable(*found)) return refuse("cannot be: the probe found rows that lie in another way");
  if (const std::uint32_t shared = lanes_of_row(*found); shared != columns)
    return refuse("cannot be: ", shared, " lanes share a row");
  tile.layout = *found;
  while (tile.held_blocks > 0 && tile.held_registers() > kMaxHeldRegisters) --tile.held_blocks;
  return {};
}

// The tile of this size on matrices of this entry, if they and the device's limits allow it.
std::optional<Matrix2Tile> make_tile(const AttentionDesc& desc, const Capabilities& capabilities,
                                     const FlexibleMatrix& entry, const TileSizes& size, std::uint32_t lanes,
                                     std::optional<Error>& refusal) {
  auto tile = sized_tile(desc, capabilities, entry, size, lanes);
  if (!tile) return std::nullopt;
  if (tile->is_staged()) {
    if (size.columns != 0) {
      if (const Result<void> known = keep_rows_in_lanes(*tile, size.columns, capabilities); !known) {
        refusal = known.error();
        return std::nullopt;
      }
    }
    const BlockNeeds needs{tile->shared_bytes(), tile->invocations, tile->subgroups};
    if (const Result<void> limits = check_limits(needs, capabilities); !limits) {
      refusal = no_block_fits(limits);
      return std::nullopt;
    }
    return tile;
  }
  if (tile->invocations > largest_matrix_workgroup(capabilities)) return std::nullopt;
  return tile;
}

// The tile of this size on the first of the device's entries that allows it; else perhaps a reason.
std::optional<Matrix2Tile> find_tile(const AttentionDesc& desc, const Capabilities& capabilities,
                                     const TileSizes& size, std::optional<Error>& refusal) {
  const std::string_view scope = size.subgroups != 0 ? "subgroup" : "workgroup";
  for (const FlexibleMatrix& entry : capabilities.flexible_matrices) {
    if (!is_usable_flexible(entry, name(desc.query.type), scope)) continue;
    std::uint32_t lanes = 0;
    if (size.subgroups != 0) {
      const auto subgroup = matrix_subgroup_size(capabilities, entry.n_granularity);
      if (!subgroup) {
        refusal = subgroup.error();
        continue;
      }
      lanes = *subgroup;
    }
    if (const auto tile = make_tile(desc, capabilities, entry, size, lanes, refusal); tile) return tile;
  }
  return std::nullopt;
}

// Tensor addressing needs each head to start at a multiple of 16 bytes, and strides that do not decrease
// towards the inner dimension. Dims that are not neighbours would gain little.
bool is_tensor_addressable(const TensorDesc& tensor, std::int64_t batch, std::int64_t heads,
                           std::int64_t rows, std::int64_t dims) {
  constexpr std::int64_t kStep = 8;
  const auto aligned = [&](std::int64_t stride, std::int64_t extent) {
    return extent <= 1 || stride % kStep == 0;
  };
  return tensor.alignment_bytes >= kStep * element_bytes(tensor.type) &&
         aligned(tensor.strides->batch, batch) && aligned(tensor.strides->head, heads) &&
         (tensor.strides->dim == 1 || dims == 1) && (rows <= 1 || tensor.strides->row >= dims);
}

Result<void> check_layout(const AttentionDesc& desc) {
  const auto check = [&](std::string_view name, const TensorDesc& tensor, std::int64_t dims) -> Result<void> {
    if (is_tensor_addressable(tensor, desc.batch, desc.kv_heads, desc.kv_length, dims)) return {};
    return unsupported("tensor addressing needs heads of ", name,
                       " that start at multiples of 16 bytes, with a dim stride of 1 and a row stride of "
                       "at least ",
                       dims, "; its strides are ", tensor.strides->batch, ", ", tensor.strides->head, ", ",
                       tensor.strides->row, ", ", tensor.strides->dim, " and alignment_bytes is ",
                       tensor.alignment_bytes);
  };
  if (Result<void> s = check("key", desc.key, desc.head_dim); !s) return s;
  return check("value", desc.value, desc.value_dim);
}

// Checks the further needs of the form of workgroup scope.
Result<void> check_workgroup_scope(const AttentionDesc& desc, const Capabilities& capabilities) {
  if (Result<void> s = check_workgroup_matrix_features(capabilities); !s) return s;
  if (is_quantised(desc.key.type) || is_quantised(desc.value.type)) {
    return unsupported("tensor addressing takes K and V of Q's type; here they are ", name(desc.key.type),
                       " and ", name(desc.value.type));
  }
  if (Result<void> s = check_layout(desc); !s) return s;
  // A tensor layout begins at key 0, so the keys of a head are not cut into windows.
  const std::int64_t row = 2 * std::max(desc.key.strides->row, desc.value.strides->row);
  const std::int64_t head = saturating_multiply(row, desc.kv_length);
  if (std::cmp_greater(head, capabilities.max_storage_buffer_range)) {
    return unsupported("tensor addressing needs the keys of one head in maxStorageBufferRange, which is ",
                       capabilities.max_storage_buffer_range, " bytes; they take ", head);
  }
  if (desc.cache.mapping != KeyMapping::kContiguous) {
    return unsupported(
        "tensor addressing needs keys one after the other; here they lie in a ring or in pages");
  }
  if (desc.has_packed_keys() && !(has_vector_loads(desc.key, key_extents(desc, 1), 8) &&
                                  has_vector_loads(desc.value, key_extents(desc, 1), 8))) {
    return unsupported(
        "tensor addressing of packed sequences needs rows of K and V at multiples of 16 bytes");
  }
  return {};
}

bool fits_registers(const Matrix2Tile& tile, const Capabilities& capabilities) {
  return capabilities.is_cpu() || tile.held_registers() <= kMaxHeldRegisters;
}

// Scores of a tile ahead take registers, so they are for heads of up to as many dims as the size says.
Result<void> check_ahead(const AttentionDesc& desc, const TileSizes& size) {
  if (size.dims == 0 || (size.columns != 0 && desc.head_dim <= size.dims)) return {};
  return unsupported("computes scores a tile ahead (dims ", size.dims, ") for heads of up to ", size.dims,
                     " dims, with numbers of rows in lanes (columns); here heads have ", desc.head_dim,
                     " dims, and columns is ", size.columns);
}

// Compares two tiles that leave half of their rows idle, or need more registers than there are.
bool is_better(const Matrix2Tile& a, const Matrix2Tile& b, const Capabilities& capabilities) {
  const bool fits = fits_registers(a, capabilities);
  if (fits != fits_registers(b, capabilities)) return fits;
  if (a.is_staged() != b.is_staged()) return b.is_staged();
  return fits ? a.block_rows() < b.block_rows() : a.held_registers() < b.held_registers();
}

// The first of the tiles that the device takes and whose matrices fit its registers, without many idle rows;
// else the best.
Result<Matrix2Tile> choose_tile(const AttentionDesc& desc, const Capabilities& capabilities, Tiles tiles) {
  std::optional<Matrix2Tile> best;
  std::optional<Error> refusal;
  const Result<void> workgroup = check_workgroup_scope(desc, capabilities);
  const bool is_float16 = desc.query.type == DataType::kFloat16;
  for (const TileSizes& size : tiles) {
    if (size.subgroups == 0 && !workgroup) {
      refusal = workgroup.error();
      continue;
    }
    if (size.subgroups != 0 && !is_float16) continue;  // a binary more for what few need
    if (const Result<void> ahead = check_ahead(desc, size); !ahead) {
      refusal = ahead.error();
      continue;
    }
    const auto tile = find_tile(desc, capabilities, size, refusal);
    if (!tile) continue;
    const bool is_idle =
        !capabilities.is_cpu() && packed_rows(desc) * 2 <= static_cast<std::int64_t>(tile->block_rows());
    if (!is_idle && fits_registers(*tile, capabilities)) return *tile;
    if (!best || is_better(*tile, *best, capabilities)) best = tile;
  }
  if (best) return *best;
  if (refusal) return *refusal;
  return unsupported("no tile fits the device's flexible matrices of ", name(desc.query.type), " x ",
                     name(desc.query.type), " to f32 (at most ", capabilities.max_flexible_matrix_dimension,
                     " rows or columns)");
}

std::string_view shader_name(DataType operand, const Matrix2Tile& tile, bool writes_out_steps) {
  if (tile.has_rows_in_lanes()) return "attention_matrix2_staged_lanes";
  if (tile.is_staged())
    return writes_out_steps ? "attention_matrix2_staged_steps" : "attention_matrix2_staged";
  return operand == DataType::kBfloat16 ? "attention_matrix2_bfloat16" : "attention_matrix2";
}

void add_specialization(const AttentionDesc& desc, const Matrix2Tile& tile, SpecializationValues& constants) {
  const auto add = [&](std::uint32_t id, auto value) {
    constants.push_back({id, static_cast<std::uint32_t>(value)});
  };
  add(VKATTN_SPEC_MATRIX2_ROWS, tile.rows);
  add(VKATTN_SPEC_MATRIX2_KEYS, tile.keys);
  add(VKATTN_SPEC_MATRIX2_HEAD_BLOCK, tile.head_block);
  add(VKATTN_SPEC_MATRIX2_VALUE_BLOCK, tile.value_block);
  add(VKATTN_SPEC_MATRIX2_ROW_COLUMNS, tile.row_columns());
  add(VKATTN_SPEC_MATRIX2_KEY_LOADS8, has_vector_loads(desc.key, key_extents(desc, 1), 8));
  add(VKATTN_SPEC_MATRIX2_VALUE_LOADS8, has_vector_loads(desc.value, key_extents(desc, 1), 8));
  const bool query_loads8 = has_vector_loads(desc.query, query_extents(desc, 1), 8);
  if (tile.is_staged()) {
    add(VKATTN_SPEC_MATRIX2_SUBGROUPS, tile.subgroups);
    add(VKATTN_SPEC_MATRIX2_QUERY_LOADS8, query_loads8);
    add(VKATTN_SPEC_MATRIX2_HELD_BLOCKS, tile.held_blocks);
    if (!tile.has_rows_in_lanes()) return;
    add(VKATTN_SPEC_MATRIX_SUBGROUP_SIZE, tile.lanes());
    add(VKATTN_SPEC_LANE_ROWS_COUNT, tile.layout.lane_rows);
    add(VKATTN_SPEC_LANE_ROWS_LANE_BITS, tile.layout.lane_bits);
    add(VKATTN_SPEC_LANE_ROWS_SCORE_BITS, tile.layout.score_row_bits);
    add(VKATTN_SPEC_LANE_ROWS_SUM_BITS, tile.layout.sum_row_bits);
    add(VKATTN_SPEC_MATRIX2_SCORES_AHEAD, tile.ahead_dims != 0);
    return;
  }
  // Rows are rows of memory where no other query head shares the KV head. A window may start at any of them,
  // so each must be aligned.
  add(VKATTN_SPEC_MATRIX2_QUERY_TENSOR,
      desc.query_heads == desc.kv_heads && query_loads8 &&
          is_tensor_addressable(desc.query, desc.batch, desc.query_heads, desc.query_length, desc.head_dim));
}

std::string lane_words(const Matrix2Tile& tile) {
  if (!tile.has_rows_in_lanes()) return "";
  return message("numbers of ", tile.layout.lane_rows, " rows in a lane, queries of ", tile.held_dims(),
                 " of ", tile.head_dims, " dims in registers, ",
                 tile.ahead_dims != 0 ? "scores a tile ahead, " : "");
}

}  // namespace

std::optional<RowLayout> needed_row_layout(const AttentionDesc& desc, const Capabilities& capabilities,
                                           std::string_view kernel, const TileSizes& tile) {
  if (kernel != "matrix2" || tile.subgroups == 0 || tile.columns == 0 ||
      !check_matrix2_features(capabilities, DataType::kFloat16))
    return std::nullopt;
  for (const FlexibleMatrix& entry : capabilities.flexible_matrices) {
    if (!is_usable_flexible(entry, "f16", "subgroup")) continue;
    const auto lanes = matrix_subgroup_size(capabilities, entry.n_granularity);
    if (!lanes) continue;
    if (const auto sized = sized_tile(desc, capabilities, entry, tile, *lanes); sized)
      return layout_sizes(*sized);
  }
  return std::nullopt;
}

Result<KernelConfig> configure_matrix2(const AttentionDesc& desc, const Capabilities& capabilities,
                                       Tiles tiles) {
  if (Result<void> status = check_matrix_types(desc, QuantisedOperands::kFloat8); !status)
    return status.error();
  const DataType operand = desc.query.type;
  if (Result<void> status = check_matrix2_features(capabilities, operand); !status) return status.error();
  const auto tile = choose_tile(desc, capabilities, tiles);
  if (!tile) return tile.error();
  const bool staged = tile->is_staged();
  KernelConfig config;
  const std::uint32_t columns = tile->has_rows_in_lanes() ? lanes_of_row(tile->layout) : 0;
  config.tile = {
      staged ? 0 : tile->invocations, tile->subgroups, columns, tile->rows, tile->keys, tile->ahead_dims};
  config.uses_matrix_units = true;
  config.shader = feature_form(desc, shader_name(operand, *tile, writes_out_steps(capabilities)));
  config.block_mask_keys = tile->keys;
  config.workgroup_size = tile->invocations;
  config.rows_per_workgroup = tile->block_rows();
  config.key_step = tile->keys;
  config.shared_bytes = tile->shared_bytes();
  config.whole_heads = !staged;  // a tensor layout begins at key 0
  config.probability_type = operand;
  if (staged) config.required_subgroup_size = required_subgroup_size(capabilities, tile->lanes());
  add_specialization(desc, *tile, config.constants);
  config.summary =
      staged ? message(tile->block_rows(), " rows x ", tile->keys, " keys a tile, staged, ", tile->subgroups,
                       " subgroups of ", tile->lanes(), ", ", lane_words(*tile), config.shared_bytes,
                       " bytes of shared memory")
             : message(tile->rows, " rows x ", tile->keys, " keys a tile, matrices of workgroup scope over ",
                       tile->invocations, " invocations, heads in blocks of ", tile->head_block, " and ",
                       tile->value_block, " dims, loaded by tensor addressing");
  return config;
}

}  // namespace vkattn::detail
