// Features in a plan: see feature_params.hpp.
#include "plan/feature_params.hpp"

#include <algorithm>
#include <cmath>

#include "common/integers.hpp"
#include "common/message.hpp"
#include "plan/features.hpp"

namespace vkattn::detail {

namespace {

constexpr double kLog2E = 1.4426950408889634;

std::uint32_t narrow(std::int64_t value) {
  return static_cast<std::uint32_t>(value);
}

// The key position of query 0 as the descriptor names it; of an aligned end, what is added to the key length.
// Where entries have query lengths of their own, the shader adds the difference.
std::int64_t position_offset(const AttentionDesc& desc) {
  if (desc.align == Align::kBottomRight) return -desc.query_length;
  return desc.align == Align::kOffset ? desc.offset : 0;
}

// Blocks of the block mask of one window.
struct Blocks {
  std::int64_t keys = 0, rows = 0, heads = 0, batch = 0;
  [[nodiscard]] std::int64_t count() const { return keys * rows * heads * batch; }
};

Blocks blocks_of(const PlanState& plan, const Window& window) {
  const AttentionDesc& desc = plan.desc;
  const KernelConfig& config = plan.config;
  const std::int64_t group = std::min(desc.query_heads / desc.kv_heads, window.heads);
  const bool by_position = desc.score_function_hides;  // may depend on anything
  Blocks blocks;
  blocks.keys = divide_up(desc.kv_length, static_cast<std::int64_t>(config.block_mask_keys));
  blocks.rows = divide_up(window.rows * group, static_cast<std::int64_t>(config.rows_per_workgroup));
  blocks.heads = by_position || desc.mask.strides.head != 0 ? window.heads / group : 1;
  blocks.batch = by_position || desc.mask.strides.batch != 0 ? window.batch : 1;
  return blocks;
}

bool has_block_mask(const PlanState& plan) {
  return !plan.config.preceding.empty();
}

void set_mask(const AttentionDesc& desc, FeatureParams& p) {
  if (desc.mask.type == MaskType::kNone) return;
  const std::int64_t unit = desc.mask.type == MaskType::kBits ? 32 : 1;
  p.mask_batch_stride = narrow(desc.mask.strides.batch / unit);
  p.mask_head_stride = narrow(desc.mask.strides.head / unit);
  p.mask_row_stride = narrow(desc.mask.strides.row / unit);
  p.mask_key_stride = narrow(desc.mask.strides.dim);
}

void set_blocks(const PlanState& plan, const Window& window, FeatureParams& p) {
  if (!has_block_mask(plan)) return;
  const Blocks blocks = blocks_of(plan, window);
  p.block_row_stride = narrow(blocks.keys);
  p.block_rows = narrow(blocks.rows);
  p.block_heads = narrow(blocks.heads);
  p.block_count = narrow(blocks.count());
  p.block_head_stride = blocks.heads > 1 ? narrow(blocks.keys * blocks.rows) : 0;
  p.block_batch_stride = blocks.batch > 1 ? narrow(blocks.keys * blocks.rows * blocks.heads) : 0;
}

FeatureParams window_feature_params(const PlanState& plan, const Window& window) {
  const AttentionDesc& desc = plan.desc;
  FeatureParams p{};
  set_mask(desc, p);
  set_blocks(plan, window, p);
  p.weights_batch_stride = narrow(desc.weights_strides.batch);
  p.weights_head_stride = narrow(desc.weights_strides.head);
  p.weights_row_stride = narrow(desc.weights_strides.row);
  p.weights_key_stride = narrow(desc.weights_strides.dim);
  p.page_table_stride = narrow(desc.cache.page_table_stride);
  p.page_count = narrow(desc.cache.page_count);
  p.left_offset = left_offset(desc, window);
  p.position_offset = static_cast<std::int32_t>(position_offset(desc) + window.first_row);
  p.problem_query_length = narrow(desc.query_length);
  p.total_query_length = narrow(desc.total_query_length);
  p.total_kv_length = narrow(desc.total_kv_length);
  p.problem_heads = narrow(desc.query_heads);
  p.first_batch = narrow(window.first_batch);
  p.first_head = narrow(window.first_head);
  p.first_row = narrow(window.first_row);
  p.softcap_log2 = static_cast<float>(static_cast<double>(desc.softcap) * kLog2E);
  p.softcap_log2_inverse =
      desc.softcap == 0 ? 0 : static_cast<float>(1 / (static_cast<double>(desc.softcap) * kLog2E));
  p.dropout_threshold =
      static_cast<std::uint32_t>(std::floor(static_cast<double>(desc.dropout) * 4294967296.0));
  p.dropout_scale = static_cast<float>(1 / (1 - static_cast<double>(desc.dropout)));
  return p;
}

// Takes bytes from the end of the workspace.
WorkspaceArea append_area(PlanState& plan, std::uint64_t bytes) {
  const std::uint64_t alignment = binding_alignment(plan.device->capabilities);
  const std::uint64_t offset = divide_up(plan.workspace_bytes, alignment) * alignment;
  plan.workspace_bytes = offset + bytes;
  return {offset, bytes};
}

Status check_area(const PlanState& plan, std::string_view what, double bytes) {
  const std::uint64_t most = plan.device->capabilities.max_storage_buffer_range;
  if (bytes <= static_cast<double>(most)) return {};
  return Error{ErrorCode::kLimitExceeded, VK_SUCCESS,
               message(what, " takes ", bytes, " bytes; maxStorageBufferRange is ", most)};
}

Status add_areas(PlanState& plan, const Window& window) {
  FeatureAreas areas;
  areas.params = append_area(plan, sizeof(FeatureParams));
  if (window.first_key != 0) {
    // More keys of the rows before: passes over whole rows have left their results there.
    areas.block_mask = plan.feature_areas.back().block_mask;
    areas.kept_offset = plan.feature_areas.back().kept_offset;
    areas.lse = plan.feature_areas.back().lse;
    plan.feature_areas.push_back(areas);
    return {};
  }
  if (has_block_mask(plan)) {
    const std::int64_t bytes = 4 * blocks_of(plan, window).count();
    if (Status s = check_area(plan, "the block mask", static_cast<double>(bytes)); !s) return s;
    areas.block_mask = append_area(plan, static_cast<std::uint64_t>(bytes));
    const std::uint64_t alignment = binding_alignment(plan.device->capabilities);
    areas.kept_offset = divide_up(plan.block_mask_bytes, alignment) * alignment;
    plan.block_mask_bytes = areas.kept_offset + areas.block_mask.bytes;
  }
  if (needs_row_lse(plan.desc) && !plan.desc.has_lse) {
    const std::int64_t bytes = 4 * workspace_rows(plan.desc, window);
    if (Status s = check_area(plan, "the log-sum-exp of each row", static_cast<double>(bytes)); !s) return s;
    areas.lse = append_area(plan, static_cast<std::uint64_t>(bytes));
  }
  plan.feature_areas.push_back(areas);
  return {};
}

}  // namespace

std::int32_t left_offset(const AttentionDesc& desc, const Window& window) {
  if (desc.window.left == kUnlimited) return 0;
  const std::int64_t offset = std::clamp(position_offset(desc) - desc.window.left,
                                         -desc.query_length - desc.kv_length, desc.kv_length);
  return static_cast<std::int32_t>(offset + window.first_row);
}

std::int32_t right_offset(const AttentionDesc& desc, const Window& window) {
  const bool limited = desc.window.right != kUnlimited;
  if (!desc.causal && !limited) return 0;
  const std::int64_t right = desc.causal ? 0 : desc.window.right;
  const std::int64_t offset = position_offset(desc) + right;
  const std::int64_t clamped =
      desc.align == Align::kBottomRight
          ? std::min<std::int64_t>(offset, 0)  // the last query at the last key sees all
          : std::clamp(offset, -desc.query_length, std::max<std::int64_t>(desc.kv_length - 1, 0));
  return static_cast<std::int32_t>(clamped + window.first_row);
}

Status add_feature_passes(const AttentionDesc& desc, const Capabilities& capabilities, KernelConfig& config) {
  // One block of keys for all rows is looked at by the kernel itself. Attention weights look at every key
  // anyway, so little would be saved; and with a combine pass there would be four pipelines.
  const bool saves = desc.weights == WeightsStage::kNone && desc.kv_length > config.block_mask_keys;
  if (scores_hide(desc) && config.block_mask_keys != 0 && saves) {
    auto pass = configure_block_mask(desc, capabilities, config);
    if (!pass) return pass.error();
    config.preceding.push_back(*std::move(pass));
    config.specialization.push_back({VKATTN_SPEC_BLOCK_ROWS, config.rows_per_workgroup});
    config.specialization.push_back({VKATTN_SPEC_BLOCK_KEYS, config.block_mask_keys});
  }
  if (desc.weights != WeightsStage::kNone) {
    auto pass = configure_weights(desc, capabilities);
    if (!pass) return pass.error();
    config.following.push_back(*std::move(pass));
  }
  return {};
}

Status plan_features(PlanState& plan) {
  if (!has_features(plan.desc)) return {};
  for (const Window& window : plan.windows) {
    if (Status s = add_areas(plan, window); !s) return s;
    plan.feature_params.push_back(window_feature_params(plan, window));
  }
  const Capabilities& c = plan.device->capabilities;
  const std::uint64_t most = std::min(c.max_buffer_size, c.max_memory_allocation_bytes);
  if (plan.workspace_bytes <= most) return {};
  return Error{
      ErrorCode::kLimitExceeded, VK_SUCCESS,
      message("the workspace takes ", plan.workspace_bytes, " bytes; ",
              most == c.max_buffer_size ? "maxBufferSize" : "maxMemoryAllocationSize", " is ", most)};
}

}  // namespace vkattn::detail
