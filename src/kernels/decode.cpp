// Host half of the decode kernel (shaders/decode/attention_decode.comp): how many threads share a key, and
// the block that fits the device.
#include <algorithm>
#include <array>
#include <bit>

#include "attention/features.hpp"
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

constexpr std::uint32_t kMostColumns = 32;

// Threads, sets of rows and keys in flight are powers of two, so that the groups divide evenly.
bool is_possible_block(const TileSizes& block) {
  return is_power(block.threads, kMostColumns, 1024) && is_power(block.rows, 1, 16) &&
         is_power(block.keys, 1, 8);
}

// The most that a thread holds: rows, and 32-bit registers of sums of a row's dims, of keys and values in
// flight (4 for each 16 bytes) and of queries; and the most threads that share a key.
struct Limits {
  std::uint32_t rows, sums, in_flight, held_queries, columns;
  // Whether the threads of a group share the scores (shaders/decode/own_scores.glsl) if they have several
  // rows. On Mali and Adreno this takes a third more instructions, as their compilers make several of a
  // shuffle.
  bool deals_scores;
  // If a thread has more elements of a query row and a row's sums than this, more threads share a key. At
  // least `fewest_columns` share one: 128 bytes, a cache line of most devices.
  std::uint32_t row_elements = 24, fewest_columns = 8;
  // Parts of a row that a thread has in flight when it combines parts, by its number of rows: as many as take
  // no more registers than the steps do. Multiples of 4; 0: parts are combined in a pass.
  std::array<std::uint32_t, 4> parts = {16, 16, 8, 8};
  // Whether the first of them are in flight while the parts are weighed. GCN, with the fewest waves, has them
  // later.
  bool parts_early = true;
};

// By the registers that Mesa's compilers use (docs/compilers.txt). AMD's GPUs: 64 to 128 registers; 8 rows
// would take 216 to 256, and 16 spill. Wider subgroups of Intel's first devices leave each invocation fewer
// registers.
Limits limits_of(const Capabilities& capabilities) {
  // Combining 2 rows would leave GPUs before GCN 5, which lack 16-bit arithmetic, 2 waves in place of 3.
  const std::uint32_t of_two_rows = capabilities.shader_float16 ? 16 : 0;
  switch (architecture(capabilities)) {
    case Architecture::kNvidia:
      return {4, 32, 16, 0, kMostColumns, true, 24, 8, {24, 16, 12, 12}};
    case Architecture::kAmdGcn:
      return {4, 32, 40, 32, kMostColumns, true, 24, 8, {32, of_two_rows, 12, 12}, false};
    case Architecture::kAmdRdna:
      return {4, 32, 40, 32, kMostColumns, true, 24, 8, {32, 20, 16, 16}};
    case Architecture::kIntelGen12:
      return {2, 32, 40, 0, 8, true};
    case Architecture::kIntelXe2:
      return {2, 16, 40, 16, 16, true};
    case Architecture::kMali:
      // Few threads share a key, as the compiler makes a loop of each shuffle. A cache line has 64 bytes.
      return {2, 16, 16, 0, 16, false, 32, 4};
    case Architecture::kAdreno:
      return {2, 16, 40, 16, kMostColumns, false};
    default:
      return {4, 32, 40, 32, kMostColumns, true};
  }
}

constexpr std::uint32_t kMaxRowElementsOfSmallSubgroups = 64;
// Shared memory that the merge may take if the queries take less.
constexpr std::uint32_t kMergeBytes = 8192;
// The fewest keys with which a pass over the mask pays before the kernel.
constexpr std::int64_t kFewestKeysOfBlockMask = 1024;
// Bytes in flight on one compute unit, to hide the latency of memory.
constexpr std::uint32_t kBytesPerUnit = 65536;

// One configuration of the shader; the names are those of its constants.
struct DecodeShape {
  Limits limits{};
  TileSizes block{};       // its rows are the sets of rows that it takes at most
  std::uint32_t rows = 1;  // of a thread
  std::uint32_t row_sets = 1;
  std::uint32_t columns = 1;  // threads that share a key
  std::uint32_t subgroup_size = 1;
  std::uint32_t key_vectors = 1, value_vectors = 1;    // 16 bytes of a row, in each thread
  std::uint32_t key_elements = 4, value_elements = 4;  // of a vector
  std::uint32_t merge_rows = 1;

