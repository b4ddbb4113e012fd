// Plan assembly: validate -> select -> windows -> dispatches -> pipeline.
#include <vkattn/plan.hpp>

#include <algorithm>

#include "common/message.hpp"
#include "kernels/tile_table.hpp"
#include "plan/dispatches.hpp"
#include "plan/features.hpp"
#include "shared/attention_constants.h"
#include "vkattn_core_shaders.hpp"

namespace vkattn {

namespace detail {

namespace {

// SPIR-V of a shader, with the score function in it where there is one.
Result<std::span<const std::uint32_t>> shader_words(const PlanOptions& options, std::string_view shader) {
  if (options.score_function) return options.score_function->binary(shader);
  return find_shader(shader_binaries(), shader)->words;
}

Status create_pipeline(const PlanState& plan, Pass& pass) {
  const auto words = shader_words(plan.options, pass.shader);
  if (!words) return words.error();
  PipelineDesc desc;
  desc.words = *words;
  desc.specialization = pass.specialization;
  desc.storage_buffers = binding_count(plan.desc);
  desc.push_constant_bytes = sizeof(AttentionParams);
  desc.required_subgroup_size = pass.required_subgroup_size;
  desc.push_descriptors = plan.options.push_descriptors;
  desc.capture_statistics = plan.options.capture_statistics;
  desc.cache = plan.options.pipeline_cache;
  auto pipeline = Pipeline::create(plan.device, desc);
  if (!pipeline) return pipeline.error();
  pass.pipeline = *std::move(pipeline);
  return {};
}

// What the pipeline is specialized to.
std::uint32_t workgroup_size(const Pass& pass) {
  for (const SpecializationValue& constant : pass.specialization) {
    if (constant.id == VKATTN_SPEC_WORKGROUP_SIZE) return constant.value;
  }
  return 0;
}

Status check_options(const AttentionDesc& desc, const PlanOptions& options,
                     const Capabilities& capabilities) {
  if (capabilities.max_push_constants_bytes < sizeof(AttentionParams)) {
    return Error{
        ErrorCode::kLimitExceeded, VK_SUCCESS,
        message("needs ", sizeof(AttentionParams), " bytes of push constants; maxPushConstantsSize is ",
                capabilities.max_push_constants_bytes)};
  }
  if (options.tile && options.kernel.empty()) {
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                 "PlanOptions::tile needs PlanOptions::kernel, whose block sizes they are"};
  }
  if (options.capture_statistics && !capabilities.pipeline_statistics) {
    return Error{
        ErrorCode::kUnsupported, VK_SUCCESS,
        "PlanOptions::capture_statistics needs VK_KHR_pipeline_executable_properties enabled on the device"};
  }
  if (!options.push_descriptors) return {};
  if (!capabilities.push_descriptors) {
    return Error{ErrorCode::kUnsupported, VK_SUCCESS,
                 "PlanOptions::push_descriptors needs VK_KHR_push_descriptor enabled on the device"};
  }
  if (capabilities.max_push_descriptors < binding_count(desc)) {
    return Error{ErrorCode::kLimitExceeded, VK_SUCCESS,
                 message("needs ", binding_count(desc), " push descriptors; maxPushDescriptors is ",
                         capabilities.max_push_descriptors)};
  }
  return {};
}

// What was measured for a problem like this one, where that can be used.
std::optional<Selection> select_tuned(const AttentionDesc& desc, const Capabilities& capabilities,
                                      PlanState& plan) {
  const PlanOptions& options = plan.options;
  if (!options.tuning || options.tile) return std::nullopt;
  if (!options.tuning->warning.empty()) {
    plan.notes.push_back(message("tuning: ", options.tuning->warning));
    return std::nullopt;
  }
  const TunedProblem* const tuned = options.tuning->nearest(desc);
  if (tuned == nullptr || (!options.kernel.empty() && options.kernel != tuned->best.kernel))
    return std::nullopt;
  const std::string what = message(tuned->best.kernel, " (", to_string(tuned->best.tile), "), measured for '",
                                   tuned->problem, "' in ", options.tuning->source);
  const auto cannot = [&](const std::string& reason) {
    plan.notes.push_back(message("tuning: cannot use ", what, ": ", reason));
    return std::nullopt;
  };
  // Of a file made by hand nothing is used that no test has seen.
  const std::vector<TileShape> known = all_tiles(tuned->best.kernel);
  if (std::find(known.begin(), known.end(), tuned->best.tile) == known.end()) {
    return cannot("these block sizes are not in the tile table");
  }
  auto selection =
      select_kernel(desc, capabilities,
                    {tuned->best.kernel, &tuned->best.tile, options.refusals, options.strict_nonfinite});
  if (!selection) return cannot(selection.error().message);
  plan.notes.push_back(message("tuning: ", what));
  // What a window leaves of the keys decides how often to split them.
  if (plan.options.kv_splits == 0 && tuned->desc.window == desc.window)
    plan.options.kv_splits = tuned->kv_splits;
  return *std::move(selection);
}

Status choose_kernel(const AttentionDesc& desc, const Capabilities& capabilities, PlanState& plan) {
  auto tuned = select_tuned(desc, capabilities, plan);
  if (!tuned) {
    const PlanOptions& options = plan.options;
    const TileShape* const tile = options.tile ? &*options.tile : nullptr;
    auto selection =
        select_kernel(desc, capabilities, {options.kernel, tile, options.refusals, options.strict_nonfinite});
    if (!selection) return selection.error();
    tuned = *std::move(selection);
  } else {
    plan.tuned = true;
  }
  plan.config = std::move(tuned->config);
  plan.kernel_name = tuned->kernel.name;
  plan.considered = std::move(tuned->considered);
  return {};
}

// A score function may not compile in a kernel: its compiler may be older than the one that built the
// library.
Status check_shaders(const PlanState& plan) {
  if (!plan.options.score_function) return {};
  for (const Pass& pass : plan.passes) {
    if (const auto words = shader_words(plan.options, pass.shader); !words) return words.error();
  }
  return {};
}

// Kernel, windows and dispatches. What a kernel accepts may still not fit the device, as where it cannot cut
// the keys of one head: then the next one is asked, unless one was asked for by name.
Result<std::shared_ptr<PlanState>> plan_kernel(const Device& device, const AttentionDesc& desc,
                                               const PlanOptions& options) {
  PlanOptions left = options;
  std::vector<std::string> notes;
  for (;;) {
    auto plan = std::make_shared<PlanState>();
    plan->device = device.share();
    plan->desc = desc;
    plan->options = left;
    plan->notes = notes;
    plan->whole_words = !device.capabilities().storage_buffer_16bit;
    if (Status status = choose_kernel(desc, device.capabilities(), *plan); !status) return status.error();
    if (desc.is_empty()) return plan;
    Status status = plan_dispatches(*plan);
    if (status) status = check_shaders(*plan);
    if (status) return plan;
    const bool not_here =
        status.error().code == ErrorCode::kLimitExceeded || status.error().code == ErrorCode::kUnsupported;
    if (!not_here) return status.error();
    if (plan->tuned) {
      left.tuning.reset();
      notes = {message(plan->notes.back(), ": not used: ", status.error().message)};
      continue;
    }
    if (!options.kernel.empty()) return status.error();
    left.refusals.push_back({std::string(plan->kernel_name), status.error().message});
  }
}

// The problem with its score function, which the descriptor only knows of.
Result<AttentionDesc> with_score_function(const AttentionDesc& desc, const PlanOptions& options) {
  if (!options.score_function) {
    if (!desc.has_score_function && !desc.score_function_hides) return desc;
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                 "AttentionDesc::has_score_function is set but PlanOptions::score_function is null"};
  }
  if (const std::size_t buffers = options.score_function->buffers().size(); buffers > kMaxScoreBuffers) {
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                 message("the score function has ", buffers, " buffers but at most ", kMaxScoreBuffers,
                         " are possible")};
  }
  AttentionDesc whole = desc;
  whole.has_score_function = true;
  whole.score_function_hides = options.score_function->hides_keys();
  return whole;
}

