// From a chosen kernel to windows, parts of the keys, workspace and the list of dispatches.
#include "plan/dispatches.hpp"

#include <algorithm>
#include <cmath>

#include "common/integers.hpp"
#include "common/message.hpp"
#include "plan/feature_params.hpp"
#include "plan/features.hpp"

namespace vkattn::detail {

namespace {

constexpr std::int64_t kMaxTilesPerWindow = std::int64_t{1} << 31U;
constexpr double kLog2E = 1.4426950408889634;

// A guess, low on purpose: it bounds how long a dispatch may take, and is never shown as a speed.
double assumed_flops_per_ns(const Capabilities& capabilities, std::string_view kernel) {
  const double device = capabilities.device_type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ? 400.0 : 50.0;
  return kernel == "lane" || kernel == "unfused" ? device / 4 : device;
}

// The stride where the window has several, else 0: an unused stride may be too large for the parameter.
std::uint32_t stride32(std::int64_t stride, std::int64_t extent) {
  return extent > 1 ? static_cast<std::uint32_t>(stride) : 0U;
}

AttentionParams window_params(const PlanState& plan, const Window& w) {
  const AttentionDesc& desc = plan.desc;
  const std::int64_t group = desc.query_heads / desc.kv_heads;
  const std::int64_t kv_heads = divide_up(w.heads, group);
  AttentionParams p{};
  // What is packed has no stride between its entries; pages are the batch entries of K and V.
  const std::int64_t row_entries = desc.has_packed_queries() ? 1 : w.batch;
  const TensorExtents keys = key_extents(desc, 1);
  const bool one_memory = desc.has_cumulative_lengths || desc.cache.mapping == KeyMapping::kPaged;
  const std::int64_t key_entries = one_memory ? keys.batch : w.batch;
  const std::int64_t rows = desc.has_packed_queries() ? desc.total_query_length : w.rows;
  p.query_batch_stride = stride32(desc.query.strides.batch, row_entries);
  p.query_head_stride = stride32(desc.query.strides.head, w.heads);
  p.query_row_stride = stride32(desc.query.strides.row, rows);
  p.key_batch_stride = stride32(desc.key.strides.batch, key_entries);
  p.key_head_stride = stride32(desc.key.strides.head, kv_heads);
  // Modulo 2^32, as is what lies before the window's first key (step_params()).
  p.key_row_stride = stride32(desc.key.strides.row, keys.rows);
  p.value_batch_stride = stride32(desc.value.strides.batch, key_entries);
  p.value_head_stride = stride32(desc.value.strides.head, kv_heads);
  p.value_row_stride = stride32(desc.value.strides.row, keys.rows);
  p.output_batch_stride = stride32(desc.output.strides.batch, row_entries);
  p.output_head_stride = stride32(desc.output.strides.head, w.heads);
  p.output_row_stride = stride32(desc.output.strides.row, rows);
  // Without a buffer of the caller's, the workspace holds it, dense.
  const Strides lse = desc.has_lse ? desc.lse_strides : Strides{w.heads * rows, rows, 1, 1};
  p.lse_batch_stride = stride32(lse.batch, row_entries);
  p.lse_head_stride = stride32(lse.head, w.heads);
  p.lse_row_stride = stride32(lse.row, rows);
  p.query_length = static_cast<std::uint32_t>(w.rows);
  p.kv_length = static_cast<std::uint32_t>(desc.kv_length);
  p.query_heads = static_cast<std::uint32_t>(w.heads);
  p.heads_per_kv = static_cast<std::uint32_t>(std::min(group, w.heads));
  p.causal_offset = right_offset(desc, w);
  p.scale_log2 = static_cast<float>(static_cast<double>(desc.effective_scale()) * kLog2E);
  p.kv_splits = static_cast<std::uint32_t>(plan.split.splits);
  p.split_keys = static_cast<std::uint32_t>(plan.split.keys);
  const std::int64_t first_part = w.first_key / std::max<std::int64_t>(plan.split.keys, 1);
  p.window_parts = static_cast<std::uint32_t>(first_part | window_parts(plan.split, w) << 16);
  return p;
}

// Of make_windows(): 0 where windows cannot cut the keys.
std::uint32_t window_key_step(const PlanState& plan) {
  const bool whole = plan.config.whole_heads || has_movable_keys(plan.desc) ||
                     plan.desc.weights != WeightsStage::kNone;  // whose pass takes all keys of a row
  return whole ? 0 : plan.config.key_step;
}

// Row tiles of a window; in floating point, for the product may not fit.
double row_tiles(const PlanState& plan, const Window& window) {
  // The query heads of a KV head are packed into one list of rows (shaders/lib/grid.glsl).
  const std::int64_t heads_per_kv = std::min(plan.desc.query_heads / plan.desc.kv_heads, window.heads);
  const std::int64_t tiles_per_head = divide_up(window.rows * heads_per_kv, plan.config.rows_per_workgroup);
  return static_cast<double>(tiles_per_head) * static_cast<double>(window.heads / heads_per_kv) *
         static_cast<double>(window.batch);
}

double window_rows(const Window& w) {
  return static_cast<double>(w.batch) * static_cast<double>(w.heads) * static_cast<double>(w.rows);
}

// Tiles one dispatch may have: what the grid can hold, and what the time limit allows.
std::int64_t tiles_per_dispatch(const PlanState& plan, double tile_ns) {
  const Capabilities& c = plan.device->capabilities;
  std::int64_t tiles = std::min<std::int64_t>(
      static_cast<std::int64_t>(c.max_workgroup_count[0]) * c.max_workgroup_count[1], kMaxTilesPerWindow);
  if (!c.is_cpu() && tile_ns > 0) {
    const double allowed = std::floor(static_cast<double>(plan.options.max_dispatch_ns) / tile_ns);
    tiles = std::min(tiles, static_cast<std::int64_t>(std::clamp(allowed, 1.0, 2.0e9)));
  }
  return tiles;
}

void add_steps(PlanState& plan, std::size_t window_index, std::size_t pass, std::int64_t tiles,
               double tile_ns) {
  const std::int64_t most = tiles_per_dispatch(plan, tile_ns);
  const std::int64_t max_x = plan.device->capabilities.max_workgroup_count[0];
  const std::int64_t parts = divide_up(tiles, most);
  const std::int64_t each = divide_up(tiles, parts);  // even parts rather than a small last one
  for (std::int64_t first = 0; first < tiles; first += each) {
    const std::int64_t count = std::min(each, tiles - first);
    const std::int64_t rows = divide_up(count, max_x);
    const std::int64_t columns = divide_up(count, rows);
    plan.steps.push_back({static_cast<std::uint32_t>(window_index), static_cast<std::uint32_t>(pass),
                          static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count),
                          static_cast<std::uint32_t>(columns), static_cast<std::uint32_t>(rows)});
    DispatchInfo info;
    info.pass = plan.passes[pass].name;
    info.first_tile = static_cast<std::uint64_t>(first);
    info.tile_count = static_cast<std::uint64_t>(count);
    info.workgroups[0] = static_cast<std::uint32_t>(columns);
    info.workgroups[1] = static_cast<std::uint32_t>(rows);
    info.workgroups[2] = 1;
    info.estimated_ns = static_cast<double>(count) * tile_ns;
    plan.dispatches.push_back(info);
  }
}

// Gives each window of rows a piece of the workspace of so many bytes for each row, or says why that is not
// possible.
Status lay_out_workspace(PlanState& plan, const std::vector<Window>& windows, double row_bytes) {
  const Capabilities& capabilities = plan.device->capabilities;
  const std::uint64_t alignment = binding_alignment(capabilities);
  for (const Window& window : windows) {
    const double bytes = static_cast<double>(workspace_rows(plan.desc, window)) * row_bytes;
    if (bytes > static_cast<double>(capabilities.max_storage_buffer_range)) {
      plan.areas.clear();
      return Error{ErrorCode::kLimitExceeded, VK_SUCCESS,
                   message("the workspace takes ", bytes, " bytes; maxStorageBufferRange is ",
                           capabilities.max_storage_buffer_range)};
    }
    const std::uint64_t offset =
        plan.areas.empty()
            ? 0
            : (plan.areas.back().offset + plan.areas.back().bytes + alignment - 1) / alignment * alignment;
    plan.areas.push_back({offset, static_cast<std::uint64_t>(bytes)});
  }
  plan.workspace_bytes = plan.areas.back().offset + plan.areas.back().bytes;
  const std::uint64_t most = std::min(capabilities.max_buffer_size, capabilities.max_memory_allocation_bytes);
  if (plan.workspace_bytes > most) {
    return Error{ErrorCode::kLimitExceeded, VK_SUCCESS,
                 message("the workspace takes ", plan.workspace_bytes, " bytes; ",
                         most == capabilities.max_buffer_size ? "maxBufferSize" : "maxMemoryAllocationSize",
                         " is ", most)};
  }
  return {};
}

// For kernels that keep the score matrix in memory: a workgroup computes one block of it.
Status plan_score_matrix(PlanState& plan, const Windows& windows) {
  const AttentionDesc& desc = plan.desc;
  if (windows.windows.size() > 1 || windows.max_keys < desc.kv_length) {
    return Error{ErrorCode::kUnsupported, VK_SUCCESS,
                 message("the kernel ", plan.kernel_name,
                         " takes tensors that fit one descriptor; maxStorageBufferRange is ",
                         plan.device->capabilities.max_storage_buffer_range)};
  }
  const std::int64_t keys = std::max<std::int64_t>(desc.kv_length, 1);
  plan.split = {divide_up(keys, plan.config.score_block_keys), plan.config.score_block_keys};
  if (plan.split.splits > kMaxKvSplits) {
    return Error{ErrorCode::kLimitExceeded, VK_SUCCESS,
                 message("the kernel ", plan.kernel_name, " takes at most ",
                         kMaxKvSplits * plan.config.score_block_keys, " keys; here are ", keys)};
  }
  return lay_out_workspace(plan, windows.windows, 4.0 * static_cast<double>(keys));
}

// Decides about a split over keys, and what it takes.
Status plan_split(PlanState& plan, Windows& windows, double tiles) {
  const AttentionDesc& desc = plan.desc;
  const std::int64_t wanted = plan.options.kv_splits;
  if (wanted > 1 && plan.config.key_step == 0) {
    return Error{ErrorCode::kUnsupported, VK_SUCCESS,
                 message("the kernel ", plan.kernel_name,
                         " cannot split the keys (PlanOptions::kv_splits is ", wanted, ")")};
  }
  const auto tile_count = static_cast<std::int64_t>(std::min(tiles, 1e9));
  const bool keys_cut = windows.max_keys < desc.kv_length;
  plan.split = choose_kv_split(desc, plan.device->capabilities, plan.config, tile_count, keys_cut, wanted);
  if (keys_cut && plan.split.keys > windows.max_keys) {
    plan.split =
        split_into(desc.kv_length, divide_up(desc.kv_length, windows.max_keys), plan.config.key_step);
  }
  if (plan.split.splits > kMaxKvSplits) {
    return Error{ErrorCode::kLimitExceeded, VK_SUCCESS,
                 message("the keys of one head take ", plan.split.splits, " parts; at most ", kMaxKvSplits,
                         " are possible")};
  }
  const bool sums_in_workspace = plan.config.sums_in_workspace && wanted == 0;
  if (plan.split.splits == 1 && !sums_in_workspace) return {};
  const std::int64_t row_bytes = 4 * plan.split.splits * (desc.value_dim + 1);
  auto smaller = make_windows(desc, plan.device->capabilities, window_key_step(plan), row_bytes);
  if (!smaller && plan.split.splits > 1) return smaller.error();
  if (!smaller) return {};  // the sums can live elsewhere
  windows = *std::move(smaller);
  if (Status status = lay_out_workspace(plan, windows.windows, static_cast<double>(row_bytes)); !status) {
    if (plan.split.splits > 1) return status;
    plan.areas.clear();  // the sums can live elsewhere
    plan.workspace_bytes = 0;
    return {};
  }
  if (plan.split.splits == 1) {
    plan.config.specialization.push_back({VKATTN_SPEC_SUMS_IN_WORKSPACE, 1});
    return {};
  }
  plan.config.specialization.push_back({VKATTN_SPEC_SPLIT_KV, 1});
  auto combine = configure_combine(desc, plan.device->capabilities, plan.split.splits);
  if (!combine) return combine.error();
  plan.config.following.push_back(*std::move(combine));
  return {};
}

// Cuts the windows of rows further, by what keys of one head fit a descriptor.
void cut_keys(PlanState& plan, const Windows& windows) {
  const std::int64_t kv_length = plan.desc.kv_length;
  const std::int64_t parts =
      std::max<std::int64_t>(windows.max_keys / std::max<std::int64_t>(plan.split.keys, 1), 1);
  const std::int64_t keys = windows.max_keys < kv_length ? parts * plan.split.keys : kv_length;
  for (std::size_t i = 0; i < windows.windows.size(); ++i) {
    Window window = windows.windows[i];
    do {
      window.keys = std::min(keys, kv_length - window.first_key);
      plan.windows.push_back(window);
      plan.window_areas.push_back(plan.areas.empty() ? WorkspaceArea{} : plan.areas[i]);
      plan.parts.push_back(tensor_windows(plan.desc, window));
      plan.params.push_back(window_params(plan, window));
      window.first_key += window.keys;
    } while (window.first_key < kv_length);
  }
}

void list_passes(PlanState& plan) {
  const auto add = [&](const FollowingPass& pass) {
    plan.passes.push_back({pass.name,
                           pass.shader,
                           pass.specialization,
                           pass.unit,
                           pass.units_per_workgroup,
                           pass.workgroup_flops,
                           0,
                           {}});
  };
  for (const FollowingPass& pass : plan.config.preceding) add(pass);
  plan.kernel_pass = plan.passes.size();
  plan.passes.push_back({plan.kernel_name,
                         plan.config.shader,
                         plan.config.specialization,
                         PassUnit::kTiles,
                         1,
                         0,
                         plan.config.required_subgroup_size,
                         {}});
  for (const FollowingPass& pass : plan.config.following) add(pass);
}

// Those of a pass beside the kernel's: `whole_tile_ns` is the time of a tile with all its keys.
void add_other_steps(PlanState& plan, std::size_t window, std::size_t pass, std::int64_t tiles,
                     double whole_tile_ns) {
  // They share nothing between rows, so they are no faster than the kernel that does not either.
  const double ns =
      plan.passes[pass].workgroup_flops / assumed_flops_per_ns(plan.device->capabilities, "lane");
  switch (plan.passes[pass].unit) {
    case PassUnit::kTiles:  // about half of the kernel's work
      return add_steps(plan, window, pass, tiles, whole_tile_ns / 2);
    case PassUnit::kRows:
      return add_steps(plan, window, pass, static_cast<std::int64_t>(window_rows(plan.windows[window])), ns);
    case PassUnit::kBlocks:
      return add_steps(plan, window, pass,
                       divide_up(static_cast<std::int64_t>(plan.feature_params[window].block_count),
                                 static_cast<std::int64_t>(plan.passes[pass].units_per_workgroup)),
                       ns);
  }
}

void list_steps(PlanState& plan) {
  const AttentionDesc& desc = plan.desc;
  const std::int64_t tile_keys = most_visible_keys(desc, plan.config.rows_per_workgroup);
  const double tile_flops = 2.0 * plan.config.rows_per_workgroup * static_cast<double>(tile_keys) *
                            static_cast<double>(desc.head_dim + desc.value_dim);
  const double tile_ns = tile_flops / assumed_flops_per_ns(plan.device->capabilities, plan.kernel_name) /
                         static_cast<double>(plan.split.splits);
  for (std::size_t pass = 0; pass < plan.passes.size(); ++pass) {
    for (std::size_t i = 0; i < plan.windows.size(); ++i) {
      const Window& window = plan.windows[i];
      const auto tiles = static_cast<std::int64_t>(row_tiles(plan, window));
      if (pass == plan.kernel_pass) {
        add_steps(plan, i, pass, tiles * window_parts(plan.split, window), tile_ns);
      } else if (window.first_key == 0) {  // once for all parts of the keys
        add_other_steps(plan, i, pass, tiles, tile_ns * static_cast<double>(plan.split.splits));
      }
    }
  }
}

}  // namespace

