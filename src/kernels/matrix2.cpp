// Host half of the matrix2 kernel (shaders/matrix2/attention_matrix2.comp): the scope, and the tile that the
// device's flexible matrices allow.
#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>

#include "attention/tensor_rules.hpp"
#include "common/message.hpp"
#include "kernels/matrix_common.hpp"
#include "shared/attention_constants.h"

namespace vkattn::detail {

namespace {

// 32-bit registers of an invocation that matrices may take, of 255 that NVIDIA's GPUs have.
constexpr std::uint32_t kMaxHeldRegisters = 224;
// Dims of one matrix: wider heads take several, evenly.
constexpr std::uint32_t kMaxBlockDims = 256;
constexpr std::uint32_t kCpuBlockDims = 16;
// Numbers of a row: reference, sum, and factor or maximum.
constexpr std::uint32_t kRowNumbers = 3;

// One configuration of the shader; the names are those of its constants.
struct Matrix2Tile {
  const FlexibleMatrix* matrices = nullptr;
  std::uint32_t invocations = 0, rows = 0, keys = 0;
  std::uint32_t head_block = 0, value_block = 0;
  std::uint32_t head_dims = 0, value_dims = 0;  // whole blocks

  // What an invocation holds: sums, scores, the rows' numbers; queries; one operand of K or V, or the
  // references in the shape of the scores. 16-bit ones are two to a register.
  [[nodiscard]] std::uint32_t held_registers() const {
    const std::uint32_t accumulators = rows * (value_dims + keys + kRowNumbers * row_columns());
    const std::uint32_t loaded = keys * std::max(head_block, value_block) / 2;
    return (accumulators + rows * head_dims / 2 + std::max(loaded, rows * keys)) / invocations;
  }

