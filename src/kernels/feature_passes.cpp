// The passes before and after a kernel that features ask for: the block mask and the attention weights.
#include <algorithm>
#include <numeric>

#include "attention/features.hpp"
#include "kernels/kernel.hpp"
#include "shared/attention_constants.h"

namespace vkattn::detail {

namespace {

// How often, at most, the pass of the block mask reads the mask for one row of a block: each word, if only a
// mask hides keys (block_words() of attention_block_mask.comp); once, if the mask does not vary along the
// keys; else each key.
std::uint32_t looks_per_row(const AttentionDesc& desc, std::uint32_t keys) {
  const bool bits = desc.mask.type == MaskType::kBits;
  if (score_function_hides(desc) || desc.mask.type == MaskType::kNone) return keys;
  if (desc.mask.strides->dim == 0) return 1;
  if (desc.mask.strides->dim != 1) return keys;
  if (bits && 32 % keys == 0) return 1;
  if (bits && keys % 32 == 0) return keys / 32;
  const std::uint32_t word_keys = bits                                   ? 32
                                  : desc.mask.type == MaskType::kBytes   ? 4
                                  : desc.mask.type == MaskType::kFloat16 ? 2
                                                                         : 1;
  return (keys + word_keys - 2) / word_keys + 1;
}

// The most rows of a block that the pass looks at: all, or one for each query of theirs.
std::uint32_t looked_rows(const AttentionDesc& desc, std::uint32_t rows, bool by_queries) {
  if (!by_queries || desc.query_heads == 0 || desc.kv_heads == 0) return rows;
  const auto heads = static_cast<std::uint32_t>(desc.query_heads / desc.kv_heads);
  // Blocks begin at multiples of their rows, at most so many rows behind the first one of a query.
  const std::uint32_t behind = heads - std::gcd(heads, rows);
  return (behind + rows - 1) / heads + 1;
}

}  // namespace

PassConfig configure_block_mask(const AttentionDesc& desc, const Capabilities& capabilities,
                                const KernelConfig& kernel) {
  PassConfig pass;
  pass.name = "block_mask";
  pass.shader = "attention_block_mask_features";
  pass.unit = PassUnit::kBlocks;
  // CPU implementations run barriers slowly, so there each invocation takes a block of its own.
  const bool shared = !capabilities.is_cpu();
  const std::uint32_t size = shared ? 64 : 8;
  pass.units_per_workgroup = shared ? 1 : size;
  // A few reads and comparisons, or a function of the user's.
  constexpr double kLookFlops = 32;
  const bool by_queries = !score_function_hides(desc) && desc.mask.strides->head == 0;
  const std::int64_t looks = std::int64_t{looked_rows(desc, kernel.rows_per_workgroup, by_queries)} *
                             looks_per_row(desc, kernel.block_mask_keys);
  pass.workgroup_flops = kLookFlops * static_cast<double>(looks) * pass.units_per_workgroup;
  pass.workgroup_size = size;
  pass.constants.push_back({VKATTN_SPEC_BLOCK_ROWS, kernel.rows_per_workgroup});
  pass.constants.push_back({VKATTN_SPEC_BLOCK_KEYS, kernel.block_mask_keys});
  pass.constants.push_back({VKATTN_SPEC_BLOCK_MASK_SHARED, shared ? 1U : 0U});
  pass.constants.push_back({VKATTN_SPEC_BLOCK_MASK_BY_QUERIES, by_queries ? 1U : 0U});
  return pass;
}

PassConfig configure_weights(const AttentionDesc& desc, const Capabilities& capabilities) {
  PassConfig pass;
  pass.name = "weights";
  pass.shader = shader_for(desc, capabilities, "attention_weights", "attention_weights_words");
  pass.unit = PassUnit::kRows;
  pass.workgroup_flops = 2.0 * static_cast<double>(desc.kv_length) * static_cast<double>(desc.head_dim);
  const std::uint32_t size = capabilities.is_cpu() ? 8 : 64;
  pass.workgroup_size = size;
  pass.constants.push_back({VKATTN_SPEC_WEIGHTS_STAGE, static_cast<std::uint32_t>(desc.weights)});
  return pass;
}

}  // namespace vkattn::detail
