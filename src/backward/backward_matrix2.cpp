// Host half of the matrix2 form of the backward pass (shaders/backward/matrix2_rows.comp, matrix2_keys.comp):
// the scope of its matrices, and blocks that the device's flexible matrices allow.
#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "attention/tensor_rules.hpp"
#include "backward/backward_kernel.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/block_limits.hpp"
#include "kernels/matrix_common.hpp"
#include "shared/attention_constants.h"
#include "shared/backward_constants.h"
#include "shared/shared_memory.h"

namespace vkattn::detail {

namespace {

// 32-bit registers of an invocation: what NVIDIA's GPUs have, and what matrices of the staged form take of
// them before the owned rows of V or dO go to shared memory.
constexpr std::uint32_t kRegisters = 255;
constexpr std::uint32_t kMaxHeldRegisters = 224;

// A pass: the rows or keys that a matrix owns, and that it visits. A workgroup is one matrix over `threads`
// invocations; or, staged, `subgroups` of them, each of which owns the least number of rows that the device's
// matrices have.
struct PairBlock {
  std::uint32_t subgroups = 0, threads = 0, owned = 0, visited = 0;
};

// Blocks for heads of at most so many dims.
struct PairBlockEntry {
  bool on_cpu;
  std::int64_t most_dims;
  PairBlock rows, keys;
};

// Chosen on an H100. The block of lavapipe is small, as its compiler takes seconds for functions of an
// element.
constexpr std::array kPairBlocks{
    PairBlockEntry{false, 64, {0, 128, 64, 32}, {0, 128, 64, 64}},
    PairBlockEntry{false, 128, {0, 128, 64, 32}, {0, 128, 64, 32}},
    PairBlockEntry{false, 256, {0, 256, 64, 32}, {0, 256, 32, 32}},
    PairBlockEntry{true, 64, {2, 0, 0, 8}, {2, 0, 0, 8}},
};

// Staged blocks that tuning tries on GPUs: rows that the keys' pass visits, and keys that the rows' pass
// visits.
constexpr TileSizes staged_tile(std::uint32_t rows, std::uint32_t keys) {
  return {.subgroups = 4, .rows = rows, .keys = keys};
}
constexpr std::array kStagedTiles{staged_tile(32, 32), staged_tile(32, 64), staged_tile(16, 32),
                                  staged_tile(16, 64)};

// A block on a device.
struct PairPass {
  const FlexibleMatrix* matrices = nullptr;
  PairBlock block;
  bool owns_keys = false;
  std::uint32_t invocations = 0, required_subgroup_size = 0;
  std::uint32_t head_block = 0, value_block = 0;  // dims of a matrix
  std::uint32_t head_dims = 0, value_dims = 0;    // whole blocks
  bool values_staged = false;                     // of the owned rows

