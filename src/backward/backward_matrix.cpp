// Host half of the backward pass on matrix units (shaders/backward/matrix_rows.comp, matrix_keys.comp): the
// matrix shape, and blocks that fit the device.
#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "attention/tensor_rules.hpp"
#include "backward/backward_kernel.hpp"
#include "backward/gradient_table.hpp"
#include "common/message.hpp"
#include "kernels/block_limits.hpp"
#include "kernels/matrix_common.hpp"
#include "kernels/tile_table.hpp"
#include "kernels/vendors.hpp"
#include "shared/attention_constants.h"
#include "shared/backward_constants.h"
#include "shared/shared_memory.h"

namespace vkattn::detail {

namespace {

// A pass: the rows or keys that a workgroup owns and visits, and its grid of subgroups.
struct MatrixBlock {
  std::uint32_t owned = 0, visited = 0, grid_rows = 0, grid_columns = 0;
};

// Blocks for devices of an architecture (kLavapipe for all CPU implementations), and for heads with at most
// so many dims.
struct MatrixBlockEntry {
  Architecture architecture;
  std::uint32_t most_dims;
  MatrixBlock block;
};

constexpr std::uint32_t kAnyDims = ~0U;

// Largest first. Intel's registers hold no more (docs/compilers.txt), so more subgroups share a block there.
constexpr std::array kMatrixRowBlocks{
    MatrixBlockEntry{Architecture::kIntelGen12, 64, {32, 32, 4, 4}},
    MatrixBlockEntry{Architecture::kIntelGen12, 128, {8, 64, 1, 8}},
    MatrixBlockEntry{Architecture::kIntelXe2, 64, {32, 32, 4, 2}},
    MatrixBlockEntry{Architecture::kIntelXe2, 128, {16, 32, 2, 2}},
    MatrixBlockEntry{Architecture::kAny, kAnyDims, {32, 32, 2, 2}},
    MatrixBlockEntry{Architecture::kAny, kAnyDims, {16, 32, 1, 2}},
    MatrixBlockEntry{Architecture::kLavapipe, kAnyDims, {16, 16, 2, 2}},
    MatrixBlockEntry{Architecture::kLavapipe, kAnyDims, {8, 16, 1, 2}},
    MatrixBlockEntry{Architecture::kLavapipe, kAnyDims, {8, 8, 1, 1}},
};
constexpr std::array kMatrixKeyBlocks{
    MatrixBlockEntry{Architecture::kIntelGen12, 64, {32, 32, 4, 4}},
    MatrixBlockEntry{Architecture::kIntelGen12, 128, {8, 64, 1, 8}},
    MatrixBlockEntry{Architecture::kIntelXe2, 128, {32, 32, 4, 2}},
    MatrixBlockEntry{Architecture::kAny, kAnyDims, {64, 32, 2, 2}},
    MatrixBlockEntry{Architecture::kAny, kAnyDims, {32, 32, 2, 2}},
    MatrixBlockEntry{Architecture::kAny, kAnyDims, {16, 32, 1, 2}},
    MatrixBlockEntry{Architecture::kLavapipe, kAnyDims, {16, 16, 2, 2}},
    MatrixBlockEntry{Architecture::kLavapipe, kAnyDims, {8, 16, 1, 2}},
    MatrixBlockEntry{Architecture::kLavapipe, kAnyDims, {8, 8, 1, 1}},
};

// The architecture whose blocks a device takes.
Architecture architecture_of_blocks(const Capabilities& capabilities) {
  if (capabilities.is_cpu()) return Architecture::kLavapipe;
  const Architecture own = architecture(capabilities);
  const bool is_intel = own == Architecture::kIntelGen12 || own == Architecture::kIntelXe2;
  return is_intel ? own : Architecture::kAny;
}

// A block on a device; the names are those of the shaders.
struct MatrixPass {
  MatrixBlock block;
  MatrixShape shape;
  std::uint32_t subgroup_size = 0;
  std::uint32_t head_dim = 0, value_dim = 0;
  bool visited_transposed = false;  // of the keys' pass

