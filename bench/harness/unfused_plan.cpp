// The host half of the unfused baseline (shaders/bench/unfused.comp).
#include "harness/unfused_plan.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "attention/features.hpp"
#include "attention/tensor_table.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "forward/attention_program.hpp"
#include "forward/forward_program.hpp"
#include "forward/params.hpp"
#include "forward/windows.hpp"
#include "kernels/specialization.hpp"
#include "shared/unfused_constants.h"
#include "vkattn_bench_shaders.hpp"
#include "vulkan/loop_limit.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::harness {
namespace {

using detail::limit_exceeded;
using detail::message;

constexpr std::int64_t kBlockKeys = 16;  // keys of one workgroup of the first pass

/// How query rows are distributed: the size of a workgroup and the rows of each invocation.
struct Rows {
  std::uint32_t workgroup_size = 64;
  std::uint32_t of_invocation = 1;
  [[nodiscard]] std::int64_t of_tile() const { return std::int64_t{workgroup_size} * of_invocation; }
};

Rows choose_rows(const AttentionDesc& desc, const Capabilities& capabilities) {
  if (!capabilities.is_cpu()) return {};
  const std::uint32_t lanes = std::clamp(capabilities.subgroup_size, 4U, 64U);
  return {lanes, detail::packed_rows(desc) >= std::int64_t{4} * lanes ? 4U : 1U};
}

/// The number of a pass, and into how many parts the pass cuts the keys of a tile of rows.
struct Stage {
  std::string_view name;
  std::uint32_t number = 0;
  std::int64_t parts = 1;
};

// Softmax walks over the keys of each row three times, the weighted sum once for every 16 dims.
std::int64_t most_iterations(const AttentionDesc& desc, const Rows& rows) {
  const std::int64_t walks = std::max(std::int64_t{3} * rows.of_invocation, desc.value_dim / 16 + 1);
  return walks * (desc.kv_length + 2) + desc.head_dim;
}

/// Refuses a problem that the baseline cannot do.
Result<void> check(const AttentionDesc& desc, const Capabilities& capabilities, const Rows& rows) {
  if (const std::string_view feature = detail::first_feature(desc); !feature.empty()) {
    return Error{ErrorCode::kUnsupported, VK_SUCCESS, message("unfused, the baseline, cannot do ", feature)};
  }
  auto windows = detail::make_windows(desc, capabilities, 0);
  if (!windows) return windows.error();
  if (windows->windows.size() != 1) {
    return limit_exceeded("unfused takes tensors that fit one descriptor; maxStorageBufferRange is ",
                          capabilities.max_storage_buffer_range);
  }
  if (desc.kv_length > detail::kMaxKvSplits * kBlockKeys) {
    return limit_exceeded("unfused takes at most ", detail::kMaxKvSplits * kBlockKeys, " keys; here are ",
                          desc.kv_length);
  }
  return detail::check_iterations(capabilities, most_iterations(desc, rows));
}

Result<VkDeviceSize> matrix_bytes(const AttentionDesc& desc, const Capabilities& capabilities) {
  const double rows = static_cast<double>(detail::workspace_rows(desc, detail::whole_window(desc)));
  const double bytes = 4 * rows * static_cast<double>(std::max<std::int64_t>(desc.kv_length, 1));
  if (bytes <= static_cast<double>(capabilities.max_storage_buffer_range))
    return static_cast<VkDeviceSize>(bytes);
  return limit_exceeded("the score matrix takes ", bytes, " bytes; maxStorageBufferRange is ",
                        capabilities.max_storage_buffer_range);
}

Result<detail::ProgramPass> describe_pass(const AttentionDesc& desc, const Capabilities& capabilities,
                                          const Rows& rows, const Stage& stage) {
  detail::PassConfig config;
  config.shader = detail::shader_for(desc, capabilities, "unfused", "unfused_words");
  config.workgroup_size = rows.workgroup_size;
  config.constants = {{VKATTN_SPEC_UNFUSED_PASS, stage.number},
                      {VKATTN_SPEC_UNFUSED_ROWS, rows.of_invocation},
                      {VKATTN_SPEC_UNFUSED_KEYS, static_cast<std::uint32_t>(kBlockKeys)}};
  const auto code = detail::built_shader(bench::shader_binaries(), config.shader);
  if (!code) return code.error();
  detail::ProgramPass pass;
  pass.name = stage.name;
  pass.shader = config.shader;
  pass.code = *code;
  pass.specialization = detail::specialization(desc, config, {});
  pass.workgroup_size = config.workgroup_size;
  pass.barrier = detail::kAfterPasses;
  return pass;
}

void bind_matrix(VkDeviceSize bytes, detail::ProgramBinding& binding) {
  binding.from = detail::ProgramBinding::From::kWorkspace;
  binding.bytes = bytes;
}

Result<detail::ProgramDesc> describe(const AttentionDesc& desc, const Capabilities& capabilities,
                                     std::uint64_t max_dispatch_ns) {
  const Rows rows = choose_rows(desc, capabilities);
  if (Result<void> s = check(desc, capabilities, rows); !s) return s.error();
  auto bytes = matrix_bytes(desc, capabilities);
  if (!bytes) return bytes.error();

  const detail::Window whole = detail::whole_window(desc);
  const detail::TensorWindows tensors = detail::tensor_windows(desc, whole);
  const std::int64_t keys = std::max<std::int64_t>(desc.kv_length, 1);
  const detail::KvSplit blocks{detail::divide_up(keys, kBlockKeys), kBlockKeys};
  detail::ProgramDesc program = detail::attention_program(desc, tensors);
  program.workspace_bytes = *bytes;
  detail::ProgramSet set;
  set.bindings = detail::window_bindings(desc, tensors, tensors);
  bind_matrix(*bytes, set.bindings[VKATTN_BINDING_PARTIALS]);
  set.push_constants = detail::bytes_of(detail::window_params(desc, blocks, whole));
  program.sets.push_back(std::move(set));

  // Scores and weighted sum are about half of the work each. Softmax is counted as much as either.
  const double tile_flops = static_cast<double>(rows.of_tile()) * static_cast<double>(keys) *
                            static_cast<double>(desc.head_dim + desc.value_dim);
  const double tile_ns = tile_flops / detail::assumed_flops_per_ns(capabilities);
  const std::int64_t tiles =
      desc.batch * desc.kv_heads * detail::divide_up(detail::packed_rows(desc), rows.of_tile());
  const Stage stages[] = {{"scores", VKATTN_UNFUSED_SCORES, blocks.splits},
                          {"softmax", VKATTN_UNFUSED_SOFTMAX},
                          {"weighted_sum", VKATTN_UNFUSED_WEIGHTED_SUM}};
  for (const Stage& stage : stages) {
    auto pass = describe_pass(desc, capabilities, rows, stage);
    if (!pass) return pass.error();
    const auto index = static_cast<std::uint32_t>(program.passes.size());
    program.passes.push_back(*std::move(pass));
    const double unit_ns = tile_ns / static_cast<double>(stage.parts);
    detail::add_steps(program, index, 0, static_cast<std::uint64_t>(tiles * stage.parts),
                      detail::dispatch_limits(capabilities, max_dispatch_ns, unit_ns), capabilities);
  }
  return program;
}

}  // namespace

