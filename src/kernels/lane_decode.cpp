// Host half of the lane_decode kernel (shaders/lane/attention_lane_decode.comp): a CPU's vector reads
// the keys of a few query rows.
#include <algorithm>
#include <array>

#include "attention/features.hpp"
#include "attention/tensor_rules.hpp"
#include "attention/tensor_table.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/block_limits.hpp"
#include "kernels/kernel.hpp"
#include "kernels/subgroup_size.hpp"
#include "shared/attention_constants.h"
#include "shared/lane_decode_tile.h"
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

// --- By vectors at addresses (shaders/lane/decode_vectors.glsl) ---

// As VKATTN_ADDRESS_PARAMS names them there.
constexpr std::array<OwnAddress, 5> kVectorAddresses{
    {{VKATTN_BINDING_KEY, 0},
     {VKATTN_BINDING_VALUE, VKATTN_LANE_DECODE_VALUE_BACK},
     {VKATTN_BINDING_PARTIALS, 0},
     {VKATTN_BINDING_PARTIALS, VKATTN_LANE_DECODE_WEIGHT_BACK},
     {VKATTN_BINDING_PARTIALS, VKATTN_LANE_DECODE_SUM_BACK}}};

// Vectors that are one load of 32-bit words.
std::uint32_t joined_vectors(DataType type) {
  if (is_quantised(type)) return 4;
  return type == DataType::kBfloat16 ? 2 : 1;
}

// Vectors of a pass over dims: the most that divide a row, up to a number, if joined vectors allow.
std::uint32_t vectors_of_pass(std::int64_t dims, DataType type, std::uint32_t most) {
  const auto vectors = static_cast<std::uint32_t>(dims) / kVectorLanes;
  const std::uint32_t step = joined_vectors(type);
  std::uint32_t pass = step;
  for (std::uint32_t n = step; n <= most; n += step) {
    if (vectors % n == 0) pass = n;
  }
  return pass;
}

// Sums of a pass over values stay in registers.
std::uint32_t most_value_vectors(std::uint32_t rows) {
  if (rows == 1) return 16;
  if (rows <= 3) return 8;
  return rows <= 6 ? 4 : 2;
}

bool has_whole_vectors(const TensorDesc& tensor, std::int64_t dims, const TensorExtents& extents) {
  return dims % (joined_vectors(tensor.type) * kVectorLanes) == 0 &&
         (block_elements(tensor.type) > 1 || has_vector_loads(tensor, extents));
}

bool takes_vectors(const AttentionDesc& desc, const Capabilities& capabilities) {
  constexpr std::int64_t kMostDims = 4096;  // a tile's offsets stay below the numbers taken from addresses
  return reads_by_address(capabilities, kVectorAddresses.size()) && capabilities.subgroup_shuffle &&
         capabilities.shader_float16 && capabilities.subgroup_size == kVectorLanes &&
         capabilities.max_stage_storage_buffers >= storage_buffers(desc) + 2 && desc.head_dim <= kMostDims &&
         desc.value_dim <= kMostDims && has_whole_vectors(desc.key, desc.head_dim, key_extents(desc, 1)) &&
         has_whole_vectors(desc.value, desc.value_dim, key_extents(desc, 1));
}

// Each tile has its own part of the workspace, for each part of the keys, and one descriptor has them all.
// Without a split these stay small. A split may make a part of each step, and its windows have one head at
// the least; where the batch shares packed rows, which windows do not cut, one head of each member.
bool tiles_have_room(const AttentionDesc& desc, const Capabilities& capabilities,
                     const KernelConfig& config) {
  constexpr double kMostBytes = 16777216;
  const auto most_parts = static_cast<double>(desc.kv_length);  // more than there are steps
  const auto batch = static_cast<double>(desc.batch);
  const bool is_packed = desc.has_packed_queries() || desc.has_packed_keys();
  const double whole = tiles_bytes(desc, config, batch * static_cast<double>(desc.kv_heads), 1);
  const double split = tiles_bytes(desc, config, is_packed ? batch : 1, most_parts);
  return whole <= kMostBytes && fit_half_of_a_buffer(std::max(whole, split), capabilities);
}

void read_vectors(const AttentionDesc& desc, KernelConfig& config) {
  const std::uint32_t rows = config.rows_per_workgroup, keys = config.tile.keys;
  const auto head_dim = static_cast<std::uint32_t>(desc.head_dim);
  const auto value_dim = static_cast<std::uint32_t>(desc.value_dim);
  const std::uint32_t score_vectors = vectors_of_pass(desc.head_dim, desc.key.type, 16);
  const std::uint32_t value_vectors =
      vectors_of_pass(desc.value_dim, desc.value.type, most_value_vectors(rows));
  config.own_addresses.assign(kVectorAddresses.begin(), kVectorAddresses.end());
  config.tile_workspace_bytes = 4 * VKATTN_LANE_DECODE_TILE_WORDS(rows, keys, head_dim, value_dim);
  config.shared_bytes = 0;
  config.shader = feature_form(desc, "attention_lane_decode_addresses");
  config.constants = {{VKATTN_SPEC_LANE_DECODE_ROWS, rows},
                      {VKATTN_SPEC_LANE_DECODE_KEYS, keys},
                      {VKATTN_SPEC_LANE_DECODE_LOCKSTEP, 1},
                      {VKATTN_SPEC_LANE_DECODE_SCORE_VECTORS, score_vectors},
                      {VKATTN_SPEC_LANE_DECODE_VALUE_VECTORS, value_vectors}};
  config.summary = message(rows, rows == 1 ? " row" : " rows", ", ", config.workgroup_size, " lanes of ",
                           keys, " keys a step, vectors by addresses");
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
                        {VKATTN_SPEC_LANE_DECODE_TOUCHES, touches(desc, capabilities) ? 1U : 0U},
                        {VKATTN_SPEC_LANE_DECODE_LOCKSTEP, takes_long_steps(capabilities) ? 1U : 0U}};
    config.summary = message(rows, rows == 1 ? " row" : " rows", ", ", threads, " lanes of ", tile.keys,
                             " keys a step", touches(desc, capabilities) ? ", cache lines first" : "");
    if (takes_vectors(desc, capabilities)) {
      KernelConfig vectors = config;
      read_vectors(desc, vectors);
      if (tiles_have_room(desc, capabilities, vectors)) return vectors;
    }
    return config;
  }
  return no_block_fits(fits);
}

}  // namespace vkattn::detail
