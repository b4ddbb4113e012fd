// Loop iterations of attention, for drivers that end loops early (Capabilities::max_loop_iterations).
#include <algorithm>

#include "attention/features.hpp"
#include "attention/tensor_table.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/kernel.hpp"
#include "kernels/split.hpp"
#include "vulkan/loop_limit.hpp"

namespace vkattn::detail {

namespace {

// The most iterations of one invocation of the passes below, over all loops that the compiler may keep.

// lane, lane_decode, tile and decode: a part in which a tile of rows may see so many keys.
std::int64_t kernel_iterations(const AttentionDesc& desc, const KernelConfig& config, std::int64_t visible) {
  constexpr std::int64_t kLaneMaskedKeys = 16;  // of a step, where lane looks at each score
  constexpr std::int64_t kEdgeKeys = 4;         // where only the ends of what rows see are masked
  const TileSizes& tile = config.tile;
  const std::int64_t key_step = config.key_step;
  const std::int64_t keys = scores_hide(desc) ? std::min(key_step, kLaneMaskedKeys) : key_step;
  const std::int64_t edge_steps = (config.rows_per_workgroup + key_step) / kEdgeKeys + 1;
  const std::int64_t steps = divide_up(visible, keys) + 1 + 2 * edge_steps;
  // lane goes over the dims by 4, decode not at all. tile stages 8 or more at a time, over which and whose
  // keys it goes, and reduces its rows over its columns.
  std::int64_t in_step =
      8 + config.step_iterations + (config.loops_over_dims ? (desc.head_dim + desc.value_dim) / 4 : 0);
  if (tile.columns != 0) {
    in_step += (desc.head_dim + 2 * desc.value_dim) / 4 + key_step + 8 +
               std::int64_t{2} * std::max(tile.rows, 1U) * tile.columns;
  }
  // 10 rounds for each score of a thread. The rows of decode's block are those of several.
  const std::int64_t rows = config.loops_over_dims ? tile.rows : 4;
  const std::int64_t thread_keys =
      (divide_up(visible, key_step) + 1) * tile.keys + 2 * edge_steps * kEdgeKeys;
  const std::int64_t dropout = desc.dropout > 0 ? 11 * rows * thread_keys : 0;
  // Of the parts, in the last workgroup of a tile, whose partial results have 2^16 elements at most.
  constexpr std::int64_t kCombining = 1024;
  return steps * in_step + dropout + (config.most_partial_rows != 0 ? kCombining : 0) + 2 * desc.value_dim +
         std::int64_t{4} * tile.rows * tile.columns + 4096;
}

std::int64_t block_mask_iterations(const KernelConfig& config) {
  return std::int64_t{config.rows_per_workgroup} * config.block_mask_keys;
}

std::int64_t weights_iterations(const AttentionDesc& desc) {
  constexpr std::int64_t kFewestThreads = 8;
  return (desc.kv_length / kFewestThreads + 1) * (desc.head_dim / 4 + 4) + 2;
}

std::int64_t combine_iterations(const AttentionDesc& desc, std::int64_t parts) {
  constexpr std::int64_t kFewestThreads = 8;
  return (desc.value_dim / kFewestThreads + 1) * (parts / 8 + 3);
}

// All passes but the kernel. The keys are cut into this number of parts, or as the rule cuts them.
std::int64_t other_iterations(const AttentionDesc& desc, const Capabilities& capabilities,
                              const KernelConfig& config, std::int64_t parts) {
  std::int64_t most = combine_iterations(
      desc, std::max({parts, kMostPartsOfRule, most_kv_parts(desc, capabilities, config)}));
  if (scores_hide(desc)) most = std::max(most, block_mask_iterations(config));
  if (desc.weights != WeightsStage::kNone) most = std::max(most, weights_iterations(desc));
  return most;
}

// Keys of a part, if so many parts share the keys that a tile of rows may see.
std::int64_t keys_of_part(const AttentionDesc& desc, const KernelConfig& config, std::int64_t parts) {
  const std::int64_t visible = most_visible_keys(desc, config.rows_per_workgroup);
  if (parts <= 1 || visible == 0) return visible;
  return std::min(visible, split_span(desc.kv_length, visible, parts, config.key_step).keys);
}

}  // namespace

std::int64_t most_keys_of_part(const AttentionDesc& desc, const Capabilities& capabilities,
                               const KernelConfig& config) {
  const std::int64_t step = config.key_step;
  const auto steps_of = [&](std::int64_t keys) { return divide_up(std::max<std::int64_t>(keys, 1), step); };
  const auto is_possible = [&](std::int64_t keys) {
    return kernel_iterations(desc, config, keys) < capabilities.max_loop_iterations;
  };
  const std::int64_t visible = most_visible_keys(desc, config.rows_per_workgroup);
  if (capabilities.max_loop_iterations == 0 || is_possible(visible)) return steps_of(desc.kv_length) * step;
  std::int64_t possible = 1, impossible = steps_of(visible);
  while (possible + 1 < impossible) {
    const std::int64_t steps = possible + (impossible - possible) / 2;
    (is_possible(steps * step) ? possible : impossible) = steps;
  }
  return possible * step;
}

Result<void> check_part_keys(const AttentionDesc& desc, const Capabilities& capabilities,
                             const KernelConfig& config, const PlanOptions& options, std::int64_t keys) {
  const std::int64_t kv_splits = options.kv_splits;
  if (capabilities.max_loop_iterations == 0) return {};
  const std::int64_t visible = most_visible_keys(desc, config.rows_per_workgroup);
  const std::int64_t most = kernel_iterations(desc, config, std::min(keys, visible));
  if (most < capabilities.max_loop_iterations) return {};
  const std::int64_t possible = most_keys_of_part(desc, capabilities, config);
  const bool is_any_possible = kernel_iterations(desc, config, possible) < capabilities.max_loop_iterations;
  if (kv_splits == 0 || !is_any_possible) return check_iterations(capabilities, most);
  return loops_may_end(capabilities,
                       message("a part of the keys may take ", most, " where kv_splits is ", kv_splits,
                               ": ask for at least ", divide_up(visible, possible), ", or for 0"));
}

bool asks_for_one_part(const PlanOptions& options) {
  return options.kv_splits == 1;
}

double tiles_bytes(const AttentionDesc& desc, const KernelConfig& config, double heads, double parts) {
  const auto tiles =
      static_cast<double>(divide_up(packed_rows(desc), std::int64_t{config.rows_per_workgroup}));
  const auto steps = static_cast<double>(divide_up(desc.kv_length, std::int64_t{config.key_step}));
  return heads * tiles * std::min(parts, steps) * config.tile_workspace_bytes;
}

bool fit_half_of_a_buffer(double bytes, const Capabilities& capabilities) {
  const auto most = std::min({capabilities.max_storage_buffer_range, capabilities.max_buffer_size,
                              capabilities.max_memory_allocation_bytes});
  return bytes <= static_cast<double>(most) / 2;
}

bool options_allow_tile_workspace(const PlanOptions& options, const AttentionDesc& desc,
                                  const Capabilities& capabilities, const KernelConfig& config) {
  if (options.kv_splits == 0 || asks_for_one_part(options)) return options.kv_splits == 0;
  const double heads = static_cast<double>(desc.batch) * static_cast<double>(desc.kv_heads);
  return fit_half_of_a_buffer(tiles_bytes(desc, config, heads, options.kv_splits), capabilities);
}

Result<void> check_loop_limit(const AttentionDesc& desc, const Capabilities& capabilities,
                              const KernelConfig& config, const PlanOptions& options) {
  const std::int64_t kv_splits = options.kv_splits;
  if (capabilities.max_loop_iterations == 0 || desc.is_empty()) return {};
  // The loops of kernels on matrix units are not counted above.
  if (config.uses_matrix_units) return loops_may_end(capabilities, "kernels on matrix units may take more");
  std::int64_t keys = keys_of_part(desc, config, kv_splits);
  if (kv_splits == 0) keys = std::min(keys, most_keys_of_part(desc, capabilities, config));
  if (Result<void> s = check_part_keys(desc, capabilities, config, options, keys); !s) return s;
  const std::int64_t parts = divide_up(desc.kv_length, std::max<std::int64_t>(keys, 1));
  return check_iterations(capabilities, other_iterations(desc, capabilities, config, parts));
}

}  // namespace vkattn::detail
