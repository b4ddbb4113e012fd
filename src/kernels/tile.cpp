// Host half of the tile kernel (shaders/tile/attention_tile.comp): the block sizes that fit the device.
#include <algorithm>
#include <optional>

#include "attention/tensor_rules.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/block_limits.hpp"
#include "kernels/kernel.hpp"
#include "kernels/subgroup_size.hpp"
#include "kernels/tile_table.hpp"
#include "kernels/vendors.hpp"
#include "shared/attention_constants.h"
#include "shared/shared_memory.h"

namespace vkattn::detail {

namespace {

// Threads form columns x (threads / columns); a thread owns `rows` rows, `keys` keys, and 4 dims of each
// chunk.
std::uint32_t block_rows(const TileSizes& shape) {
  return shape.threads / shape.columns * shape.rows;
}
std::uint32_t block_keys(const TileSizes& shape) {
  return shape.columns * shape.keys;
}

// The elements in shared memory.
struct Elements {
  bool packed = false;   // tensors are fetched as they are stored, K and V kept so
  bool float16 = false;  // all are float16, and so is arithmetic
};

// Rows are reduced in subgroups or through shared memory.
std::uint32_t shared_bytes(const TileSizes& shape, bool in_subgroups, const Elements& elements) {
  const std::uint32_t rows = block_rows(shape);
  const std::uint32_t keys = block_keys(shape);
  const std::uint32_t quads = VKATTN_TILE_KV_STAGE4(keys, shape.dims, shape.columns);
  const bool packed = elements.packed || elements.float16;
  return (elements.float16 ? 8 : 16) * VKATTN_TILE_ROW_STAGE4(rows, shape.dims, keys) +
         16 * VKATTN_TILE_FLOAT_STAGE4(quads, packed) + 8 * VKATTN_TILE_PACKED_STAGE2(quads, packed) +
         (in_subgroups ? 0 : 4 * VKATTN_TILE_REDUCE_STAGE(rows, shape.columns));
}

// The size of the full subgroups that rows of the grid can be reduced in, or 0 where they cannot.
std::uint32_t reducing_subgroup_size(const TileSizes& shape, const Capabilities& capabilities) {
  // CPU implementations take other kernels, and the form without subgroups needs no feature.
  if (!capabilities.subgroup_shuffle || capabilities.is_cpu()) return 0;
  const bool may_ask = may_ask_for_subgroup_size(capabilities);
  if (!may_ask && capabilities.min_subgroup_size != capabilities.max_subgroup_size) return 0;
  std::uint32_t size = capabilities.subgroup_size;
  // Intel's compiler has half the registers for each invocation of a subgroup twice as large.
  if (may_ask && capabilities.vendor_id == kVendorIntel) size = shape.columns;
  if (may_ask) size = std::clamp(size, capabilities.min_subgroup_size, capabilities.max_subgroup_size);
  if (size % shape.columns != 0 || shape.threads % size != 0) return 0;
  return may_ask && shape.threads / size > capabilities.max_workgroup_subgroups ? 0 : size;
}

// Whether shaders can fetch keys and values as they are stored.
bool has_packed_keys(const AttentionDesc& desc) {
  const auto is_packed = [&](const TensorDesc& tensor) {
    return tensor.type == DataType::kFloat16 && has_vector_loads(tensor, key_extents(desc, 1));
  };
  return is_packed(desc.key) && is_packed(desc.value) && desc.head_dim % 4 == 0 && desc.value_dim % 4 == 0;
}

// Whether keys and values stay float16 in shared memory: docs/trials/gpu_compilers.md has the measurements.
bool packs_keys(const AttentionDesc& desc, const Capabilities& capabilities) {
  if (!has_packed_keys(desc)) return false;
  switch (architecture(capabilities)) {
    case Architecture::kAmdGcn:
      return desc.head_dim >= 96;
    case Architecture::kAdreno:
      return desc.head_dim <= 96;
    default:
      return false;
  }
}

// Quads of 4 elements that a thread fetches before it writes them to shared memory; they wait in registers.
constexpr std::uint32_t kMaxFetches = 16;

bool is_possible(const TileSizes& shape) {
  const bool in_range = is_power(shape.columns, 4, 64) && is_power(shape.threads, shape.columns, 1024) &&
                        is_power(shape.rows, 1, 8) && is_power(shape.keys, 1, 8) &&
                        is_power(shape.dims, 8, 128);
  if (!in_range) return false;
  const std::uint32_t score_quads = (block_rows(shape) + block_keys(shape)) * shape.dims / 4;
  const std::uint32_t value_quads = block_keys(shape) * shape.columns;
  return std::max(score_quads, value_quads) <= kMaxFetches * shape.threads;
}

// Accumulators are value_dim / columns floats for each row of a thread: wide heads take fewer rows.
constexpr std::uint32_t kMaxAccumulators = 96;

TileSizes for_value_dim(TileSizes shape, std::int64_t value_dim) {
  const auto chunks = static_cast<std::uint32_t>((value_dim + shape.columns * 4 - 1) / (shape.columns * 4));
  while (shape.rows > 1 && shape.rows * chunks * 4 > kMaxAccumulators) shape.rows /= 2;
  return shape;
}

// The name of the shader.
std::string shader_of(const AttentionDesc& desc, const Capabilities& capabilities, bool in_subgroups,
                      const Elements& elements) {
  if (elements.float16) return feature_form(desc, "attention_tile_float16");
  return in_subgroups
             ? shader_for(desc, capabilities, "attention_tile_subgroup", "attention_tile_subgroup_words")
             : shader_for(desc, capabilities, "attention_tile", "attention_tile_words");
}

// AMD's compiler, and Intel's before Xe2, keep the loop over chunks of output dims too, and reach array
// elements by its counter through branches. AMD's does better with the loop if a thread has few rows:
// docs/trials/gpu_compilers.md.
bool writes_out(const TileSizes& shape, const Capabilities& capabilities) {
  return writes_out_steps(capabilities) || (capabilities.vendor_id == kVendorAmd && shape.rows >= 4) ||
         architecture(capabilities) == Architecture::kIntelGen12;
}

// In float16 a sum of scores covers half of the staged dims; the tolerance is that of 16 dims.
bool has_long_sums(const TileSizes& tile) {
  return tile.dims > VKATTN_TILE_MOST_SUM_DIMS;
}

Result<KernelConfig> configure(const AttentionDesc& desc, const Capabilities& capabilities, Tiles tiles,
                               const Elements& elements) {
  std::optional<Result<void>> fits;
  for (const TileSizes& candidate : tiles) {
    if (!is_possible(candidate)) continue;
    if (elements.float16 && has_long_sums(candidate)) continue;
    const TileSizes shape = for_value_dim(candidate, desc.value_dim);
    // Float16 has no form with shuffles, which would gain 2 %.
    const std::uint32_t subgroup_size = elements.float16 ? 0 : reducing_subgroup_size(shape, capabilities);
    const std::uint32_t bytes = shared_bytes(shape, subgroup_size != 0, elements);
    fits = check_limits({bytes, shape.threads, 0}, capabilities);
    if (!*fits) continue;
    // A large block is wasted on few rows.
    const bool last = &candidate == &tiles.back();
    if (!last && packed_rows(desc) * 2 <= static_cast<std::int64_t>(block_rows(shape))) continue;
    KernelConfig config;
    config.tile = candidate;
    config.shader = shader_of(desc, capabilities, subgroup_size != 0, elements);
    config.required_subgroup_size = required_subgroup_size(capabilities, subgroup_size);
    config.workgroup_size = shape.threads;
    config.rows_per_workgroup = block_rows(shape);
    config.shared_bytes = bytes;
    config.key_step = block_keys(shape);
    config.block_mask_keys = block_keys(shape);
    config.workgroups_per_unit = workgroups_of_a_unit(shape.threads);
    config.constants = {{VKATTN_SPEC_TILE_COLUMNS, shape.columns},
                        {VKATTN_SPEC_TILE_ROWS, shape.rows},
                        {VKATTN_SPEC_TILE_KEYS, shape.keys},
                        {VKATTN_SPEC_TILE_DIM_CHUNK, shape.dims},
                        {VKATTN_SPEC_TILE_PACKED, elements.packed ? 1U : 0U},
                        {VKATTN_SPEC_WRITES_OUT_STEPS, writes_out(shape, capabilities) ? 1U : 0U}};
    config.summary =
        message(block_rows(shape), " rows x ", block_keys(shape), " keys a block, ", shape.threads,
                " invocations, ", config.shared_bytes, " bytes of shared memory, rows reduced in ",
                subgroup_size != 0 ? message("subgroups of ", subgroup_size) : "shared memory",
                elements.float16  ? ", products and short sums in float16"
                : elements.packed ? ", K and V in float16 there"
                                  : "");
    if (elements.float16) config.arithmetic_type = config.probability_type = DataType::kFloat16;
    return config;
  }
  return fits ? no_block_fits(*fits) : no_possible_tile(tiles);
}

}  // namespace

Result<KernelConfig> configure_tile(const AttentionDesc& desc, const Capabilities& capabilities,
                                    Tiles tiles) {
  return configure(desc, capabilities, tiles, {packs_keys(desc, capabilities), false});
}

Result<KernelConfig> configure_tile_float16(const AttentionDesc& desc, const Capabilities& capabilities,
                                            Tiles tiles) {
  if (!tiles.empty() && std::all_of(tiles.begin(), tiles.end(), has_long_sums)) {
    return unsupported("float16 arithmetic takes block sizes with at most ", VKATTN_TILE_MOST_SUM_DIMS,
                       " dims at a time; these are ", to_string(tiles.front()));
  }
  const bool packed = has_packed_keys(desc) && has_vector_loads(desc.query, query_extents(desc, 1));
  return configure(desc, capabilities, tiles, {packed, true});
}

}  // namespace vkattn::detail