Result<std::shared_ptr<const PlanState>> make_plan(const Device& device, const AttentionDesc& bare_desc,
                                                   const PlanOptions& options) {
  if (Status status = validate(bare_desc); !status) return status.error();
  const auto desc = with_score_function(bare_desc, options);
  if (!desc) return desc.error();
  if (Status status = check_options(*desc, options, device.capabilities()); !status) return status.error();
  auto plan = plan_kernel(device, *desc, options);
  if (!plan) return plan.error();
  for (Pass& pass : (*plan)->passes) {
    if (Status status = create_pipeline(**plan, pass); !status) return status.error();
  }
  return std::shared_ptr<const PlanState>(*std::move(plan));
}

}  // namespace

}  // namespace detail

Result<AttentionPlan> AttentionPlan::create(const Device& device, const AttentionDesc& desc,
                                            const PlanOptions& options) {
  return detail::without_exceptions([&]() -> Result<AttentionPlan> {
    auto state = detail::make_plan(device, desc, options);
    if (!state) return state.error();
    return AttentionPlan(*std::move(state));
  });
}

Result<std::vector<PipelineStatistics>> AttentionPlan::statistics(bool listings) const {
  return detail::without_exceptions([&]() -> Result<std::vector<PipelineStatistics>> {
    const detail::PlanState& plan = *state_;
    if (!plan.options.capture_statistics) {
      return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                   "statistics need a plan made with PlanOptions::capture_statistics"};
    }
    std::vector<PipelineStatistics> all;
    for (const detail::Pass& pass : plan.passes) {
      auto statistics = detail::read_statistics(*plan.device, pass.pipeline.handle(), pass.name, listings);
      if (!statistics) return statistics.error();
      for (PipelineStatistics& entry : *statistics) {
        entry.shader = pass.shader;
        all.push_back(std::move(entry));
      }
    }
    return all;
  });
}

