// Host half of the lane kernel (shaders/lane/attention_lane.comp): a few query rows per invocation, no
// barrier, no shared memory, no subgroup operation.
#include <algorithm>

#include "attention/features.hpp"
#include "attention/tensor_rules.hpp"
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

// Scores of a step are private: many of them are spilled, and compiling them takes long.
bool is_possible(const TileSizes& tile, const Capabilities& capabilities) {
  return tile.rows >= 1 && tile.rows <= 8 && tile.keys >= kMaskedKeys && tile.keys <= 64 &&
         (tile.keys <= kManyMaskedKeys ? tile.keys % kMaskedKeys : tile.keys % kManyMaskedKeys) == 0 &&
         tile.rows * tile.keys <= 256 &&
         workgroup_size(tile, capabilities) <=
             std::min(capabilities.max_workgroup_invocations, capabilities.max_workgroup_size[0]);
}

// Whether the only masked step is that of the last keys, and these are many: one step of 16 is faster than
// three or four of 4. For few rows it would only make another pipeline for other lengths, as of a cache that
// grows.
bool has_long_tail(const AttentionDesc& desc, const TileSizes& tile) {
  const bool rows_hide = desc.causal || desc.window != SlidingWindow{};
  return !rows_hide && desc.query_length >= 64 && desc.kv_length % tile.keys > kManyMaskedKeys / 2;
}

}  // namespace

Result<KernelConfig> configure_lane(const AttentionDesc& desc, const Capabilities& capabilities,
                                    Tiles tiles) {
  const auto found = std::find_if(tiles.begin(), tiles.end(),
                                  [&](const TileSizes& tile) { return is_possible(tile, capabilities); });
  if (found == tiles.end()) return no_possible_tile(tiles);
  KernelConfig config;
  config.tile = *found;
  config.workgroup_size = workgroup_size(*found, capabilities);
  config.rows_per_workgroup = config.workgroup_size * found->rows;
  config.key_step = found->keys;
  // A private array of sums costs more than a buffer. 16-bit outputs cannot hold them, others not always
  // well.
  config.sums_in_workspace = sums_lie_apart(desc.output, capabilities.is_cpu());
  config.shader = loads_wide(capabilities)
                      ? feature_form(desc, "attention_lane_wide")
                      : shader_for(desc, capabilities, "attention_lane", "attention_lane_words");
  // If every step is a masked one, it must share loads and stores too.
  const bool many = scores_hide(desc) || has_long_tail(desc, *found);
  const std::uint32_t masked_keys = many ? std::min(found->keys, kManyMaskedKeys) : kMaskedKeys;
  config.constants = {{VKATTN_SPEC_LANE_ROWS, found->rows},
                      {VKATTN_SPEC_LANE_KEYS, found->keys},
                      {VKATTN_SPEC_LANE_MASKED_KEYS, masked_keys},
                      {VKATTN_SPEC_TILES_IN_PAIRS, capabilities.is_cpu() ? 1U : 0U}};
  config.block_mask_keys = found->keys;
  config.summary = message(config.workgroup_size, " invocations a workgroup, ", found->rows,
                           found->rows == 1 ? " row" : " rows", " each, ", found->keys, " keys a step");
  return config;
}

}  // namespace vkattn::detail
