// The forms of the backward pass: see backward_kernel.hpp.
#include "backward/backward_kernel.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "attention/features.hpp"
#include "backward/backward_layout.hpp"
#include "backward/gradient_table.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/block_limits.hpp"
#include "kernels/select.hpp"
#include "kernels/tile_table.hpp"
#include "kernels/vendors.hpp"
#include "shared/attention_constants.h"
#include "shared/backward_constants.h"
#include "shared/shared_memory.h"
#include "vkattn_core_shaders.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::detail {

namespace {

bool has_16bit_tensor(const BackwardDesc& desc) {
  const AttentionDesc& a = desc.attention;
  for (const TensorDesc& tensor : {a.query, a.key, a.value, a.output}) {
    if (element_bytes(tensor.type) == 2) return true;
  }
  for (const GradientRow& row : tensor_table<BackwardTensors>()) {
    if (row.is_used(desc) && element_bytes(row.storage(desc).type) == 2) return true;
  }
  return false;
}

// The largest step of at most `most` rows or keys of which a problem of `count` has two. A step is written
// out, so what a CPU's compiler takes grows with it: seconds for steps that a small problem hardly needs.
std::uint32_t step_on_cpu(std::int64_t count, std::uint32_t most) {
  constexpr std::uint32_t kLeast = 4;
  while (most > kLeast && 2 * std::int64_t{most} > count) most /= 2;
  return most;
}

// True if the problem is large enough for long steps: a CPU's compiler takes longer for them.
bool gains_by_long_steps(const AttentionDesc& desc, const Capabilities& capabilities) {
  constexpr std::int64_t kManyPairs = 1 << 16;  // of a KV head
  return takes_long_steps(capabilities) && packed_rows(desc) * desc.kv_length >= kManyPairs;
}

constexpr auto kFewMasked = static_cast<std::uint32_t>(kMaskedStep);

// True if all steps shall be masked ones, of few rows or keys. A CPU's compiler takes seconds for more,
// because rows that are no multiple of four dims are loaded element by element, and so few pairs run in
// microseconds.
bool gains_by_short_steps(const AttentionDesc& desc) {
  constexpr std::int64_t kFewPairs = 1 << 14;  // of a KV head
  return (desc.head_dim % 4 != 0 || desc.value_dim % 4 != 0) &&
         packed_rows(desc) * desc.kv_length < kFewPairs;
}

std::uint32_t visited_keys_on_cpu(const AttentionDesc& desc, const Capabilities& capabilities) {
  if (gains_by_short_steps(desc)) return kFewMasked;
  return step_on_cpu(desc.kv_length, gains_by_long_steps(desc, capabilities) ? 32 : 16);
}

// A step's rows share loads and stores of sums; rows that do not fill a large step take small ones.
std::uint32_t visited_rows_on_cpu(const AttentionDesc& desc, const Capabilities& capabilities) {
  constexpr std::uint32_t kMost = 64, kMany = 32, kFew = 16;
  constexpr std::int64_t kManyRows = 1024;
  const std::int64_t rows = packed_rows(desc);
  if (gains_by_short_steps(desc)) return kFewMasked;
  if (rows >= kManyRows && gains_by_long_steps(desc, capabilities)) return kMost;
  return step_on_cpu(rows, rows % kMany < kFew ? kMany : kFew);
}

// The rows or keys of a masked step, if the pass visits `count` and a full step has `full`. They share loads
// and stores of sums, so there should be many where many are visited in masked steps: all behind a mask,
// those at a causal diagonal or a window's edges, and those that full steps leave over.
std::uint32_t masked_step_on_cpu(const AttentionDesc& desc, const Capabilities& capabilities,
                                 std::int64_t count, std::uint32_t full) {
  constexpr std::uint32_t kAll = 32, kMany = 16;
  const bool is_long = gains_by_long_steps(desc, capabilities);
  if (scores_hide(desc)) return std::min(full, is_long ? kAll : kMany);
  const bool positions_hide = desc.causal || desc.window != SlidingWindow{};
  return is_long && (positions_hide || count % full > kMany / 2) ? std::min(full, kMany) : kFewMasked;
}

// Invocations without barriers (shaders/backward/lane_rows.comp, lane_keys.comp), made for CPU
// implementations. A CPU has a step's numbers in caches, a GPU must hold them in registers, so its steps are
// small.
Result<BackwardKernel> configure_lane_backward(const BackwardDesc& desc, const Capabilities& capabilities) {
  const AttentionDesc& attention = desc.attention;
  const bool is_cpu = capabilities.is_cpu();
  const std::uint32_t owned = is_cpu ? 4 : 1;  // rows or keys of an invocation
  const std::uint32_t visited_keys = is_cpu ? visited_keys_on_cpu(attention, capabilities) : 8;  // of a step
  const std::uint32_t visited_rows = is_cpu ? visited_rows_on_cpu(attention, capabilities) : 8;
  const std::uint32_t threads = is_cpu ? std::clamp(capabilities.subgroup_size, 4U, 16U) : 64;
  const std::uint32_t full_steps = is_cpu && gains_by_short_steps(attention) ? 0 : 1;
  const auto masked = [&](std::int64_t count, std::uint32_t full) {
    return is_cpu ? masked_step_on_cpu(attention, capabilities, count, full) : kFewMasked;
  };
  const bool wide = loads_wide(capabilities);
  const bool by_address = reads_by_address(capabilities, 4);
  const auto shader = [&](std::string_view base) {
    return wide ? message(base, "_wide") : backward_shader(desc, capabilities, base);
  };
  BackwardKernel kernel;
  kernel.rows.shader = shader("backward_lane_rows");
  kernel.rows.workgroup_size = threads;
  kernel.rows.constants = {{VKATTN_SPEC_STEP_ROWS, owned},
                           {VKATTN_SPEC_LANE_KEYS, visited_keys},
                           {VKATTN_SPEC_LANE_KEYS_FIRST, wide ? 1U : 0U},
                           {VKATTN_SPEC_LANE_BY_ADDRESS, by_address ? 1U : 0U},
                           {VKATTN_SPEC_MASKED_STEP, masked(attention.kv_length, visited_keys)},
                           {VKATTN_SPEC_FULL_STEPS, full_steps},
                           {VKATTN_SPEC_TILES_IN_PAIRS, is_cpu ? 1U : 0U}};
  kernel.row_tile = threads * owned;
  kernel.keys.shader = shader("backward_lane_keys");
  kernel.keys.workgroup_size = threads;
  kernel.keys.constants = {{VKATTN_SPEC_STEP_KEYS, owned},
                           {VKATTN_SPEC_STEP_ROWS, visited_rows},
                           {VKATTN_SPEC_LANE_BY_ADDRESS, by_address ? 1U : 0U},
                           {VKATTN_SPEC_MASKED_STEP, masked(packed_rows(attention), visited_rows)},
                           {VKATTN_SPEC_FULL_STEPS, full_steps},
                           {VKATTN_SPEC_TILES_IN_PAIRS, is_cpu ? 1U : 0U}};
  kernel.key_tile = threads * owned;
  if (by_address) {
    kernel.rows.by_address = {VKATTN_BINDING_KEY, VKATTN_BINDING_VALUE};
    kernel.keys.by_address = {VKATTN_BINDING_QUERY, VKATTN_BINDING_GRAD_OUTPUT};
  }
  kernel.key_sums_in_workspace = true;
  kernel.keeps_deltas = kernel.avoids_shared_sets = is_cpu;
  if (is_cpu) kernel.pair_tile = kernel.key_tile;
  kernel.summary = message(threads, " invocations a workgroup, ", owned, " rows or keys each, ", visited_keys,
                           " keys or ", visited_rows, " rows a step");
  return kernel;
}

// A pass of the kernel tile: its grid of threads, and the rows or keys that a thread owns and visits.
struct BackwardTile {
  std::uint32_t threads = 0, columns = 0, owned = 0, visited = 0;