  // The narrowest matrix that holds a number for each row.
  [[nodiscard]] std::uint32_t row_columns() const { return matrices->n_granularity; }
};

bool is_usable(const FlexibleMatrix& entry, std::string_view operand, std::string_view scope) {
  return entry.scope == scope && entry.a_type == operand && entry.b_type == operand &&
         entry.c_type == "f32" && entry.result_type == "f32" && std::has_single_bit(entry.m_granularity) &&
         std::has_single_bit(entry.n_granularity) && std::has_single_bit(entry.k_granularity);
}

bool has_entry(const Capabilities& capabilities, std::string_view operand, std::string_view scope) {
  return std::any_of(capabilities.flexible_matrices.begin(), capabilities.flexible_matrices.end(),
                     [&](const FlexibleMatrix& entry) { return is_usable(entry, operand, scope); });
}

// `dims` in as few blocks as `most` allows, all of them of one multiple of the granularity.
std::uint32_t block_dims(std::int64_t dims, std::uint32_t most, std::uint32_t granularity) {
  const auto whole = static_cast<std::uint32_t>(dims);
  const std::uint32_t blocks = (whole + most - 1) / most;
  return round_up((whole + blocks - 1) / blocks, granularity);
}

// The tile of that size on matrices of that entry, where they allow it.
std::optional<Matrix2Tile> make_tile(const AttentionDesc& desc, const Capabilities& capabilities,
                                     const FlexibleMatrix& entry, const TileSizes& size,
                                     std::uint32_t lanes) {
  const std::uint32_t invocations = size.threads != 0 ? size.threads : lanes;
  if (entry.scope == "workgroup" && entry.workgroup_invocations != invocations) return std::nullopt;
  // Mesa 26.1 reduces the rows of a matrix wrongly where it is of more than 8 rows and of more than 8
  // columns.
  if (capabilities.is_cpu() && size.rows > 8) return std::nullopt;
  if (size.rows == 0 || size.keys == 0) return std::nullopt;
  const bool whole = size.rows % entry.m_granularity == 0 && size.keys % entry.n_granularity == 0 &&
                     size.keys % entry.k_granularity == 0;
  if (!whole) return std::nullopt;
  Matrix2Tile tile;
  tile.matrices = &entry;
  tile.invocations = invocations;
  tile.rows = size.rows;
  tile.keys = size.keys;
  const std::uint32_t most = capabilities.is_cpu() ? kCpuBlockDims : kMaxBlockDims;
  // Queries are also fetched as an accumulator, so both granularities count for them.
  tile.head_block = block_dims(desc.head_dim, most, std::max(entry.n_granularity, entry.k_granularity));
  tile.value_block = block_dims(desc.value_dim, most, entry.n_granularity);
  tile.head_dims = round_up(static_cast<std::uint32_t>(desc.head_dim), tile.head_block);
  tile.value_dims = round_up(static_cast<std::uint32_t>(desc.value_dim), tile.value_block);
  const std::uint32_t widest = std::max({tile.head_block, tile.value_block, tile.rows, tile.keys});
  if (widest > capabilities.max_flexible_matrix_dimension) return std::nullopt;
  const std::uint32_t largest_workgroup =
      std::min({capabilities.max_workgroup_invocations, capabilities.max_workgroup_size[0],
                entry.scope == "workgroup" ? capabilities.max_matrix_workgroup_size : ~0U});
  if (invocations > largest_workgroup) return std::nullopt;
  return tile;
}

Result<Matrix2Tile> choose_tile(const AttentionDesc& desc, const Capabilities& capabilities,
                                std::string_view operand, std::string_view scope, Tiles tiles) {
  std::optional<Matrix2Tile> last;
  for (const TileSizes& size : tiles) {
    // Workgroup scope has workgroups of its own sizes; else a workgroup is one subgroup.
    if ((size.threads == 0) != (scope == "subgroup")) continue;
    for (const FlexibleMatrix& entry : capabilities.flexible_matrices) {
      if (!is_usable(entry, operand, scope)) continue;
      std::uint32_t lanes = 0;
      if (scope == "subgroup") {
        const auto subgroup = matrix_subgroup_size(capabilities, entry.n_granularity);
        if (!subgroup) return subgroup.error();
        lanes = *subgroup;
      }
      const auto tile = make_tile(desc, capabilities, entry, size, lanes);
      if (!tile) continue;
      last = tile;
      // Half of the rows or more would be idle.
      if (packed_rows(desc) * 2 <= static_cast<std::int64_t>(tile->rows)) continue;
      if (capabilities.is_cpu() || tile->held_registers() <= kMaxHeldRegisters) return *tile;
    }
  }
  if (last) return *last;
  return Error{ErrorCode::kUnsupported, VK_SUCCESS,
               message("no tile fits the device's flexible matrices of ", scope, " scope (at most ",
                       capabilities.max_flexible_matrix_dimension,
                       " rows or columns, workgroups of 128 or 256 invocations)")};
}

Result<void> check_features(const Capabilities& c, DataType operand) {
  if (Result<void> s = check_matrix_features(c, operand); !s) return s;
  if (Result<void> s = need_feature(c.api_version >= VK_API_VERSION_1_3, "Vulkan 1.3 (SPIR-V 1.6)"); !s)
    return s;
  if (Result<void> s = need_feature(c.maintenance4, "maintenance4"); !s) return s;
  if (Result<void> s = need_feature(c.matrix2_flexible_dimensions,
                                    "cooperativeMatrixFlexibleDimensions (VK_NV_cooperative_matrix2)");
      !s)
    return s;
  if (Result<void> s = need_feature(c.matrix2_reductions, "cooperativeMatrixReductions"); !s) return s;
  if (Result<void> s = need_feature(c.matrix2_conversions, "cooperativeMatrixConversions"); !s) return s;
  if (Result<void> s =
          need_feature(c.matrix2_per_element_operations, "cooperativeMatrixPerElementOperations");
      !s)
    return s;
  // CPU implementations fetch element by element, to be tested: on a GPU the other kernels are better then.
  return need_feature(c.matrix2_tensor_addressing || c.is_cpu(), "cooperativeMatrixTensorAddressing");
}

// Tensor addressing wants each head to start at a multiple of 16 bytes. Strides must not decrease towards the
// inner dimension, and of dims other than neighbours little would be gained.
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
    return Error{ErrorCode::kUnsupported, VK_SUCCESS,
                 message("tensor addressing needs heads of ", name,
                         " that start at multiples of 16 bytes, with a dim stride of 1 and a row stride of "
                         "at least ",
                         dims, "; its strides are ", tensor.strides->batch, ", ", tensor.strides->head, ", ",
                         tensor.strides->row, ", ", tensor.strides->dim, " and alignment_bytes is ",
                         tensor.alignment_bytes)};
  };
  if (Result<void> s = check("key", desc.key, desc.head_dim); !s) return s;
  return check("value", desc.value, desc.value_dim);
}

// Workgroup scope; on CPU implementations, which lack it, subgroup scope.
Result<std::string_view> choose_scope(const Capabilities& capabilities, std::string_view operand) {
  const std::string_view scope = capabilities.is_cpu() ? "subgroup" : "workgroup";
  if (!capabilities.is_cpu()) {
    if (Result<void> s =
            need_feature(capabilities.matrix2_workgroup_scope, "cooperativeMatrixWorkgroupScope");
        !s)
      return s.error();
  }
  if (has_entry(capabilities, operand, scope)) return scope;
  return Error{
      ErrorCode::kUnsupported, VK_SUCCESS,
      message("the device lists no flexible matrices of ", operand, " x ", operand, " to f32 in a ", scope)};
}