Result<UnfusedPlan> UnfusedPlan::create(const Device& device, const AttentionDesc& desc,
                                        const PlanOptions& options) {
  if (Result<void> s = validate(desc); !s) return s.error();
  const AttentionDesc whole = desc.resolved();
  auto program = whole.is_empty() ? Result<detail::ProgramDesc>(detail::ProgramDesc{})
                                  : describe(whole, device.capabilities(), options.max_dispatch_ns);
  if (!program) return program.error();
  auto compiled =
      detail::Program::create(device.share(), *std::move(program), {options.pipeline_cache, false, false});
  if (!compiled) return compiled.error();
  return UnfusedPlan(*std::move(compiled));
}

Result<Bindings> UnfusedPlan::make_bindings(const AttentionTensors& tensors,
                                            const BufferRange& workspace) const {
  // The program has the tensors of a plain problem, without a score function and a block mask.
  std::array<BufferRange, detail::kTensorCount> ranges;
  std::ranges::transform(detail::tensor_table(), ranges.begin(),
                         [&](const detail::TensorRow& row) { return tensors.*row.range; });
  auto bindings = program_->bind({ranges, workspace, {}, {}});
  if (!bindings) return bindings.error();
  return Bindings(*std::move(bindings));
}

void UnfusedPlan::record(VkCommandBuffer commands, const Bindings& bindings) const noexcept {
  program_->record(commands, bindings.state());
}

}  // namespace vkattn::harness
