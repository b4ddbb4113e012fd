// Host half of the lane_decode kernel (shaders/lane/attention_lane_decode.comp): a CPU's vector reads
// the keys of a few query rows.
#include <algorithm>

#include "attention/features.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/block_limits.hpp"
#include "kernels/kernel.hpp"
#include "kernels/subgroup_size.hpp"
#include "shared/attention_constants.h"
#include "shared/shared_memory.h"

namespace vkattn::detail {

namespace {

constexpr std::uint32_t kValueKeys = 8;  // of a pass over values
// Fewer bytes of K and V are still in a cache when the next execution reads them, and reading each cache line
// ahead costs a tenth.
constexpr double kFewestTouchedBytes = 12e6;

// Scores of a step are private, and all are written out.
bool is_possible_step(const TileSizes& tile) {
  return tile.rows >= 1 && tile.rows <= 8 && is_power(tile.keys, 8, 16) && tile.rows * tile.keys <= 64;
}

double key_bytes(const AttentionDesc& desc) {
  const auto bytes = [](DataType type, std::int64_t dims) {
    return static_cast<double>(dims) * block_bytes(type) / block_elements(type);
  };
  return static_cast<double>(desc.batch) * static_cast<double>(desc.kv_heads) *
         static_cast<double>(desc.kv_length) *
         (bytes(desc.key.type, desc.head_dim) + bytes(desc.value.type, desc.value_dim));
}

// For the caches of CPUs. Rows whose dims lie apart have no cache lines of their own.
bool touches(const AttentionDesc& desc, const Capabilities& capabilities) {
  return capabilities.is_cpu() && desc.key.strides->dim == 1 && desc.value.strides->dim == 1 &&
         key_bytes(desc) >= kFewestTouchedBytes;
}

// As the shader's kLooksUpKeys.
bool looks_up_keys(const AttentionDesc& desc) {
  return desc.cache.mapping == KeyMapping::kPaged || desc.cache.mapping == KeyMapping::kRing;
}

BlockNeeds needs_of(const AttentionDesc& desc, std::uint32_t rows, std::uint32_t keys,
                    std::uint32_t threads) {
  const auto head_dim = static_cast<std::uint32_t>(desc.head_dim);
  const auto value_dim = static_cast<std::uint32_t>(desc.value_dim);
  const std::uint32_t words = VKATTN_LANE_DECODE_QUERY_STAGE(rows, head_dim) +
                              VKATTN_LANE_DECODE_SUM_STAGE(rows, value_dim, threads) +
                              VKATTN_LANE_DECODE_WEIGHT_STAGE(rows, keys, threads) +
                              (looks_up_keys(desc) ? VKATTN_LANE_DECODE_ROW_STAGE(keys, threads) : 1);
  return {4 * words, threads, 1};
}

// Rounds of the loops of a step beside those over dims: values by 8 keys, cache lines of K and V.
std::uint32_t step_iterations(const AttentionDesc& desc, std::uint32_t keys, std::uint32_t threads) {
  const auto value_dim = static_cast<std::uint32_t>(desc.value_dim);
  const std::uint32_t passes = divide_up(value_dim, 4 * threads);
  const std::uint32_t lines =
      divide_up(static_cast<std::uint32_t>(desc.head_dim), 16U) + divide_up(value_dim, 16U);
  return passes * (divide_up(threads * keys, kValueKeys) + 1) + lines + keys;
}

}  // namespace

Result<KernelConfig> configure_lane_decode(const AttentionDesc& desc, const Capabilities& capabilities,
                                           Tiles tiles) {
  if (std::none_of(tiles.begin(), tiles.end(), is_possible_step)) return no_possible_tile(tiles);
  if (!capabilities.subgroup_shuffle) {
    return unsupported(
        "needs subgroup shuffles in compute shaders, which the device lacks or has not enabled");
  }
  const auto lanes = lanes_of_one_size(capabilities);
  if (!lanes) return lanes.error();
  const std::uint32_t threads = *lanes;
  const auto packed = static_cast<std::uint32_t>(std::max<std::int64_t>(packed_rows(desc), 1));
  Result<void> fits;
  for (const TileSizes& tile : tiles) {
    if (!is_possible_step(tile)) continue;
    const std::uint32_t rows = divide_up(packed, divide_up(packed, tile.rows));
    const BlockNeeds needs = needs_of(desc, rows, tile.keys, threads);
    fits = check_limits(needs, capabilities);
    if (!fits) continue;
    KernelConfig config;
    config.tile = tile;
    config.workgroup_size = threads;
    config.required_subgroup_size = required_subgroup_size(capabilities, threads);
    config.rows_per_workgroup = rows;
    config.shared_bytes = needs.shared_bytes;
    config.key_step = threads * tile.keys;
    config.block_mask_keys = config.key_step;
    config.step_iterations = step_iterations(desc, tile.keys, threads);
    config.shader = feature_form(
        desc, loads_wide(capabilities) ? "attention_lane_decode_wide" : "attention_lane_decode_words");
    config.constants = {{VKATTN_SPEC_LANE_DECODE_ROWS, rows},
                        {VKATTN_SPEC_LANE_DECODE_KEYS, tile.keys},
                        {VKATTN_SPEC_LANE_DECODE_TOUCHES, touches(desc, capabilities) ? 1U : 0U}};
    config.summary = message(rows, rows == 1 ? " row" : " rows", ", ", threads, " lanes of ", tile.keys,
                             " keys a step", touches(desc, capabilities) ? ", cache lines first" : "");
    return config;
  }
  return no_block_fits(fits);
}

}  // namespace vkattn::detail