  [[nodiscard]] std::uint32_t tile_rows() const { return rows * row_sets; }
  [[nodiscard]] std::uint32_t key_groups() const { return block.threads / columns / row_sets; }
  [[nodiscard]] std::uint32_t query_floats() const { return rows * key_vectors * key_elements; }
  [[nodiscard]] std::uint32_t row_sums() const { return value_vectors * value_elements; }
  [[nodiscard]] std::uint32_t row_elements() const { return key_vectors * key_elements + row_sums(); }
  [[nodiscard]] std::uint32_t in_flight() const { return block.keys * 4 * (key_vectors + value_vectors); }
  [[nodiscard]] bool query_in_registers() const { return query_floats() <= limits.held_queries; }
  [[nodiscard]] std::uint32_t query_stage_bytes() const {
    return 16 * VKATTN_DECODE_QUERY_STAGE4(rows, key_vectors * key_elements / 4, row_sets, columns);
  }
  [[nodiscard]] std::uint32_t merge_row_bytes() const { return merge_stage_bytes(1); }
  [[nodiscard]] std::uint32_t merge_stage_bytes(std::uint32_t merged) const {
    return 16 * VKATTN_DECODE_MERGE_STAGE4(merged, row_sums() / 4, block.threads);
  }
  [[nodiscard]] std::uint32_t parts_in_flight() const { return limits.parts[rows - 1]; }
  [[nodiscard]] std::uint32_t stage_bytes() const {
    return std::max(query_stage_bytes(), merge_stage_bytes(merge_rows));
  }
  // Whose weights the stage holds, with parts beyond the last for a whole round.
  [[nodiscard]] std::uint32_t most_partial_rows() const {
    if (parts_in_flight() == 0) return 0;
    const std::uint32_t held = stage_bytes() / 4;
    const std::uint32_t padding = tile_rows() * (parts_in_flight() - 1);
    return held - std::min(held, padding);
  }
  [[nodiscard]] std::uint32_t shared_bytes() const {
    return stage_bytes() + 2 * 4 * VKATTN_DECODE_GROUP_STAGE(tile_rows(), key_groups());
  }
};

// Elements of a row that a thread reads at a time: 16 bytes, or 4 quantised elements, which it decodes as it
// reads.
std::uint32_t loaded_elements(DataType type) {
  return is_quantised(type) ? 4 : 16 / element_bytes(type);
}

void set_columns(DecodeShape& shape, const AttentionDesc& desc, std::uint32_t columns) {
  shape.columns = columns;
  shape.key_elements = loaded_elements(desc.key.type);
  shape.value_elements = loaded_elements(desc.value.type);
  shape.key_vectors = divide_up(static_cast<std::uint32_t>(desc.head_dim), columns * shape.key_elements);
  shape.value_vectors = divide_up(static_cast<std::uint32_t>(desc.value_dim), columns * shape.value_elements);
}

// The fewest threads whose registers hold a key's row and its value's: fewer threads have less to add up,
// more threads have fewer dims each.
void choose_columns(DecodeShape& shape, const AttentionDesc& desc, std::uint32_t most) {
  set_columns(shape, desc, 1);
  const std::uint32_t widest = std::bit_ceil(std::max(shape.key_vectors, shape.value_vectors));
  std::uint32_t columns = std::min({shape.limits.fewest_columns, widest, most});
  set_columns(shape, desc, columns);
  while (shape.row_elements() > shape.limits.row_elements && columns * 2 <= most) {
    columns *= 2;
    set_columns(shape, desc, columns);
  }
}

// The smallest subgroup size that holds a group of so many threads; 0: no size is known to hold one.
std::uint32_t subgroup_size_for(const Capabilities& capabilities, std::uint32_t columns) {
  if (!may_ask_for_subgroup_size(capabilities)) {
    const bool one_size = capabilities.min_subgroup_size == capabilities.max_subgroup_size;
    return one_size && capabilities.subgroup_size >= columns ? capabilities.subgroup_size : 0;
  }
  const std::uint32_t size = std::max(capabilities.min_subgroup_size, columns);
  return size <= capabilities.max_subgroup_size ? size : 0;
}