  [[nodiscard]] std::uint32_t block() const { return threads / columns * owned; }
  [[nodiscard]] std::uint32_t visited_block() const { return columns * visited; }
  [[nodiscard]] std::uint32_t shared_bytes() const {
    return 16 * VKATTN_BACKWARD_ROW_STAGE4(block(), columns, visited) +
           16 * VKATTN_BACKWARD_KEY_STAGE4(visited_block(), columns);
  }
};

// Blocks for devices of an architecture, and for heads with at least so many dims.
struct BackwardEntry {
  Architecture architecture;
  std::int64_t dims;
  BackwardTile rows, keys;
};

// The first row that matches and fits is taken. A thread's sums are owned * dims / columns; Mali has 64
// registers for all numbers of a thread (docs/compilers.txt).
constexpr std::array kTileBlocks{
    BackwardEntry{Architecture::kMali, 129, {128, 32, 1, 1}, {128, 32, 1, 1}},
    BackwardEntry{Architecture::kMali, 65, {128, 32, 2, 1}, {128, 32, 2, 1}},
    BackwardEntry{Architecture::kMali, 0, {128, 16, 2, 2}, {128, 16, 2, 2}},
    BackwardEntry{Architecture::kAny, 385, {128, 16, 2, 2}, {128, 16, 2, 2}},
    BackwardEntry{Architecture::kAny, 0, {128, 16, 4, 2}, {128, 16, 4, 2}},
};

Result<void> check_fits(const BackwardTile& tile, const Capabilities& capabilities) {
  return check_limits({tile.shared_bytes(), tile.threads, 0}, capabilities);
}

std::string summary_of(const BackwardTile& tile, std::string_view owned, std::string_view visited) {
  return message(tile.block(), " ", owned, " x ", tile.visited_block(), " ", visited, ", ", tile.threads,
                 " invocations, ", tile.shared_bytes(), " bytes of shared memory");
}

// AMD's compiler also keeps loops over few chunks of dims: docs/trials/gpu_compilers.md.
bool writes_out(const BackwardDesc& desc, const Capabilities& capabilities) {
  constexpr std::int64_t kFewDims = 64;
  return writes_out_steps(capabilities) ||
         (capabilities.vendor_id == kVendorAmd &&
          std::max(desc.attention.head_dim, desc.attention.value_dim) <= kFewDims);
}

BackwardKernel tile_kernel(const BackwardDesc& desc, const Capabilities& capabilities,
                           const BackwardEntry& entry) {
  BackwardKernel kernel;
  kernel.rows.shader = backward_shader(desc, capabilities, "backward_tile_rows");
  kernel.keys.shader = backward_shader(desc, capabilities, "backward_tile_keys");
  const auto set = [&](PassConfig& pass, const BackwardTile& tile) {
    pass.workgroup_size = tile.threads;
    pass.constants = {{VKATTN_SPEC_TILE_COLUMNS, tile.columns},
                      {VKATTN_SPEC_STEP_OWNED, tile.owned},
                      {VKATTN_SPEC_STEP_VISITED, tile.visited},
                      {VKATTN_SPEC_WRITES_OUT_STEPS, writes_out(desc, capabilities) ? 1U : 0U}};
  };
  set(kernel.rows, entry.rows);
  set(kernel.keys, entry.keys);
  kernel.row_tile = entry.rows.block();
  kernel.key_tile = entry.keys.block();
  kernel.gradients_per_workgroup = 1;
  kernel.pairs_apart = true;
  kernel.summary = summary_of(entry.rows, "rows", "keys") + "; " + summary_of(entry.keys, "keys", "rows");
  return kernel;
}

// Threads that share stages (shaders/backward/tile_rows.comp, tile_keys.comp).
Result<BackwardKernel> configure_tile_backward(const BackwardDesc& desc, const Capabilities& capabilities) {
  const Architecture own = architecture(capabilities);
  const std::int64_t dims = std::max(desc.attention.head_dim, desc.attention.value_dim);
  Result<void> fits;
  for (const BackwardEntry& entry : kTileBlocks) {
    if (entry.architecture != Architecture::kAny && entry.architecture != own) continue;
    if (dims < entry.dims) continue;
    fits = check_fits(entry.rows, capabilities);
    if (fits) fits = check_fits(entry.keys, capabilities);
    if (fits) return tile_kernel(desc, capabilities, entry);
  }
  return fits.error();
}

using Configure = Result<BackwardKernel> (*)(const BackwardDesc& desc, const Capabilities& capabilities);
using ConfigureTile = Result<BackwardKernel> (*)(const BackwardDesc& desc, const Capabilities& capabilities,
                                                 const TileSizes* tile);

// A kernel with blocks of its own, or one that also takes those that are asked for.
struct NamedKernel {
  std::string_view name;
  Configure configure = nullptr;
  ConfigureTile configure_tile = nullptr;
};

constexpr NamedKernel kLane{"lane", configure_lane_backward};
constexpr NamedKernel kTile{"tile", configure_tile_backward};
constexpr NamedKernel kMatrix{"matrix", configure_matrix_backward};
constexpr NamedKernel kMatrix2{"matrix2", nullptr, configure_matrix2_backward};

// The order of attention's kernels: CPU implementations run barriers as coroutines and emulate matrices, a
// few rows fill no matrix, and before Xe2 Intel's matrices take more registers than there are.
std::array<NamedKernel, 4> ordered(const AttentionDesc& desc, const Capabilities& capabilities) {
  if (capabilities.is_cpu()) return {kLane, kTile, kMatrix, kMatrix2};
  const bool is_slow_on_matrices =
      packed_rows(desc) <= kFewRows || architecture(capabilities) == Architecture::kIntelGen12;
  if (is_slow_on_matrices) return {kTile, kMatrix2, kMatrix, kLane};
  return {kMatrix2, kMatrix, kTile, kLane};
}

// The kernel's configuration, with its names. Refuses a form that this build of the library has left out, by
// its shader's name.
Result<BackwardKernel> configured(const NamedKernel& kernel, const BackwardDesc& desc,
                                  const Capabilities& capabilities, const TileSizes* tile = nullptr) {
  const bool takes_tile = kernel.configure_tile != nullptr;
  if (tile != nullptr && !takes_tile) {
    return unsupported("has block sizes of its own for gradients, and takes no others");
  }
  auto made =
      takes_tile ? kernel.configure_tile(desc, capabilities, tile) : kernel.configure(desc, capabilities);
  if (!made) return made;
  made->name = kernel.name;
  made->numbers.name = "row numbers";
  made->rows.name = "rows";
  made->keys.name = "keys";
  for (const PassConfig* pass : {&made->numbers, &made->rows, &made->keys}) {
    if (pass->shader.empty()) continue;
    if (const auto code = built_shader(shader_binaries(), pass->shader); !code) return code.error();
  }
  return made;
}

}  // namespace