  [[nodiscard]] std::uint32_t subgroups() const { return block.grid_rows * block.grid_columns; }
  [[nodiscard]] std::uint32_t threads() const { return subgroups() * subgroup_size; }
  [[nodiscard]] std::uint32_t padded(std::uint32_t dims) const {
    return VKATTN_BACKWARD_PADDED(dims, shape.k, shape.n, block.grid_columns);
  }
  // The factors of both passes.
  [[nodiscard]] std::uint32_t factor_stages4() const {
    return VKATTN_MATRIX_KEY_STAGE4(block.owned, block.visited) + VKATTN_MATRIX_FACTOR_STAGE4(block.owned);
  }
  [[nodiscard]] std::uint32_t shared_bytes_of_rows() const {
    const std::uint32_t rows = block.owned + block.visited;
    return 16 * (factor_stages4() + VKATTN_MATRIX_KEY_STAGE4(rows, padded(head_dim)) +
                 VKATTN_MATRIX_KEY_STAGE4(rows, padded(value_dim)) +
                 2 * VKATTN_MATRIX_SCORE_STAGE4(block.owned, block.visited));
  }
  [[nodiscard]] std::uint32_t shared_bytes_of_keys() const {
    return 16 * (factor_stages4() +
                 VKATTN_BACKWARD_VISITED_STAGE4(block.visited, padded(std::max(head_dim, value_dim)),
                                                visited_transposed) +
                 VKATTN_BACKWARD_SUM_STAGE4(subgroups(), shape.m, shape.n) +
                 VKATTN_BACKWARD_PART_STAGE4(threads()));
  }
  // Conditions of the shaders' division of a block among subgroups and threads.
  [[nodiscard]] bool is_possible(bool of_rows) const {
    const std::uint32_t owners = threads() / block.owned;  // threads of a row of factors
    return threads() % block.owned == 0 && block.owned % (block.grid_rows * shape.m) == 0 &&
           block.visited % shape.k == 0 && block.visited % (4 * owners) == 0 &&
           (!of_rows || (owners <= subgroup_size && block.visited % (block.grid_columns * shape.n) == 0));
  }
};

// The first of the blocks that fits the device, or the reason.
Result<MatrixPass> choose_block(std::span<const MatrixBlockEntry> entries, MatrixPass pass, bool of_rows,
                                const Capabilities& capabilities) {
  const Architecture own = architecture_of_blocks(capabilities);
  const std::uint32_t dims = std::max(pass.head_dim, pass.value_dim);
  std::uint32_t most_dims = 0;
  Result<void> fits;
  for (const MatrixBlockEntry& entry : entries) {
    if (entry.architecture != own) continue;
    pass.block = entry.block;
    if (!pass.is_possible(of_rows)) continue;
    most_dims = std::max(most_dims, entry.most_dims);
    if (dims > entry.most_dims) continue;
    const std::uint32_t bytes = of_rows ? pass.shared_bytes_of_rows() : pass.shared_bytes_of_keys();
    fits = check_limits({bytes, pass.threads(), pass.subgroups()}, capabilities);
    if (fits) return pass;
  }
  if (most_dims == 0) {
    const MatrixShape& shape = pass.shape;
    return unsupported("has no block for matrices of ", shape.m, "x", shape.n, "x", shape.k,
                       " in subgroups of ", pass.subgroup_size);
  }
  if (dims > most_dims) {
    return unsupported("takes heads of up to ", most_dims, " dims on this device; here they have ", dims);
  }
  return no_block_fits(fits);
}

Result<void> check_support(const BackwardDesc& desc, const Capabilities& capabilities) {
  if (Result<void> s = check_one_matrix_type(desc); !s) return s;
  return check_subgroup_matrix_features(capabilities, desc.attention.query.type);
}

void set_pass(const BackwardDesc& desc, const Capabilities& capabilities, const MatrixPass& pass,
              std::string_view shader, PassConfig& config) {
  const AttentionDesc& attention = desc.attention;
  const bool is_bfloat16 = attention.query.type == DataType::kBfloat16;
  config.shader = message(shader, is_bfloat16 ? "_bfloat16" : "");
  config.workgroup_size = pass.threads();
  config.required_subgroup_size = required_subgroup_size(capabilities, pass.subgroup_size);
  const auto add = [&](std::uint32_t id, auto value) {
    config.constants.push_back({id, static_cast<std::uint32_t>(value)});
  };
  add(VKATTN_SPEC_MATRIX_M, pass.shape.m);
  add(VKATTN_SPEC_MATRIX_N, pass.shape.n);
  add(VKATTN_SPEC_MATRIX_K, pass.shape.k);
  add(VKATTN_SPEC_MATRIX_SUBGROUP_SIZE, pass.subgroup_size);
  add(VKATTN_SPEC_STEP_OWNED, pass.block.owned);
  add(VKATTN_SPEC_STEP_VISITED, pass.block.visited);
  add(VKATTN_SPEC_GRID_COLUMNS, pass.block.grid_columns);
  add(VKATTN_SPEC_VISITED_TRANSPOSED, pass.visited_transposed);
  add_loads8(desc, config.constants);
}

std::string matrix_summary(const MatrixPass& pass, std::string_view owned, std::string_view visited,
                           std::uint32_t shared_bytes) {
  return message(pass.block.owned, " ", owned, " x ", pass.block.visited, " ", visited, ", ",
                 pass.subgroups(), " subgroups, ", shared_bytes, " bytes of shared memory");
}

}  // namespace

void add_loads8(const BackwardDesc& desc, SpecializationValues& constants) {
  add_loads8(desc.attention, constants);
  const bool loads8 = has_vector_loads(*desc.grad_output, query_extents(desc.attention, 1), 8);
  constants.push_back({VKATTN_SPEC_GRAD_OUTPUT_LOADS8, loads8 ? 1U : 0U});
}

Result<void> check_one_matrix_type(const BackwardDesc& desc) {
  if (Result<void> s = check_matrix_types(desc.attention, QuantisedOperands::kNone); !s) return s;
  const DataType operand = desc.attention.query.type;
  if (desc.grad_output->type == operand) return {};
  return unsupported("takes a gradient of the output in the type of Q, ", name(operand), "; here it is ",
                     name(desc.grad_output->type));
}

Result<BackwardKernel> configure_matrix_backward(const BackwardDesc& desc, const Capabilities& capabilities) {
  if (Result<void> s = check_support(desc, capabilities); !s) return s.error();
  const DataType operand = desc.attention.query.type;
  const auto shape = best_matrix_shape(capabilities, name(operand));
  if (!shape) return shape.error();
  const auto lanes = matrix_subgroup_size(capabilities, shape->n);
  if (!lanes) return lanes.error();
  MatrixPass pass;
  pass.shape = *shape;
  pass.subgroup_size = *lanes;
  pass.head_dim = static_cast<std::uint32_t>(desc.attention.head_dim);
  pass.value_dim = static_cast<std::uint32_t>(desc.attention.value_dim);
  const auto rows = choose_block(kMatrixRowBlocks, pass, true, capabilities);
  if (!rows) return rows.error();
  // RDNA3 loads an operand's columns element by element; a transposed stage makes them neighbours. The rows'
  // pass reads its stage by columns too.
  pass.visited_transposed = capabilities.vendor_id == kVendorAmd;
  const auto keys = choose_block(kMatrixKeyBlocks, pass, false, capabilities);
  if (!keys) return keys.error();
  BackwardKernel kernel;
  set_pass(desc, capabilities, *rows, "backward_matrix_rows", kernel.rows);
  set_pass(desc, capabilities, *keys, "backward_matrix_keys", kernel.keys);
  kernel.row_tile = rows->block.owned;
  kernel.key_tile = keys->block.owned;
  kernel.gradients_per_workgroup = 1;
  kernel.pairs_apart = true;
  kernel.probability_type = operand;
  kernel.uses_matrix_units = true;
  kernel.summary = message("matrices of ", shape->m, "x", shape->n, "x", shape->k, ", subgroups of ", *lanes,
                           ": ", matrix_summary(*rows, "rows", "keys", rows->shared_bytes_of_rows()), "; ",
                           matrix_summary(*keys, "keys", "rows", keys->shared_bytes_of_keys()));
  return kernel;
}

}  // namespace vkattn::detail