// Groups add up by shuffles, so a subgroup of a known size must hold each group. CPU implementations have no
// limit of registers.
Result<DecodeShape> choose_groups(const AttentionDesc& desc, const Capabilities& capabilities) {
  if (!capabilities.subgroup_shuffle) {
    return unsupported(
        "needs subgroup shuffles in compute shaders, which the device lacks or has not enabled");
  }
  DecodeShape shape;
  shape.limits = limits_of(capabilities);
  const std::uint32_t most = std::bit_floor(std::clamp(capabilities.max_subgroup_size, 1U, kMostColumns));
  std::uint32_t columns = std::min(most, shape.limits.columns);
  choose_columns(shape, desc, columns);
  // Wider groups than the limits allow may spill, which is better than another kernel.
  while (shape.row_elements() > kMaxRowElementsOfSmallSubgroups && columns < most) {
    columns *= 2;
    choose_columns(shape, desc, columns);
  }
  shape.subgroup_size = subgroup_size_for(capabilities, shape.columns);
  if (shape.subgroup_size == 0) {
    return unsupported("needs subgroups of a known size that hold ", shape.columns,
                       " invocations; the device's have ", capabilities.min_subgroup_size, " to ",
                       capabilities.max_subgroup_size,
                       " and it has not enabled subgroupSizeControl and computeFullSubgroups to fix one");
  }
  if (shape.row_elements() > kMaxRowElementsOfSmallSubgroups && !capabilities.is_cpu()) {
    return unsupported("subgroups of at most ", capabilities.max_subgroup_size,
                       " invocations leave each of them ", shape.row_elements(),
                       " elements of a key and its value, more than ", kMaxRowElementsOfSmallSubgroups,
                       ", which its registers hold");
  }
  return shape;
}

Result<void> check_fits(const DecodeShape& shape, const Capabilities& capabilities) {
  const std::uint32_t threads = shape.block.threads, size = shape.subgroup_size;
  if (threads % size != 0) {
    return unsupported("has ", threads, " invocations, which are no whole subgroups of ", size);
  }
  return check_limits({shape.shared_bytes(), threads, threads / size}, capabilities);
}

// Chooses the rows of a thread and the sets of rows. Sets are a power of two, as the groups are that share
// them.
void choose_rows(DecodeShape& shape, std::uint32_t rows) {
  const std::uint32_t most = std::clamp(shape.limits.sums / shape.row_sums(), 1U, shape.limits.rows);
  shape.row_sets = std::bit_ceil(divide_up(rows, most));
  shape.rows = divide_up(rows, shape.row_sets);
}

// The first block that fits the device and a thread's registers, or the reason. If no block has room for all
// rows, they take several tiles. The widest heads take the last block as it is.
Result<DecodeShape> choose_block(DecodeShape shape, std::uint32_t rows, const Capabilities& capabilities,
                                 Tiles tiles) {
  choose_rows(shape, rows);
  Result<void> fits = unsupported("has no room for a row in the registers of a thread");
  for (; shape.row_sets != 0; shape.row_sets /= 2) {
    for (const TileSizes& block : tiles) {
      if (!is_possible_block(block)) continue;
      shape.block = block;
      if (shape.row_sets > block.rows || shape.key_groups() == 0) continue;
      const std::uint32_t merge_bytes = std::max(shape.query_stage_bytes(), kMergeBytes);
      shape.merge_rows = std::clamp(merge_bytes / shape.merge_row_bytes(), 1U, shape.rows);
      const bool last = block.keys == 1 || tiles.size() == 1;
      if (!last && shape.in_flight() > shape.limits.in_flight) continue;
      fits = check_fits(shape, capabilities);
      if (fits) return shape;
    }
  }
  return no_block_fits(fits);
}

