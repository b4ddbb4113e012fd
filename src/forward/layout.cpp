// The layout of a forward pass: see layout.hpp.
#include "forward/layout.hpp"

#include <algorithm>
#include <cmath>

#include "attention/features.hpp"
#include "attention/tensor_table.hpp"
#include "common/checked.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "forward/attention_program.hpp"
#include "forward/gather.hpp"
#include "forward/windows.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

namespace {

constexpr std::int64_t kMaxTilesPerWindow = std::int64_t{1} << 31U;

/// Hands out pieces of the workspace one after the other.
class Workspace {
 public:
  explicit Workspace(const Capabilities& capabilities) : capabilities_(capabilities) {}

  [[nodiscard]] Result<WorkspaceArea> append(std::string_view what, double bytes) {
    if (bytes > static_cast<double>(capabilities_.max_storage_buffer_range)) {
      return limit_exceeded(what, " takes ", bytes, " bytes; maxStorageBufferRange is ",
                            capabilities_.max_storage_buffer_range);
    }
    const std::uint64_t alignment = binding_alignment(capabilities_);
    const WorkspaceArea area{round_up(bytes_, alignment), static_cast<std::uint64_t>(bytes)};
    bytes_ = area.offset + area.bytes;
    return area;
  }

  /// Checks that one buffer can hold all of it.
  [[nodiscard]] Result<void> check() const {
    const BufferLimit limit = buffer_limit(capabilities_);
    if (bytes_ <= limit.bytes) return {};
    return limit_exceeded("the workspace takes ", bytes_, " bytes; ", limit.name, " is ", limit.bytes);
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  void clear() { bytes_ = 0; }

 private:
  const Capabilities& capabilities_;
  std::uint64_t bytes_ = 0;
};

// The key step for make_windows(); 0: windows cannot cut the keys.
std::uint32_t window_key_step(const LayoutRequest& request) {
  const bool whole = request.config.whole_heads || has_movable_keys(request.desc) ||
                     request.desc.weights != WeightsStage::kNone;  // whose pass takes all keys of a row
  return whole ? 0 : request.config.key_step;
}

// Storage buffers that the device has for partial results and a block mask.
std::uint32_t spare_buffers(const LayoutRequest& request) {
  const std::uint32_t needed = storage_buffers(request.desc);
  return std::max(request.capabilities.max_stage_storage_buffers, needed) - needed;
}

// Whether there are too few storage buffers for each tensor to be bound, and partial results of a split.
bool must_gather(const LayoutRequest& request, const KvSplit& split) {
  const std::uint32_t needed = storage_buffers(request.desc) + (split.splits > 1 ? 1U : 0U);
  return needed > request.capabilities.max_stage_storage_buffers;
}

// The number of parts with which a block of rows stays below the limit of a dispatch, at most as many as the
// rule makes: a part of fewer keys is not worth its partial results.
std::int64_t parts_for_limit(const LayoutRequest& request) {
  const std::uint64_t limit_ns = dispatch_limit_ns(request.capabilities, request.options.max_dispatch_ns);
  if (limit_ns == 0 || request.options.kv_splits != 0) return 0;
  const double parts = std::ceil(row_tile_ns(request) / static_cast<double>(limit_ns));
  const std::int64_t most = most_kv_parts(request.desc, request.capabilities, request.config);
  return static_cast<std::int64_t>(std::min(parts, static_cast<double>(most)));
}

/// The windows of rows before keys are cut, and the workspace bytes of each row.
struct RowLayout {
  KvSplit split;
  Windows windows;
  std::int64_t row_bytes = 0;
  bool sums_in_workspace = false;
  bool gathers = false;
};

// How many parts the keys are cut into.
Result<KvSplit> choose_split(const LayoutRequest& request, const Windows& windows, double tiles,
                             std::int64_t least_parts) {
  const AttentionDesc& desc = request.desc;
  const KernelConfig& config = request.config;
  const auto tile_count = static_cast<std::int64_t>(std::min(tiles, 1e9));
  const bool keys_cut = windows.max_keys < desc.kv_length;
  KvSplit split =
      choose_kv_split(desc, request.capabilities, config, tile_count, keys_cut, request.options.kv_splits);
  if (split.splits < least_parts) {
    split = choose_kv_split(desc, request.capabilities, config, tile_count, keys_cut, least_parts);
  }
  const std::int64_t span = keys_cut ? desc.kv_length : most_visible_keys(desc, config.rows_per_workgroup);
  std::int64_t most = keys_cut ? windows.max_keys : span;
  if (request.options.kv_splits == 0) {
    most = std::min(most, most_keys_of_part(desc, request.capabilities, config));
  }
  if (std::min(split.keys, span) > most) {
    split = split_span(desc.kv_length, span, divide_up(span, most), config.key_step);
  }
  if (Result<void> s = check_part_keys(desc, request.capabilities, config, request.options, split.keys); !s)
    return s.error();
  if (split.splits <= kMaxKvSplits) return split;
  return limit_exceeded("the keys of one head take ", split.splits, " parts; at most ", kMaxKvSplits,
                        " are possible");
}

// Bytes of the workspace for a window's rows, before tiles' own parts.
std::int64_t row_workspace_bytes(const LayoutRequest& request, const RowLayout& rows, const Window& window) {
  if (rows.gathers) return static_cast<std::int64_t>(gathered_buffer(request, rows.split, window).bytes);
  return saturating_multiply(workspace_rows(request.desc, window), rows.row_bytes);
}

// Tiles' own parts begin at a cache line.
std::uint64_t tile_byte(const LayoutRequest& request, const RowLayout& rows, const Window& window) {
  constexpr std::uint64_t kLine = 64;
  return round_up(static_cast<std::uint64_t>(row_workspace_bytes(request, rows, window)), kLine);
}

std::int64_t workspace_bytes(const LayoutRequest& request, const RowLayout& rows, const Window& window) {
  if (request.config.tile_workspace_bytes == 0) return row_workspace_bytes(request, rows, window);
  const auto tiles = static_cast<std::int64_t>(row_tiles(request, window)) * rows.split.splits;
  return saturating_add(static_cast<std::int64_t>(tile_byte(request, rows, window)),
                        saturating_multiply(tiles, request.config.tile_workspace_bytes));
}

Result<RowLayout> row_layout(const LayoutRequest& request, Windows windows, double tiles,
                             std::int64_t least_parts) {
  auto split = choose_split(request, windows, tiles, least_parts);
  if (!split) return split.error();
  const bool wants_sums =
      request.config.sums_in_workspace && request.options.kv_splits == 0 && spare_buffers(request) > 0;
  RowLayout layout{*split, std::move(windows), 0, false, must_gather(request, *split)};
  if (split->splits == 1 && !wants_sums && !layout.gathers) return layout;
  RowLayout smaller = layout;
  const bool is_needed = split->splits > 1 || layout.gathers;
  smaller.row_bytes = 4 * (is_needed ? split->splits * (request.desc.value_dim + 1) : request.desc.value_dim);
  auto made = make_windows(request.desc, request.capabilities, window_key_step(request),
                           [&](const Window& window) { return workspace_bytes(request, smaller, window); });
  if (!made && is_needed) return made.error();
  if (!made) return layout;  // the sums can live elsewhere
  layout.windows = *std::move(made);
  layout.row_bytes = smaller.row_bytes;
  layout.sums_in_workspace = !is_needed;
  return layout;
}

// A piece of the workspace for the rows of each window.
Result<std::vector<WorkspaceArea>> row_areas(const LayoutRequest& request, const RowLayout& rows,
                                             Workspace& workspace) {
  std::vector<WorkspaceArea> areas;
  for (const Window& window : rows.windows.windows) {
    auto area =
        workspace.append("the workspace", static_cast<double>(workspace_bytes(request, rows, window)));
    if (!area) return area.error();
    areas.push_back(*area);
  }
  if (Result<void> s = workspace.check(); !s) return s.error();
  return areas;
}

// Cuts the windows of rows further, so that the keys of one head fit a descriptor.
void cut_keys(const LayoutRequest& request, const RowLayout& rows, const std::vector<WorkspaceArea>& areas,
              std::vector<PlannedWindow>& planned) {
  const AttentionDesc& desc = request.desc;
  const std::int64_t max_keys = rows.windows.max_keys;
  const std::int64_t parts = std::max<std::int64_t>(max_keys / std::max<std::int64_t>(rows.split.keys, 1), 1);
  const std::int64_t keys = max_keys < desc.kv_length ? parts * rows.split.keys : desc.kv_length;
  for (std::size_t i = 0; i < rows.windows.windows.size(); ++i) {
    Window window = rows.windows.windows[i];
    do {
      window.keys = std::min(keys, desc.kv_length - window.first_key);
      PlannedWindow& next = planned.emplace_back();
      next.window = window;
      next.tensors = tensor_windows(desc, window);
      if (!areas.empty()) next.partials = areas[i];
      next.tile_byte = tile_byte(request, rows, rows.windows.windows[i]);
      window.first_key += window.keys;
    } while (window.first_key < desc.kv_length);
  }
}

MaskBlocks blocks_of(const LayoutRequest& request, const Window& window) {
  const AttentionDesc& desc = request.desc;
  const std::int64_t group = std::min(desc.query_heads / desc.kv_heads, window.heads);
  const bool by_position = score_function_hides(desc);  // may depend on anything
  MaskBlocks blocks;
  blocks.keys = divide_up(desc.kv_length, std::int64_t{request.config.block_mask_keys});
  blocks.rows = divide_up(window.rows * group, std::int64_t{request.config.rows_per_workgroup});
  blocks.heads = by_position || desc.mask.strides->head != 0 ? window.heads / group : 1;
  blocks.batch = by_position || desc.mask.strides->batch != 0 ? window.batch : 1;
  return blocks;
}

// If one block holds all keys, the kernel itself looks at it. Attention weights look at every key anyway, so
// little would be saved; with a combine pass there would be four pipelines.
bool wants_block_mask(const AttentionDesc& desc, const KernelConfig& config) {
  return scores_hide(desc) && config.block_mask_keys != 0 && desc.weights == WeightsStage::kNone &&
         desc.kv_length > config.block_mask_keys;
}

// Adds the workspace of features for a window. Windows with further keys of the same rows share the results
// of passes over whole rows.
Result<void> add_feature_areas(const LayoutRequest& request, Workspace& workspace, ForwardLayout& layout,
                               std::size_t index) {
  PlannedWindow& window = layout.windows[index];
  if (request.options.push_descriptors) {
    auto area = workspace.append("the feature parameters", sizeof(FeatureParams));
    if (!area) return area.error();
    window.feature_params = *area;
  }
  if (layout.has_block_mask) window.blocks = blocks_of(request, window.window);
  if (window.window.first_key != 0) {
    const PlannedWindow& before = layout.windows[index - 1];
    window.block_mask = before.block_mask;
    window.kept_mask_byte = before.kept_mask_byte;
    window.lse = before.lse;
    return {};
  }
  if (layout.has_block_mask) {
    auto area = workspace.append("the block mask", 4 * static_cast<double>(window.blocks.count()));
    if (!area) return area.error();
    window.block_mask = *area;
    const std::uint64_t alignment = binding_alignment(request.capabilities);
    window.kept_mask_byte = round_up(layout.block_mask_bytes, alignment);
    layout.block_mask_bytes = window.kept_mask_byte + area->bytes;
  }
  if (needs_row_lse(request.desc) && !request.desc.has_lse && !layout.gathers) {
    const double bytes = 4 * static_cast<double>(workspace_rows(request.desc, window.window));
    auto area = workspace.append("the log-sum-exp of each row", bytes);
    if (!area) return area.error();
    window.lse = *area;
  }
  return {};
}

// The tiles whose last workgroup combines their parts, or 0 (docs/kernels.md, Split over keys). All parts of
// a tile are in one dispatch, so no execution that was recorded in slices leaves a count behind.
std::int64_t counted_tiles(const LayoutRequest& request, const ForwardLayout& layout) {
  // A compute unit reads these from its cache in about the time of another dispatch.
  constexpr double kMostBytes = 262144;
  constexpr double kMostTiles = 16384;
  const Capabilities& device = request.capabilities;
  const std::int64_t parts = layout.split.splits;
  const std::int64_t rows = std::int64_t{request.config.rows_per_workgroup} * parts;
  if (!layout.splits_keys() || layout.windows.size() != 1 || rows > request.config.most_partial_rows)
    return 0;
  if (4.0 * static_cast<double>(rows) * static_cast<double>(request.desc.value_dim) > kMostBytes) return 0;
  // The counts lie in the bindings' memory, as a workspace may hold anything.
  if (request.options.push_descriptors || !device.mapped_device_memory) return 0;
  if (layout.gathers || (!has_features(request.desc) && spare_buffers(request) < 2)) return 0;
  if (!device.vulkan_memory_model || !device.vulkan_memory_model_device_scope) return 0;
  const double tiles = row_tiles(request, layout.windows.front().window);
  const double units = tiles * static_cast<double>(parts);
  const UnitLimits limits = dispatch_limits(device, request.options.max_dispatch_ns,
                                            row_tile_ns(request) / static_cast<double>(parts));
  const double most =
      std::min(static_cast<double>(limits.most_units),
               static_cast<double>(device.max_workgroup_count[0]) * device.max_workgroup_count[1]);
  return units <= most && tiles <= kMostTiles ? static_cast<std::int64_t>(tiles) : 0;
}

Result<ForwardLayout> lay_out_parts(const LayoutRequest& request, std::int64_t least_parts) {
  auto windows = make_windows(request.desc, request.capabilities, window_key_step(request));
  if (!windows) return windows.error();
  double tiles = 0;
  for (const Window& window : windows->windows) {
    const double count = row_tiles(request, window);
    if (count > static_cast<double>(kMaxTilesPerWindow)) {
      return limit_exceeded("batch x query_heads x row tiles is ", count, "; at most ", kMaxTilesPerWindow,
                            " are possible, so split the batch");
    }
    tiles += count;
  }
  const Windows without_sums = *windows;
  auto rows = row_layout(request, *std::move(windows), tiles, least_parts);
  if (!rows) return rows.error();
  Workspace workspace(request.capabilities);
  std::vector<WorkspaceArea> areas;
  if (rows->row_bytes != 0 || request.config.tile_workspace_bytes != 0) {
    auto made = row_areas(request, *rows, workspace);
    if (made) {
      areas = *std::move(made);
    } else if (!rows->sums_in_workspace) {
      return made.error();
    } else {  // the sums can live elsewhere
      *rows = RowLayout{rows->split, without_sums};
      workspace.clear();
    }
  }
  ForwardLayout layout;
  layout.split = rows->split;
  layout.has_partials = rows->row_bytes != 0;
  layout.sums_in_workspace = rows->sums_in_workspace;
  layout.gathers = rows->gathers;
  const std::uint32_t wanted = (areas.empty() ? 0U : 1U) + 1;
  layout.has_block_mask =
      !layout.gathers && spare_buffers(request) >= wanted && wants_block_mask(request.desc, request.config);
  layout.whole = tensor_windows(request.desc, whole_window(request.desc));
  cut_keys(request, *rows, areas, layout.windows);
  layout.counted_tiles = counted_tiles(request, layout);
  if (has_features(request.desc)) {
    for (std::size_t i = 0; i < layout.windows.size(); ++i) {
      if (Result<void> s = add_feature_areas(request, workspace, layout, i); !s) return s.error();
    }
    if (Result<void> s = workspace.check(); !s) return s.error();
  }
  layout.workspace_bytes = workspace.bytes();
  return layout;
}

}  // namespace

double row_tiles(const LayoutRequest& request, const Window& window) {
  // The query heads of a KV head are packed into one list of rows (shaders/lib/grid.glsl).
  const std::int64_t heads_per_kv = std::min(request.desc.query_heads / request.desc.kv_heads, window.heads);
  const std::int64_t tiles_per_head =
      divide_up(window.rows * heads_per_kv, std::int64_t{request.config.rows_per_workgroup});
  return static_cast<double>(tiles_per_head) * static_cast<double>(window.heads / heads_per_kv) *
         static_cast<double>(window.batch);
}

std::int64_t window_parts(const KvSplit& split, const Window& window) {
  return split.splits == 1 ? 1 : std::min(split.splits, divide_up(window.keys, split.keys));
}

double row_tile_ns(const LayoutRequest& request) {
  const AttentionDesc& desc = request.desc;
  const KernelConfig& kernel = request.config;
  // All but lane share what they read.
  constexpr double kSharing = 4;
  const double flops_per_ns =
      assumed_flops_per_ns(request.capabilities) * (kernel.name == "lane" ? 1 : kSharing);
  const std::int64_t keys = most_visible_keys(desc, kernel.rows_per_workgroup);
  return 2.0 * kernel.rows_per_workgroup * static_cast<double>(keys) *
         static_cast<double>(desc.head_dim + desc.value_dim) / flops_per_ns;
}

Result<ForwardLayout> lay_out(const LayoutRequest& request) {
  const std::int64_t least_parts = parts_for_limit(request);
  if (least_parts > 1) {
    auto cut = lay_out_parts(request, least_parts);
    if (cut) return cut;  // else there is no room for their results
  }
  return lay_out_parts(request, 0);
}

}  // namespace vkattn::detail
