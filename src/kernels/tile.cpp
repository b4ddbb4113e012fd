// Host half of the tile kernel (shaders/attention_tile.comp): the block sizes that fit the device.
#include <algorithm>
#include <bit>

#include "common/message.hpp"
#include "kernels/kernel.hpp"
#include "shared/attention_constants.h"

namespace vkattn::detail {

namespace {

// Threads form columns x (threads / columns); a thread owns `rows` rows, `keys` keys, and 4 dims of each
// chunk.
std::uint32_t block_rows(const TileShape& shape) {
  return shape.threads / shape.columns * shape.rows;
}
std::uint32_t block_keys(const TileShape& shape) {
  return shape.columns * shape.keys;
}

// As attention_tile.comp declares it.
std::uint32_t shared_bytes(const TileShape& shape) {
  const std::uint32_t dim_stride4 = shape.dims / 4 + 1;
  const std::uint32_t kv_stage4 = block_keys(shape) * std::max(dim_stride4, shape.columns + 1);
  return 16 *
             (block_rows(shape) * dim_stride4 + kv_stage4 + block_rows(shape) * (block_keys(shape) / 4 + 1)) +
         4 * block_rows(shape) * (shape.columns + 1);
}

bool is_possible(const TileShape& shape) {
  const auto is_power = [](std::uint32_t size, std::uint32_t least, std::uint32_t most) {
    return std::has_single_bit(size) && size >= least && size <= most;
  };
  return is_power(shape.columns, 4, 64) && is_power(shape.threads, shape.columns, 1024) &&
         is_power(shape.rows, 1, 8) && is_power(shape.keys, 1, 8) && is_power(shape.dims, 8, 128);
}

// Accumulators are value_dim / columns floats for each row of a thread: wide heads take fewer rows.
constexpr std::uint32_t kMaxAccumulators = 96;

TileShape for_value_dim(TileShape shape, std::int64_t value_dim) {
  const auto chunks = static_cast<std::uint32_t>((value_dim + shape.columns * 4 - 1) / (shape.columns * 4));
  while (shape.rows > 1 && shape.rows * chunks * 4 > kMaxAccumulators) shape.rows /= 2;
  return shape;
}

}  // namespace

Result<KernelConfig> configure_tile(const AttentionDesc& desc, const Capabilities& capabilities,
                                    Tiles tiles) {
  std::uint32_t smallest = ~0U;
  for (const TileShape& candidate : tiles) {
    if (!is_possible(candidate)) continue;
    const TileShape shape = for_value_dim(candidate, desc.value_dim);
    smallest = std::min(smallest, shared_bytes(shape));
    if (shared_bytes(shape) > capabilities.max_shared_memory_bytes) continue;
    if (shape.threads > capabilities.max_workgroup_invocations ||
        shape.threads > capabilities.max_workgroup_size[0]) {
      continue;
    }
    // A large block is wasted on few rows.
    const bool last = &candidate == &tiles.back();
    if (!last && packed_rows(desc) * 2 <= static_cast<std::int64_t>(block_rows(shape))) continue;
    KernelConfig config;
    config.tile = candidate;
    config.shader = shader_for(desc, capabilities, "attention_tile", "attention_tile_words");
    config.workgroup_size = shape.threads;
    config.rows_per_workgroup = block_rows(shape);
    config.shared_bytes = shared_bytes(shape);
    config.key_step = block_keys(shape);
    auto common = common_specialization(desc, capabilities, shape.threads);
    if (!common) return common.error();
    config.specialization = *std::move(common);
    config.specialization.push_back({VKATTN_SPEC_TILE_COLUMNS, shape.columns});
    config.specialization.push_back({VKATTN_SPEC_TILE_ROWS, shape.rows});
    config.specialization.push_back({VKATTN_SPEC_TILE_KEYS, shape.keys});
    config.specialization.push_back({VKATTN_SPEC_TILE_DIM_CHUNK, shape.dims});
    config.summary = message(block_rows(shape), " rows x ", block_keys(shape), " keys a block, ",
                             shape.threads, " invocations, ", config.shared_bytes, " bytes of shared memory");
    return config;
  }
  if (smallest == ~0U) return no_possible_tile(tiles);
  return Error{
      ErrorCode::kLimitExceeded, VK_SUCCESS,
      message("the smallest block needs ", smallest, " bytes of shared memory and ", tiles.back().threads,
              " invocations; maxComputeSharedMemorySize is ", capabilities.max_shared_memory_bytes,
              " and maxComputeWorkGroupInvocations ", capabilities.max_workgroup_invocations)};
}

}  // namespace vkattn::detail