  [[nodiscard]] bool is_staged() const { return block.subgroups != 0; }
  // The narrowest matrix that holds a number for each owner.
  [[nodiscard]] std::uint32_t owner_columns() const { return matrices->n_granularity; }
  // Rows or keys of a workgroup.
  [[nodiscard]] std::uint32_t owned() const { return block.owned * std::max(block.subgroups, 1U); }
  // Registers of an invocation of the staged form: sums, owned operands, pairs and units; an operand on its
  // way from the stage; rows on their way to it. A register holds two 16-bit elements.
  [[nodiscard]] std::uint32_t held_registers() const {
    const std::uint32_t sums = owns_keys ? head_dims + value_dims : head_dims;
    const std::uint32_t operands = head_dims + (values_staged ? value_block : value_dims);
    const std::uint32_t of_owned = sums + operands / 2 + 3 * block.visited + owner_columns();
    const std::uint32_t visited = block.visited * std::max(head_block, value_block) / 2;
    const std::uint32_t fetches = divide_up(block.visited * head_dims / 8, invocations) +
                                  divide_up(block.visited * value_dims / 8, invocations);
    return (block.owned * of_owned + visited) / (invocations / block.subgroups) + 4 * fetches;
  }
  [[nodiscard]] std::uint32_t shared_bytes() const {
    if (!is_staged()) return 0;
    return 16 * (VKATTN_PAIR_VISITED_STAGE4(block.visited, head_dims, value_dims) +
                 VKATTN_PAIR_OWNED_STAGE4(owned(), value_dims, values_staged));
  }
};

// Divides dims into blocks: one matrix of all of them, or staged several.
void set_dims(PairPass& pass, const AttentionDesc& desc) {
  const FlexibleMatrix& entry = *pass.matrices;
  const std::uint32_t unit = std::max(entry.n_granularity, entry.k_granularity);
  const auto block_of = [&](std::int64_t dims) {
    const std::uint32_t whole = round_up(static_cast<std::uint32_t>(dims), unit);
    return pass.is_staged() ? std::min(whole, std::max(kStagedBlockDims, unit)) : whole;
  };
  pass.head_block = block_of(desc.head_dim);
  pass.value_block = block_of(desc.value_dim);
  pass.head_dims = round_up(static_cast<std::uint32_t>(desc.head_dim), pass.head_block);
  pass.value_dims = round_up(static_cast<std::uint32_t>(desc.value_dim), pass.value_block);
}

// Makes the pass on the device's entry: its invocations and owned rows. False if a workgroup cannot be so.
bool set_scope(PairPass& pass, const Capabilities& capabilities) {
  const FlexibleMatrix& entry = *pass.matrices;
  if (!pass.is_staged()) {
    pass.invocations = pass.block.threads;
    return entry.workgroup_invocations == pass.invocations &&
           pass.invocations <= largest_matrix_workgroup(capabilities);
  }
  const auto lanes = matrix_subgroup_size(capabilities, entry.n_granularity);
  if (!lanes || std::max(entry.n_granularity, entry.k_granularity) % 8 != 0) return false;
  pass.block.owned = entry.m_granularity;
  pass.invocations = pass.block.subgroups * *lanes;
  pass.required_subgroup_size = required_subgroup_size(capabilities, *lanes);
  return kChunkStep % pass.owned() == 0;  // a chunk has whole blocks
}

// The block on the first of the device's entries that allows it, or the reason against.
Result<PairPass> find_pass(const AttentionDesc& desc, const Capabilities& capabilities,
                           const PairBlock& block, bool owns_keys) {
  const std::string_view scope = block.subgroups != 0 ? "subgroup" : "workgroup";
  Result<void> limits;
  for (const FlexibleMatrix& entry : capabilities.flexible_matrices) {
    if (!is_usable_flexible(entry, name(desc.query.type), scope)) continue;
    PairPass pass{.matrices = &entry, .block = block, .owns_keys = owns_keys};
    if (!set_scope(pass, capabilities)) continue;
    set_dims(pass, desc);
    const std::uint32_t visited_unit =
        std::max({entry.m_granularity, entry.n_granularity, entry.k_granularity});
    const std::uint32_t widest =
        std::max({pass.head_block, pass.value_block, pass.block.owned, block.visited});
    const bool fits = pass.block.owned % entry.m_granularity == 0 && block.visited != 0 &&
                      block.visited % visited_unit == 0 && kChunkStep % block.visited == 0 &&
                      widest <= capabilities.max_flexible_matrix_dimension;
    if (!fits) continue;
    if (!pass.is_staged()) return pass;
    pass.values_staged = pass.held_registers() > kMaxHeldRegisters;
    if (!capabilities.is_cpu() && pass.held_registers() > kRegisters) {
      return unsupported("holds ", pass.held_registers(), " registers of an invocation with ", block.visited,
                         owns_keys ? " rows" : " keys", " a step; there are ", kRegisters);
    }
    limits = check_limits({pass.shared_bytes(), pass.invocations, block.subgroups}, capabilities);
    if (limits) return pass;
  }
  if (!limits) return no_block_fits(limits);
  if (block.subgroups != 0)
    return unsupported("stages no ", block.visited, owns_keys ? " rows" : " keys", " a step for ",
                       block.subgroups, " subgroups with the device's flexible matrices of ",
                       name(desc.query.type), ": rows and keys a step, and subgroups times the rows of a ",
                       "matrix, must be multiples of their granularities that divide ", kChunkStep);
  return unsupported("no block fits the device's flexible matrices of ", name(desc.query.type), " (at most ",
                     capabilities.max_flexible_matrix_dimension, " rows or columns)");
}

// Gradients of masks and slopes are sums over pairs, which this form does not keep.
Result<void> check_gradients(const BackwardDesc& desc) {
  if (!desc.has_grad_mask && !desc.has_grad_alibi_slopes) return {};
  return unsupported("keeps no gradients of scores, which the gradient of ",
                     desc.has_grad_mask ? "the mask" : "ALiBi's slopes", " is a sum of");
}

Result<void> check_types(const BackwardDesc& desc, bool is_staged) {
  if (Result<void> s = check_one_matrix_type(desc); !s) return s;
  if (is_staged && desc.attention.query.type == DataType::kBfloat16) {
    return unsupported("takes float16 alone in its staged form; here Q is bf16");
  }
  return {};
}

// Tensor addressing reads rows of whole quads that do not overlap.
Result<void> check_layout(const BackwardDesc& desc) {
  const AttentionDesc& attention = desc.attention;
  struct Input {
    std::string_view name;
    const TensorDesc& tensor;
    TensorExtents extents;
    std::int64_t dims;
  };
  const Input inputs[] = {{"Q", attention.query, query_extents(attention, 1), attention.head_dim},
                          {"K", attention.key, key_extents(attention, 1), attention.head_dim},
                          {"V", attention.value, key_extents(attention, 1), attention.value_dim},
                          {"dO", *desc.grad_output, query_extents(attention, 1), attention.value_dim}};
  for (const Input& input : inputs) {
    const bool overlaps = input.extents.rows > 1 && input.tensor.strides->row < input.dims;
    if (has_vector_loads(input.tensor, input.extents, 8) && !overlaps) continue;
    return unsupported("tensor addressing needs rows of ", input.name,
                       " that are dense, start at multiples of 16 bytes and are at least ", input.dims,
                       " elements apart; its strides are ", input.tensor.strides->batch, ", ",
                       input.tensor.strides->head, ", ", input.tensor.strides->row, ", ",
                       input.tensor.strides->dim, " and alignment_bytes is ", input.tensor.alignment_bytes);
  }
  return {};
}

void set_pass(const BackwardDesc& desc, const PairPass& pass, std::string_view shader, PassConfig& config) {
  const AttentionDesc& attention = desc.attention;
  const bool is_bfloat16 = attention.query.type == DataType::kBfloat16;
  config.shader = message(shader, pass.is_staged() ? "_staged" : is_bfloat16 ? "_bfloat16" : "");
  config.workgroup_size = pass.invocations;
  config.required_subgroup_size = pass.required_subgroup_size;
  config.constants = {{VKATTN_SPEC_STEP_OWNED, pass.block.owned},
                      {VKATTN_SPEC_STEP_VISITED, pass.block.visited},
                      {VKATTN_SPEC_PAIR_HEAD_BLOCK, pass.head_block},
                      {VKATTN_SPEC_PAIR_VALUE_BLOCK, pass.value_block},
                      {VKATTN_SPEC_PAIR_OWNER_COLUMNS, pass.owner_columns()}};
  if (!pass.is_staged()) return;
  const auto add = [&](std::uint32_t id, auto value) {
    config.constants.push_back({id, static_cast<std::uint32_t>(value)});
  };
  add(VKATTN_SPEC_MATRIX2_SUBGROUPS, pass.block.subgroups);
  add(VKATTN_SPEC_PAIR_VALUES_STAGED, pass.values_staged);
  add_loads8(desc, config.constants);
}

std::string summary_of(const PairPass& pass, std::string_view owned, std::string_view visited) {
  const std::string block =
      message(pass.owned(), " ", owned, " x ", pass.block.visited, " ", visited, " over ");
  if (!pass.is_staged()) return message(block, pass.invocations, " invocations");
  return message(block, pass.block.subgroups, " subgroups of ", pass.invocations / pass.block.subgroups, ", ",
                 pass.values_staged ? message(pass.owns_keys ? "V" : "dO", " in shared memory, ") : "",
                 pass.shared_bytes(), " bytes of shared memory");
}

BackwardKernel kernel_of(const BackwardDesc& desc, const PairPass& rows, const PairPass& keys) {
  BackwardKernel kernel;
  kernel.numbers.shader = "backward_row_numbers";
  kernel.numbers.workgroup_size = 64;
  set_pass(desc, rows, "backward_matrix2_rows", kernel.rows);
  set_pass(desc, keys, "backward_matrix2_keys", kernel.keys);
  kernel.row_tile = rows.owned();
  kernel.key_tile = keys.owned();
  if (rows.is_staged())
    kernel.tile = {.subgroups = rows.block.subgroups, .rows = keys.block.visited, .keys = rows.block.visited};
  kernel.keeps_pairs = false;
  kernel.may_keep_gradients = true;
  kernel.packs_heads = false;
  kernel.probability_type = desc.attention.query.type;
  kernel.uses_matrix_units = true;
  kernel.summary = message(rows.is_staged() ? "matrices of subgroup scope, visited rows staged once: "
                                            : "matrices of workgroup scope, loaded by tensor addressing: ",
                           summary_of(rows, "rows", "keys"), "; ", summary_of(keys, "keys", "rows"));
  return kernel;
}

Result<BackwardKernel> kernel_of(const BackwardDesc& desc, const Capabilities& capabilities,
                                 const PairBlock& of_rows, const PairBlock& of_keys) {
  const auto rows = find_pass(desc.attention, capabilities, of_rows, false);
  if (!rows) return rows.error();
  const auto keys = find_pass(desc.attention, capabilities, of_keys, true);
  if (!keys) return keys.error();
  return kernel_of(desc, *rows, *keys);
}

// The blocks that were asked for.
Result<BackwardKernel> sized_kernel(const BackwardDesc& desc, const Capabilities& capabilities,
                                    const TileSizes& tile) {
  const TileSizes staged{.subgroups = tile.subgroups, .rows = tile.rows, .keys = tile.keys};
  if (tile.subgroups == 0 || tile != staged) {
    return unsupported("takes block sizes of subgroups, rows and keys for its gradients; here they are ",
                       to_string(tile));
  }
  // Before anything is multiplied by them.
  if (tile.subgroups > kChunkStep || tile.rows > kChunkStep || tile.keys > kChunkStep) {
    return unsupported("takes up to ", kChunkStep,
                       " subgroups, rows and keys for its gradients; here they are ", to_string(tile));
  }
  return kernel_of(desc, capabilities, {tile.subgroups, 0, 0, tile.keys}, {tile.subgroups, 0, 0, tile.rows});
}

}  // namespace

std::span<const TileSizes> staged_backward_tiles() {
  return kStagedTiles;
}

Result<BackwardKernel> configure_matrix2_backward(const BackwardDesc& desc, const Capabilities& capabilities,
                                                  const TileSizes* tile) {
  const bool is_cpu = capabilities.is_cpu();
  const bool is_staged = is_cpu || tile != nullptr;
  if (Result<void> s = check_gradients(desc); !s) return s.error();
  if (Result<void> s = check_types(desc, is_staged); !s) return s.error();
  if (Result<void> s = check_matrix2_features(capabilities, desc.attention.query.type); !s) return s.error();
  if (is_staged) {
    const Result<void> votes = need_feature(capabilities.subgroup_vote, "subgroup votes in compute shaders");
    if (!votes) return votes.error();
  } else {
    if (Result<void> s = check_workgroup_matrix_features(capabilities); !s) return s.error();
    if (Result<void> s = check_layout(desc); !s) return s.error();
  }
  const std::int64_t dims = std::max(desc.attention.head_dim, desc.attention.value_dim);
  std::int64_t most_dims = 0;
  for (const PairBlockEntry& entry : kPairBlocks) {
    if (entry.on_cpu == is_cpu) most_dims = std::max(most_dims, entry.most_dims);
  }
  if (dims > most_dims) {
    return unsupported("takes heads of up to ", most_dims, " dims; here they have ", dims);
  }
  if (tile != nullptr) return sized_kernel(desc, capabilities, *tile);
  Result<BackwardKernel> kernel = unsupported("has no block");
  for (const PairBlockEntry& entry : kPairBlocks) {
    if (entry.on_cpu != is_cpu || dims > entry.most_dims || kernel) continue;
    kernel = kernel_of(desc, capabilities, entry.rows, entry.keys);
  }
  return kernel;
}

}  // namespace vkattn::detail