std::int64_t window_parts(const KvSplit& split, const Window& window) {
  return split.splits == 1 ? 1 : std::min(split.splits, divide_up(window.keys, split.keys));
}

Status plan_dispatches(PlanState& plan) {
  const AttentionDesc& desc = plan.desc;
  auto windows = make_windows(desc, plan.device->capabilities, window_key_step(plan));
  if (!windows) return windows.error();
  plan.whole = tensor_windows(desc, whole_window(desc));
  double tiles = 0;
  for (const Window& window : windows->windows) {
    const double count = row_tiles(plan, window);
    if (count > static_cast<double>(kMaxTilesPerWindow)) {
      return Error{ErrorCode::kLimitExceeded, VK_SUCCESS,
                   message("batch x query_heads x row tiles is ", count, "; at most ", kMaxTilesPerWindow,
                           " are possible, so split the batch")};
    }
    tiles += count;
  }
  const bool has_matrix = plan.config.score_block_keys != 0;
  if (Status status = has_matrix ? plan_score_matrix(plan, *windows) : plan_split(plan, *windows, tiles);
      !status) {
    return status;
  }
  if (Status status = add_feature_passes(desc, plan.device->capabilities, plan.config); !status)
    return status;
  cut_keys(plan, *windows);
  if (Status status = plan_features(plan); !status) return status;
  list_passes(plan);
  list_steps(plan);
  return {};
}

}  // namespace vkattn::detail