std::string backward_shader(const BackwardDesc& desc, const Capabilities& capabilities,
                            std::string_view base) {
  return message(base, capabilities.storage_buffer_16bit && has_16bit_tensor(desc) ? "" : "_words");
}

Result<BackwardSelection> select_backward_kernel(const BackwardDesc& desc, const Capabilities& capabilities,
                                                 const PlanOptions& options) {
  const TileSizes* const tile = options.tile ? &*options.tile : nullptr;
  return select_first(
      ordered(desc.attention, capabilities), options, "these gradients",
      [&](const NamedKernel& kernel) { return configured(kernel, desc, capabilities, tile); });
}

PassConfig configure_mask_sums(const BackwardDesc& desc, const Capabilities& capabilities) {
  PassConfig pass;
  pass.name = "mask sums";
  pass.shader = backward_shader(desc, capabilities, "backward_mask");
  pass.workgroup_size = capabilities.is_cpu() ? 8 : 64;
  return pass;
}

PassConfig configure_head_sums() {
  PassConfig pass;
  pass.name = "head sums";
  pass.shader = "backward_heads";
  pass.workgroup_size = 64;
  return pass;
}

}  // namespace vkattn::detail

namespace vkattn {

std::vector<KernelSupport> kernel_support(const BackwardDesc& desc, const Capabilities& capabilities) {
  const Result<void> valid = validate(desc);
  const BackwardDesc resolved = valid ? desc.resolved() : BackwardDesc{};
  return detail::support_of(
      detail::ordered(resolved.attention, capabilities), valid,
      [&](const detail::NamedKernel& kernel) { return detail::configured(kernel, resolved, capabilities); });
}

std::vector<KernelTile> tuning_candidates(const BackwardDesc& desc, const Capabilities& capabilities) {
  std::vector<KernelTile> candidates;
  if (!validate(desc)) return candidates;
  const BackwardDesc resolved = desc.resolved();
  for (const detail::NamedKernel& kernel : detail::ordered(resolved.attention, capabilities)) {
    if (detail::configured(kernel, resolved, capabilities))
      candidates.push_back({std::string(kernel.name), {}});
    if (kernel.configure_tile == nullptr || capabilities.is_cpu()) continue;
    for (const TileSizes& tile : detail::staged_backward_tiles()) {
      if (detail::configured(kernel, resolved, capabilities, &tile))
        candidates.push_back({std::string(kernel.name), tile});
    }
  }
  return candidates;
}

}  // namespace vkattn