const AttentionDesc& AttentionPlan::desc() const {
  return state_->desc;
}
std::string_view AttentionPlan::kernel_name() const {
  return state_->kernel_name;
}
const TileShape& AttentionPlan::tile() const {
  return state_->config.tile;
}

std::string AttentionPlan::configuration() const {
  const detail::PlanState& plan = *state_;
  const AttentionDesc& desc = plan.desc;
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a, 64 bits (Fowler, Noll and Vo)
  const auto add = [&](std::uint32_t word) { hash = (hash ^ word) * 0x100000001b3ULL; };
  // A score function keeps what it compiled for the pipeline.
  if (const auto words = detail::shader_words(plan.options, plan.config.shader); words) {
    for (const std::uint32_t word : *words) add(word);
  }
  for (const detail::SpecializationValue& value : plan.config.specialization) {
    add(value.id);
    add(value.value);
  }
  return detail::message(plan.kernel_name, ", ", name(desc.query.type), " ", name(desc.key.type), " ",
                         name(desc.value.type), " ", name(desc.output.type), ", d", desc.head_dim, " dv",
                         desc.value_dim, ", ", plan.config.summary, ", code ", std::hex, hash);
}

VkDeviceSize AttentionPlan::workspace_bytes() const {
  return state_->workspace_bytes;
}
VkBufferUsageFlags AttentionPlan::workspace_usage() const {
  if (state_->workspace_bytes == 0) return 0;
  // Feature parameters are written by vkCmdUpdateBuffer.
  return state_->feature_params.empty()
             ? VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
             : VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
}
VkDeviceSize AttentionPlan::block_mask_bytes() const {
  return state_->block_mask_bytes;
}
std::optional<BlockMaskLayout> AttentionPlan::block_mask_layout() const {
  const detail::PlanState& plan = *state_;
  if (plan.block_mask_bytes == 0 || plan.windows.size() != 1) return std::nullopt;
  const detail::FeatureParams& params = plan.feature_params.front();
  return BlockMaskLayout{plan.config.rows_per_workgroup, plan.config.block_mask_keys,
                         params.block_batch_stride, params.block_head_stride, params.block_row_stride};
}
const std::vector<DispatchInfo>& AttentionPlan::dispatches() const {
  return state_->dispatches;
}
std::vector<PipelineInfo> AttentionPlan::pipelines() const {
  std::vector<PipelineInfo> all;
  for (const detail::Pass& pass : state_->passes) {
    all.push_back({pass.name, pass.shader, detail::workgroup_size(pass)});
  }
  return all;
}
std::uint32_t AttentionPlan::shared_memory_bytes() const {
  return state_->config.shared_bytes;
}
DataType AttentionPlan::probability_type() const {
  return state_->config.probability_type;
}

bool AttentionPlan::uses_matrix_units() const {
  return state_->config.uses_matrix_units;
}

std::string AttentionPlan::describe() const {
  const detail::PlanState& plan = *state_;
  const AttentionDesc& desc = plan.desc;
  std::string text = detail::message("attention: batch ", desc.batch, ", query_heads ", desc.query_heads,
                                     ", kv_heads ", desc.kv_heads, ", query_length ", desc.query_length,
                                     ", kv_length ", desc.kv_length, ", head_dim ", desc.head_dim,
                                     ", value_dim ", desc.value_dim, desc.causal ? ", causal" : "", "\n");
  text += detail::message("device: ", plan.device->capabilities.device_name, "\n");
  text += detail::message("kernel: ", plan.kernel_name, " (", plan.config.summary, ")\n");
  for (const KernelSupport& support : plan.considered) {
    if (!support.reason.empty())
      text += detail::message("refused: ", support.kernel, ": ", support.reason, "\n");
    if (support.reason.empty() && support.kernel != plan.kernel_name) {
      text += detail::message("not needed: ", support.kernel, "\n");
    }
  }
  if (plan.options.score_function) {
    text += detail::message("score function: ", plan.options.score_function->name(),
                            desc.score_function_hides ? ", hides keys" : "", "\n");
  }
  for (const std::string& note : plan.notes) text += note + "\n";
  text += detail::message("dispatches: ", plan.dispatches.size(), " over ", plan.windows.size(),
                          plan.windows.size() == 1 ? " window" : " windows",
                          " of the tensors; workspace: ", plan.workspace_bytes, " bytes\n");
  const bool partials = !plan.areas.empty() && plan.config.score_block_keys == 0;
  if (partials && plan.split.splits > 1) {
    text += detail::message("split over keys: ", plan.split.splits, " parts of ", plan.split.keys,
                            ", merged by the combine pass\n");
  } else if (partials) {
    text += "sums: kept as float32 in the workspace\n";
  }
  return text;
}

}  // namespace vkattn