// The binary, or the reason why there is none.
Result<std::string_view> shader_name(DataType operand, bool is_cpu) {
  const bool bfloat16 = operand == DataType::kBfloat16;
  if (!is_cpu) return std::string_view(bfloat16 ? "attention_matrix2_bfloat16" : "attention_matrix2");
  if (!bfloat16) return std::string_view("attention_matrix2_elements");
  return Error{ErrorCode::kUnsupported, VK_SUCCESS,
               "takes no bfloat16 on CPU implementations, where it is there to be tested"};
}

}  // namespace

Result<KernelConfig> configure_matrix2(const AttentionDesc& desc, const Capabilities& capabilities,
                                       Tiles tiles) {
  if (Result<void> status = check_matrix_types(desc, false); !status) return status.error();
  const DataType operand = desc.query.type;
  if (Result<void> status = check_features(capabilities, operand); !status) return status.error();
  const auto scope = choose_scope(capabilities, name(operand));
  if (!scope) return scope.error();
  const auto shader = shader_name(operand, capabilities.is_cpu());
  if (!shader) return shader.error();
  const bool tensors = !capabilities.is_cpu();
  if (tensors) {
    if (Result<void> status = check_layout(desc); !status) return status.error();
    if (desc.cache.mapping != KeyMapping::kContiguous) {
      return Error{ErrorCode::kUnsupported, VK_SUCCESS,
                   "tensor addressing needs keys one after the other; here they lie in a ring or in pages"};
    }
    if (desc.has_packed_keys() && !(has_vector_loads(desc.key, key_extents(desc, 1), 8) &&
                                    has_vector_loads(desc.value, key_extents(desc, 1), 8))) {
      return Error{ErrorCode::kUnsupported, VK_SUCCESS,
                   "tensor addressing of packed sequences needs rows of K and V at multiples of 16 bytes"};
    }
  }
  const auto tile = choose_tile(desc, capabilities, name(operand), *scope, tiles);
  if (!tile) return tile.error();
  KernelConfig config;
  config.tile = {*scope == "workgroup" ? tile->invocations : 0, 0, 0, tile->rows, tile->keys, 0};
  config.uses_matrix_units = true;
  config.shader = feature_form(desc, *shader);
  config.block_mask_keys = tile->keys;
  config.workgroup_size = tile->invocations;
  config.rows_per_workgroup = tile->rows;
  config.key_step = tile->keys;
  config.whole_heads = tensors;  // a tensor layout begins at key 0
  config.probability_type = operand;
  if (*scope == "subgroup") {
    config.required_subgroup_size = required_subgroup_size(capabilities, tile->invocations);
  }
  // Rows are rows of memory where no other query head shares the KV head. A window may start at any of them,
  // so each must be aligned.
  const bool query_tensor =
      tensors && desc.query_heads == desc.kv_heads &&
      has_vector_loads(desc.query, query_extents(desc, 1), 8) &&
      is_tensor_addressable(desc.query, desc.batch, desc.query_heads, desc.query_length, desc.head_dim);
  config.constants.push_back({VKATTN_SPEC_MATRIX2_ROWS, tile->rows});
  config.constants.push_back({VKATTN_SPEC_MATRIX2_KEYS, tile->keys});
  config.constants.push_back({VKATTN_SPEC_MATRIX2_HEAD_BLOCK, tile->head_block});
  config.constants.push_back({VKATTN_SPEC_MATRIX2_VALUE_BLOCK, tile->value_block});
  config.constants.push_back({VKATTN_SPEC_MATRIX2_ROW_COLUMNS, tile->row_columns()});
  const auto dense = [&](const TensorDesc& tensor) {
    return has_vector_loads(tensor, key_extents(desc, 1), 8) ? 1U : 0U;
  };
  config.constants.push_back({VKATTN_SPEC_MATRIX2_QUERY_TENSOR, query_tensor ? 1U : 0U});
  config.constants.push_back({VKATTN_SPEC_MATRIX2_KEY_LOADS8, dense(desc.key)});
  config.constants.push_back({VKATTN_SPEC_MATRIX2_VALUE_LOADS8, dense(desc.value)});
  config.summary =
      message(tile->rows, " rows x ", tile->keys, " keys a tile, matrices of ", *scope, " scope over ",
              tile->invocations, " invocations, heads in blocks of ", tile->head_block, " and ",
              tile->value_block, " dims, loaded by ", tensors ? "tensor addressing" : "element");
  return config;
}

}  // namespace vkattn::detail