void add_specialization(const AttentionDesc& desc, const DecodeShape& shape,
                        SpecializationValues& specialization) {
  const auto add = [&](std::uint32_t id, auto value) {
    specialization.push_back({id, static_cast<std::uint32_t>(value)});
  };
  const auto loads8 = [&](const TensorDesc& tensor) {
    return !is_quantised(tensor.type) && element_bytes(tensor.type) == 2 &&
           has_vector_loads(tensor, key_extents(desc, 1), 8);
  };
  add(VKATTN_SPEC_DECODE_COLUMNS, shape.columns);
  add(VKATTN_SPEC_DECODE_ROWS, shape.rows);
  add(VKATTN_SPEC_DECODE_ROW_SETS, shape.row_sets);
  add(VKATTN_SPEC_DECODE_KEYS, shape.block.keys);
  add(VKATTN_SPEC_DECODE_SUBGROUP_SIZE, shape.subgroup_size);
  add(VKATTN_SPEC_DECODE_QUERY_IN_REGISTERS, shape.query_in_registers());
  add(VKATTN_SPEC_DECODE_MERGE_ROWS, shape.merge_rows);
  add(VKATTN_SPEC_DECODE_DEALS_SCORES, shape.limits.deals_scores && shape.rows > 1);
  add(VKATTN_SPEC_DECODE_KEY_LOADS8, loads8(desc.key));
  add(VKATTN_SPEC_DECODE_VALUE_LOADS8, loads8(desc.value));
  add(VKATTN_SPEC_DECODE_READS_AHEAD, shape.block.dims != 0);
  add(VKATTN_SPEC_DECODE_PARTS, std::max(shape.parts_in_flight(), 4U));
  add(VKATTN_SPEC_DECODE_PARTS_EARLY, shape.limits.parts_early);
}

}  // namespace

Result<KernelConfig> configure_decode(const AttentionDesc& desc, const Capabilities& capabilities,
                                      Tiles tiles) {
  if (std::none_of(tiles.begin(), tiles.end(), is_possible_block)) return no_possible_tile(tiles);
  if (packed_rows(desc) > kFewRows) {
    return unsupported("holds ", kFewRows, " query rows of one KV head; here are ", packed_rows(desc),
                       " (query_length x query heads of a KV head)");
  }
  const auto rows = static_cast<std::uint32_t>(std::max<std::int64_t>(packed_rows(desc), 1));
  const auto groups = choose_groups(desc, capabilities);
  if (!groups) return groups.error();
  auto chosen = choose_block(*groups, rows, capabilities, tiles);
  if (!chosen) return chosen.error();
  const DecodeShape& shape = *chosen;
  if (const std::uint32_t most = shape.block.dims; most != 0 && desc.head_dim > most) {
    return unsupported("reads keys a step ahead (dims ", most, ") for heads of up to ", most,
                       " dims; here are ", desc.head_dim);
  }
  KernelConfig config;
  config.tile = shape.block;
  config.shader = shader_for(desc, capabilities, "attention_decode", "attention_decode_words");
  config.workgroup_size = shape.block.threads;
  config.rows_per_workgroup = shape.tile_rows();
  config.shared_bytes = shape.shared_bytes();
  config.key_step = shape.key_groups() * shape.block.keys;
  if (score_function_hides(desc) || desc.kv_length >= kFewestKeysOfBlockMask)
    config.block_mask_keys = config.key_step;
  config.workgroups_per_unit = std::max(1U, kBytesPerUnit / (shape.block.threads * shape.in_flight() * 4));
  // An H100 takes 69 us for 32768 keys of 8 KV heads with 4 workgroups a unit, 76 with 3 and 84 with 6.
  constexpr std::uint32_t kMostPerUnitNvidia = 4;
  if (capabilities.vendor_id == kVendorNvidia)
    config.workgroups_per_unit = std::min(config.workgroups_per_unit, kMostPerUnitNvidia);
  config.loops_over_dims = false;
  config.most_partial_rows = shape.most_partial_rows();
  config.required_subgroup_size = required_subgroup_size(capabilities, shape.subgroup_size);
  add_specialization(desc, shape, config.constants);
  config.constants.push_back({VKATTN_SPEC_WRITES_OUT_STEPS, writes_out_steps(capabilities) ? 1U : 0U});
  config.summary = message(shape.tile_rows(), " rows x ", config.key_step, " keys a step, ",
                           shape.block.threads, " invocations, ", shape.columns, " to a key, subgroups of ",
                           shape.subgroup_size, shape.block.dims != 0 ? ", keys read a step ahead" : "",
                           ", queries in ", shape.query_in_registers() ? "registers, " : "shared memory, ",
                           config.shared_bytes, " bytes of shared memory");
  return config;
}

}  // namespace vkattn::detail
