// What attention takes of a driver that ends loops early (Capabilities::max_loop_iterations).
#include <algorithm>

#include "attention/features.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/kernel.hpp"
#include "kernels/split.hpp"
#include "vulkan/loop_limit.hpp"

namespace vkattn::detail {

namespace {

// Of the passes below, what one invocation takes at the most, of all loops that the compiler may keep.

// lane, tile and decode, as if one part had all keys that a tile of rows may see.
std::int64_t kernel_iterations(const AttentionDesc& desc, const KernelConfig& config) {
  constexpr std::int64_t kLaneMaskedKeys = 16;  // of a step, where lane looks at each score
  constexpr std::int64_t kEdgeKeys = 4;         // where only the ends of what rows see are masked
  const TileSizes& tile = config.tile;
  const std::int64_t key_step = config.key_step;
  const std::int64_t keys = scores_hide(desc) ? std::min(key_step, kLaneMaskedKeys) : key_step;
  const std::int64_t edge_steps = (config.rows_per_workgroup + key_step) / kEdgeKeys + 1;
  const std::int64_t visible = most_visible_keys(desc, config.rows_per_workgroup);
  const std::int64_t steps = divide_up(visible, keys) + 1 + 2 * edge_steps;
  // lane goes over the dims by 4, decode not at all. tile stages 8 or more at a time, over which and whose
  // keys it goes, and reduces its rows over its columns.
  std::int64_t in_step = 8 + (config.loops_over_dims ? (desc.head_dim + desc.value_dim) / 4 : 0);
  if (tile.columns != 0) {
    in_step += (desc.head_dim + 2 * desc.value_dim) / 4 + key_step + 8 +
               std::int64_t{2} * std::max(tile.rows, 1U) * tile.columns;
  }
  // 10 rounds for each score of a thread. The rows of decode's block are those of several.
  const std::int64_t rows = config.loops_over_dims ? tile.rows : 4;
  const std::int64_t thread_keys =
      (divide_up(visible, key_step) + 1) * tile.keys + 2 * edge_steps * kEdgeKeys;
  const std::int64_t dropout = desc.dropout > 0 ? 11 * rows * thread_keys : 0;
  return steps * in_step + dropout + 2 * desc.value_dim + std::int64_t{4} * tile.rows * tile.columns + 4096;
}

std::int64_t block_mask_iterations(const KernelConfig& config) {
  return std::int64_t{config.rows_per_workgroup} * config.block_mask_keys;
}

std::int64_t weights_iterations(const AttentionDesc& desc) {
  constexpr std::int64_t kFewestThreads = 8;
  return (desc.kv_length / kFewestThreads + 1) * (desc.head_dim / 4 + 4) + 2;
}

// With as many parts as there are steps.
std::int64_t combine_iterations(const AttentionDesc& desc, const KernelConfig& config) {
  constexpr std::int64_t kFewestThreads = 8;
  const std::int64_t parts = desc.kv_length / config.key_step + 1;
  return (desc.value_dim / kFewestThreads + 1) * (parts / 8 + 3);
}

std::int64_t most_iterations(const AttentionDesc& desc, const KernelConfig& config) {
  std::int64_t most = kernel_iterations(desc, config);
  if (scores_hide(desc)) most = std::max(most, block_mask_iterations(config));
  if (desc.weights != WeightsStage::kNone) most = std::max(most, weights_iterations(desc));
  return std::max(most, combine_iterations(desc, config));
}

}  // namespace

Result<void> check_loop_limit(const AttentionDesc& desc, const Capabilities& capabilities,
                              const KernelConfig& config) {
  if (capabilities.max_loop_iterations == 0 || desc.is_empty()) return {};
  // What their loops take is not counted above.
  if (config.uses_matrix_units) return loops_may_end(capabilities, "kernels on matrix units may take more");
  return check_iterations(capabilities, most_iterations(desc, config));
}

}  // namespace vkattn::detail
