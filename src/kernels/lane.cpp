// Host half of the lane kernel (shaders/lane/attention_lane.comp): a few query rows per invocation, no
// barrier, no shared memory, no subgroup operation.
#include <algorithm>

#include "attention/features.hpp"
#include "attention/tensor_rules.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/kernel.hpp"
#include "shared/attention_constants.h"

namespace vkattn::detail {

namespace {

constexpr std::uint32_t kMaskedKeys = 4;
constexpr std::uint32_t kManyMaskedKeys = 16;

// A workgroup of one SIMD vector is the smallest unit that spreads over the threads of a CPU.
std::uint32_t workgroup_size(const TileSizes& tile, const Capabilities& capabilities) {
  return tile.threads != 0 ? tile.threads : std::clamp(capabilities.subgroup_size, 4U, 64U);
}

// The keys of a part that lie in one step keep their sums in registers.
bool takes_one_step(const AttentionDesc& desc, const TileSizes& tile) {
  return rows_share_keys(desc) && desc.kv_length <= tile.keys;
}

// Scores of a step are private: many of them are spilled, and compiling them takes long.
bool is_possible(const AttentionDesc& desc, const TileSizes& tile, const Capabilities& capabilities) {
  const std::uint32_t most_keys = takes_one_step(desc, tile) ? 96 : 64;
  return tile.rows >= 1 && tile.rows <= 8 && tile.keys >= kMaskedKeys && tile.keys <= most_keys &&
         (tile.keys <= kManyMaskedKeys ? tile.keys % kMaskedKeys : tile.keys % kManyMaskedKeys) == 0 &&
         tile.rows * tile.keys <= 4 * most_keys &&
         workgroup_size(tile, capabilities) <=
             std::min(capabilities.max_workgroup_invocations, capabilities.max_workgroup_size[0]);
}

// The keys of a masked step. Many of them share the loads and stores of sums, if there are many masked keys:
// at a causal diagonal, behind a mask, or at the end.
std::uint32_t masked_keys(const AttentionDesc& desc, const Capabilities& capabilities,
                          const TileSizes& tile) {
  if (takes_one_step(desc, tile)) return tile.keys;
  const bool rows_hide = (desc.causal || desc.window != SlidingWindow{}) && takes_long_steps(capabilities);
  const bool long_tail = rows_share_keys(desc) && desc.kv_length % tile.keys > kManyMaskedKeys / 2;
  return rows_hide || scores_hide(desc) || long_tail ? std::min(tile.keys, kManyMaskedKeys) : kMaskedKeys;
}

}  // namespace

Result<KernelConfig> configure_lane(const AttentionDesc& desc, const Capabilities& capabilities,
                                    Tiles tiles) {
  const auto found = std::find_if(tiles.begin(), tiles.end(), [&](const TileSizes& tile) {
    return is_possible(desc, tile, capabilities);
  });
  if (found == tiles.end()) return no_possible_tile(tiles);
  KernelConfig config;
  config.tile = *found;
  config.workgroup_size = workgroup_size(*found, capabilities);
  config.rows_per_workgroup = config.workgroup_size * found->rows;
  const bool one_step = takes_one_step(desc, *found);
  // A part of the keys fits one step wherever it begins.
  config.key_step = one_step ? std::min(found->keys, kManyMaskedKeys) : found->keys;
  // Loops over dims for scores beyond those of the first keys.
  constexpr std::uint32_t kScoreKeys = VKATTN_LANE_SCORE_KEYS;
  config.step_iterations =
      (divide_up(found->keys, kScoreKeys) - 1) * static_cast<std::uint32_t>(desc.head_dim) / 4;
  // A private array of sums costs more than a buffer. 16-bit outputs cannot hold them, others not always
  // well.
  config.sums_in_workspace = !one_step && sums_lie_apart(desc.output, capabilities.is_cpu());
  config.shader = loads_wide(capabilities)
                      ? feature_form(desc, "attention_lane_wide")
                      : shader_for(desc, capabilities, "attention_lane", "attention_lane_words");
  // Quantised rows gain nothing: their words are loaded one by one.
  if (reads_by_address(capabilities, 2) && !is_quantised(desc.key.type) && !is_quantised(desc.value.type)) {
    config.by_address = {VKATTN_BINDING_KEY, VKATTN_BINDING_VALUE};
  }
  const bool has_vectors = has_vector_loads(desc.output, query_extents(desc, 1));
  config.constants = {{VKATTN_SPEC_LANE_ROWS, found->rows},
                      {VKATTN_SPEC_LANE_KEYS, found->keys},
                      {VKATTN_SPEC_LANE_MASKED_KEYS, masked_keys(desc, capabilities, *found)},
                      {VKATTN_SPEC_LANE_ONE_STEP, one_step ? 1U : 0U},
                      {VKATTN_SPEC_LANE_OUTPUT_VECTORS, has_vectors ? 1U : 0U},
                      {VKATTN_SPEC_LANE_KEYS_FIRST, capabilities.is_cpu() ? 1U : 0U},
                      {VKATTN_SPEC_LANE_BY_ADDRESS, config.by_address.empty() ? 0U : 1U},
                      {VKATTN_SPEC_TILES_IN_PAIRS, capabilities.is_cpu() ? 1U : 0U}};
  config.block_mask_keys = found->keys;
  config.summary = message(config.workgroup_size, " invocations a workgroup, ", found->rows,
                           found->rows == 1 ? " row" : " rows", " each, ", found->keys, " keys a step");
  return config;
}

}  // namespace vkattn::detail
