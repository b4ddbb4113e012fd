// Host half of the matrix2 form of the backward pass (shaders/backward/matrix2_rows.comp, matrix2_keys.comp):
// blocks that the device's flexible matrices allow.
#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "attention/tensor_rules.hpp"
#include "backward/backward_kernel.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/matrix_common.hpp"
#include "shared/backward_constants.h"

namespace vkattn::detail {

namespace {

// A pass: the rows or keys that a workgroup owns and visits. Threads are 0 if a workgroup is one subgroup.
struct PairBlock {
  std::uint32_t threads = 0, owned = 0, visited = 0;
};

// Blocks for heads of at most so many dims.
struct PairBlockEntry {
  bool on_cpu;
  std::int64_t most_dims;
  PairBlock rows, keys;
};

// Chosen on an H100. The block of lavapipe is small, as its compiler takes seconds for fetches by element.
constexpr std::array kPairBlocks{
    PairBlockEntry{false, 64, {128, 64, 32}, {128, 64, 64}},
    PairBlockEntry{false, 128, {128, 64, 32}, {128, 64, 32}},
    PairBlockEntry{false, 256, {256, 64, 32}, {256, 32, 32}},
    PairBlockEntry{true, 32, {0, 8, 8}, {0, 8, 8}},
};

// A block on a device.
struct PairPass {
  const FlexibleMatrix* matrices = nullptr;
  PairBlock block;
  std::uint32_t invocations = 0, required_subgroup_size = 0;
  std::uint32_t head_block = 0, value_block = 0;  // dims of a head, as matrices have them
};

std::uint32_t padded(std::int64_t dims, const FlexibleMatrix& matrices) {
  return round_up(static_cast<std::uint32_t>(dims), std::max(matrices.n_granularity, matrices.k_granularity));
}

// The block on the first of the device's entries that allows it.
std::optional<PairPass> find_pass(const AttentionDesc& desc, const Capabilities& capabilities,
                                  const PairBlock& block) {
  const std::string_view scope = block.threads == 0 ? "subgroup" : "workgroup";
  for (const FlexibleMatrix& entry : capabilities.flexible_matrices) {
    if (!is_usable_flexible(entry, name(desc.query.type), scope)) continue;
    PairPass pass{
        &entry, block, block.threads, 0, padded(desc.head_dim, entry), padded(desc.value_dim, entry)};
    if (block.threads == 0) {
      const auto lanes = matrix_subgroup_size(capabilities, entry.n_granularity);
      if (!lanes) continue;
      pass.invocations = *lanes;
      pass.required_subgroup_size = required_subgroup_size(capabilities, *lanes);
    } else if (entry.workgroup_invocations != block.threads ||
               block.threads > largest_matrix_workgroup(capabilities)) {
      continue;
    }
    const std::uint32_t visited_unit =
        std::max({entry.m_granularity, entry.n_granularity, entry.k_granularity});
    const std::uint32_t widest = std::max({pass.head_block, pass.value_block, block.owned, block.visited});
    const bool fits = block.owned % entry.m_granularity == 0 && block.visited % visited_unit == 0 &&
                      widest <= capabilities.max_flexible_matrix_dimension;
    if (fits) return pass;
  }
  return std::nullopt;
}

// Gradients of masks and slopes are sums over pairs, which this form does not keep.
Result<void> check_gradients(const BackwardDesc& desc) {
  if (!desc.has_grad_mask && !desc.has_grad_alibi_slopes) return {};
  return unsupported("keeps no gradients of scores, which the gradient of ",
                     desc.has_grad_mask ? "the mask" : "ALiBi's slopes", " is a sum of");
}

Result<void> check_types(const BackwardDesc& desc, bool is_cpu) {
  if (Result<void> s = check_one_matrix_type(desc); !s) return s;
  if (is_cpu && desc.attention.query.type == DataType::kBfloat16) {
    return unsupported("takes float16 alone on a CPU; here Q is bf16");
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
  const bool is_bfloat16 = desc.attention.query.type == DataType::kBfloat16;
  const bool is_fetched = pass.block.threads == 0;
  config.shader = message(shader, is_fetched ? "_fetched" : is_bfloat16 ? "_bfloat16" : "");
  config.workgroup_size = pass.invocations;
  config.required_subgroup_size = pass.required_subgroup_size;
  config.constants = {{VKATTN_SPEC_STEP_OWNED, pass.block.owned},
                      {VKATTN_SPEC_STEP_VISITED, pass.block.visited},
                      {VKATTN_SPEC_PAIR_HEAD_BLOCK, pass.head_block},
                      {VKATTN_SPEC_PAIR_VALUE_BLOCK, pass.value_block},
                      {VKATTN_SPEC_PAIR_OWNER_COLUMNS, pass.matrices->n_granularity}};
}

std::string summary_of(const PairPass& pass, std::string_view owned, std::string_view visited) {
  return message(pass.block.owned, " ", owned, " x ", pass.block.visited, " ", visited, " over ",
                 pass.invocations, " invocations");
}

BackwardKernel kernel_of(const BackwardDesc& desc, const PairPass& rows, const PairPass& keys) {
  BackwardKernel kernel;
  kernel.numbers.shader = "backward_row_numbers";
  kernel.numbers.workgroup_size = 64;
  set_pass(desc, rows, "backward_matrix2_rows", kernel.rows);
  set_pass(desc, keys, "backward_matrix2_keys", kernel.keys);
  kernel.row_tile = rows.block.owned;
  kernel.key_tile = keys.block.owned;
  kernel.keeps_pairs = false;
  kernel.may_keep_gradients = true;
  kernel.packs_heads = false;
  kernel.probability_type = desc.attention.query.type;
  kernel.uses_matrix_units = true;
  const bool is_fetched = rows.block.threads == 0;
  kernel.summary = message(is_fetched ? "matrices of subgroup scope, fetched by element: "
                                      : "matrices of workgroup scope, loaded by tensor addressing: ",
                           summary_of(rows, "rows", "keys"), "; ", summary_of(keys, "keys", "rows"));
  return kernel;
}

}  // namespace

Result<BackwardKernel> configure_matrix2_backward(const BackwardDesc& desc,
                                                  const Capabilities& capabilities) {
  const bool is_cpu = capabilities.is_cpu();
  if (Result<void> s = check_gradients(desc); !s) return s.error();
  if (Result<void> s = check_types(desc, is_cpu); !s) return s.error();
  if (Result<void> s = check_matrix2_features(capabilities, desc.attention.query.type); !s) return s.error();
  if (!is_cpu) {
    if (Result<void> s = check_workgroup_matrix_features(capabilities); !s) return s.error();
    if (Result<void> s = check_layout(desc); !s) return s.error();
  }
  const std::int64_t dims = std::max(desc.attention.head_dim, desc.attention.value_dim);
  std::int64_t most_dims = 0;
  for (const PairBlockEntry& entry : kPairBlocks) {
    if (entry.on_cpu != is_cpu) continue;
    most_dims = std::max(most_dims, entry.most_dims);
    if (dims > entry.most_dims) continue;
    const auto rows = find_pass(desc.attention, capabilities, entry.rows);
    const auto keys = find_pass(desc.attention, capabilities, entry.keys);
    if (rows && keys) return kernel_of(desc, *rows, *keys);
  }
  if (dims > most_dims) {
    return unsupported("takes heads of up to ", most_dims, " dims; here they have ", dims);
  }
  return unsupported("no block fits the device's flexible matrices of ", name(desc.attention.query.type),
                     " (at most ", capabilities.max_flexible_matrix_dimension, " rows or columns)");
}

}  // namespace vkattn::detail
