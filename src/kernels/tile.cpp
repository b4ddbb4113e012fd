// Host half of the tile kernel (shaders/attention_tile.comp): the block sizes that fit the device.
#include <algorithm>
#include <array>

#include "common/message.hpp"
#include "kernels/kernel.hpp"
#include "shared/attention_constants.h"

namespace vkattn::detail {

namespace {

// Threads form columns x (threads / columns); a thread owns `rows` rows, `keys` keys, and 4 dims of each
// chunk.
struct TileShape {
  std::uint32_t threads, columns, rows, keys, dim_chunk;

  [[nodiscard]] std::uint32_t block_rows() const { return threads / columns * rows; }
  [[nodiscard]] std::uint32_t block_keys() const { return columns * keys; }
  // As attention_tile.comp declares it.
  [[nodiscard]] std::uint32_t shared_bytes() const {
    const std::uint32_t dim_stride4 = dim_chunk / 4 + 1;
    const std::uint32_t kv_stage4 = block_keys() * std::max(dim_stride4, columns + 1);
    return 16 * (block_rows() * dim_stride4 + kv_stage4 + block_rows() * (block_keys() / 4 + 1)) +
           4 * block_rows() * (columns + 1);
  }
};

// Largest first; the last fits every Vulkan device (128 invocations, 16 KiB).
constexpr std::array<TileShape, 3> kShapes{{
    {256, 16, 4, 4, 32},
    {128, 16, 4, 2, 32},
    {128, 8, 2, 4, 32},
}};

// Accumulators are value_dim / columns floats for each row of a thread: wide heads take fewer rows.
constexpr std::uint32_t kMaxAccumulators = 96;

TileShape for_value_dim(TileShape shape, std::int64_t value_dim) {
  const auto chunks = static_cast<std::uint32_t>((value_dim + shape.columns * 4 - 1) / (shape.columns * 4));
  while (shape.rows > 1 && shape.rows * chunks * 4 > kMaxAccumulators) shape.rows /= 2;
  return shape;
}

}  // namespace

Result<KernelConfig> configure_tile(const AttentionDesc& desc, const Capabilities& capabilities) {
  std::uint32_t smallest = ~0U;
  for (const TileShape& candidate : kShapes) {
    const TileShape shape = for_value_dim(candidate, desc.value_dim);
    smallest = std::min(smallest, shape.shared_bytes());
    if (shape.shared_bytes() > capabilities.max_shared_memory_bytes) continue;
    if (shape.threads > capabilities.max_workgroup_invocations ||
        shape.threads > capabilities.max_workgroup_size[0]) {
      continue;
    }
    // A large block is wasted on few rows.
    const bool last = &candidate == &kShapes.back();
    if (!last && packed_rows(desc) * 2 <= static_cast<std::int64_t>(shape.block_rows())) continue;
    KernelConfig config;
    config.shader = shader_for(desc, capabilities, "attention_tile", "attention_tile_words");
    config.workgroup_size = shape.threads;
    config.rows_per_workgroup = shape.block_rows();
    config.shared_bytes = shape.shared_bytes();
    config.key_step = shape.block_keys();
    auto common = common_specialization(desc, capabilities, shape.threads);
    if (!common) return common.error();
    config.specialization = *std::move(common);
    config.specialization.push_back({VKATTN_SPEC_TILE_COLUMNS, shape.columns});
    config.specialization.push_back({VKATTN_SPEC_TILE_ROWS, shape.rows});
    config.specialization.push_back({VKATTN_SPEC_TILE_KEYS, shape.keys});
    config.specialization.push_back({VKATTN_SPEC_TILE_DIM_CHUNK, shape.dim_chunk});
    config.summary = message(shape.block_rows(), " rows x ", shape.block_keys(), " keys a block, ",
                             shape.threads, " invocations, ", config.shared_bytes, " bytes of shared memory");
    return config;
  }
  return Error{ErrorCode::kLimitExceeded, VK_SUCCESS,
               message("the smallest block needs ", smallest,
                       " bytes of shared memory and 128 invocations; "
                       "maxComputeSharedMemorySize is ",
                       capabilities.max_shared_memory_bytes, " and maxComputeWorkGroupInvocations ",
                       capabilities.max_workgroup_invocations)};
}

}  // namespace vkattn::detail
