// The forms of the backward pass: see backward_kernel.hpp.
#include "backward/backward_kernel.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "attention/features.hpp"
#include "backward/gradient_table.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "shared/attention_constants.h"
#include "shared/backward_constants.h"
#include "shared/shared_memory.h"

namespace vkattn::detail {

namespace {

bool has_16bit_tensor(const BackwardDesc& desc) {
  const AttentionDesc& a = desc.attention;
  for (const TensorDesc& tensor : {a.query, a.key, a.value, a.output}) {
    if (element_bytes(tensor.type) == 2) return true;
  }
  for (const GradientRow& row : gradient_table()) {
    if (row.is_used(desc) && element_bytes(row.storage(desc).type) == 2) return true;
  }
  return false;
}

// Invocations without barriers (shaders/backward/lane_rows.comp, lane_keys.comp): made for CPU
// implementations.
Result<BackwardKernel> configure_lane_backward(const BackwardDesc& desc, const Capabilities& capabilities) {
  constexpr std::uint32_t kOwned = 4;     // rows or keys of an invocation
  constexpr std::uint32_t kVisited = 32;  // keys or rows of a step
  const std::uint32_t threads = std::clamp(capabilities.subgroup_size, 4U, 16U);
  // Where every step is a masked one, it has to share loads and stores too.
  const std::uint32_t masked = scores_hide(desc.attention) ? 16 : 4;
  const bool wide = capabilities.is_cpu() && capabilities.shader_int64 && capabilities.storage_buffer_16bit;
  const auto shader = [&](std::string_view base) {
    return wide ? message(base, "_wide") : backward_shader(desc, capabilities, base);
  };
  BackwardKernel kernel;
  kernel.name = "lane";
  kernel.rows.name = "rows";
  kernel.rows.shader = shader("backward_lane_rows");
  kernel.rows.workgroup_size = threads;
  kernel.rows.constants = {
      {VKATTN_SPEC_STEP_ROWS, kOwned}, {VKATTN_SPEC_STEP_KEYS, kVisited}, {VKATTN_SPEC_MASKED_STEP, masked}};
  kernel.row_tile = threads * kOwned;
  kernel.keys.name = "keys";
  kernel.keys.shader = shader("backward_lane_keys");
  kernel.keys.workgroup_size = threads;
  kernel.keys.constants = {
      {VKATTN_SPEC_STEP_KEYS, kOwned}, {VKATTN_SPEC_STEP_ROWS, kVisited}, {VKATTN_SPEC_MASKED_STEP, masked}};
  kernel.key_tile = threads * kOwned;
  kernel.key_sums_in_workspace = true;
  kernel.summary = message(threads, " invocations a workgroup, ", kOwned, " rows or keys each, ", kVisited,
                           " keys or rows a step");
  return kernel;
}

// Threads that share stages (shaders/backward/tile_rows.comp, tile_keys.comp).
Result<BackwardKernel> configure_tile_backward(const BackwardDesc& desc, const Capabilities& capabilities) {
  constexpr std::uint32_t kThreads = 128, kColumns = 16, kVisited = 2;
  constexpr std::uint32_t kMaxAccumulators = 96;  // of a thread
  constexpr std::uint32_t kChunkDims = 4 * kColumns;
  const auto dims = static_cast<std::uint32_t>(std::max(desc.attention.head_dim, desc.attention.value_dim));
  std::uint32_t owned = 4;
  while (owned > 1 && owned * divide_up(dims, kChunkDims) * 4 > kMaxAccumulators) owned /= 2;
  const std::uint32_t block = kThreads / kColumns * owned;
  const std::uint32_t shared_bytes = 16 * VKATTN_BACKWARD_ROW_STAGE4(block, kColumns, kVisited) +
                                     16 * VKATTN_BACKWARD_KEY_STAGE4(kColumns * kVisited, kColumns);
  if (shared_bytes > capabilities.max_shared_memory_bytes) {
    return limit_exceeded("needs ", shared_bytes, " bytes of shared memory; maxComputeSharedMemorySize is ",
                          capabilities.max_shared_memory_bytes);
  }
  if (kThreads > std::min(capabilities.max_workgroup_invocations, capabilities.max_workgroup_size[0])) {
    return limit_exceeded("needs ", kThreads, " invocations; maxComputeWorkGroupInvocations is ",
                          capabilities.max_workgroup_invocations);
  }
  BackwardKernel kernel;
  kernel.name = "tile";
  kernel.rows.name = "rows";
  kernel.rows.shader = backward_shader(desc, capabilities, "backward_tile_rows");
  kernel.keys.name = "keys";
  kernel.keys.shader = backward_shader(desc, capabilities, "backward_tile_keys");
  for (PassConfig* const pass : {&kernel.rows, &kernel.keys}) {
    pass->workgroup_size = kThreads;
    pass->constants = {{VKATTN_SPEC_TILE_COLUMNS, kColumns},
                       {VKATTN_SPEC_STEP_OWNED, owned},
                       {VKATTN_SPEC_STEP_VISITED, kVisited}};
  }
  kernel.row_tile = block;
  kernel.key_tile = block;
  kernel.gradients_per_workgroup = 1;
  kernel.summary = message(block, " rows or keys x ", kColumns * kVisited, " keys or rows a block, ",
                           kThreads, " invocations, ", shared_bytes, " bytes of shared memory");
  return kernel;
}

struct NamedKernel {
  std::string_view name;
  Result<BackwardKernel> (*configure)(const BackwardDesc& desc, const Capabilities& capabilities);
};

constexpr NamedKernel kLane{"lane", configure_lane_backward};
constexpr NamedKernel kTile{"tile", configure_tile_backward};

// In the device's order.
std::array<NamedKernel, 2> ordered(const Capabilities& capabilities) {
  if (capabilities.is_cpu()) return {kLane, kTile};
  return {kTile, kLane};
}

}  // namespace

std::string backward_shader(const BackwardDesc& desc, const Capabilities& capabilities,
                            std::string_view base) {
  return message(base, capabilities.storage_buffer_16bit && has_16bit_tensor(desc) ? "" : "_words");
}

Result<BackwardSelection> select_backward_kernel(const BackwardDesc& desc, const Capabilities& capabilities,
                                                 std::string_view wanted) {
  std::vector<KernelSupport> considered;
  std::optional<BackwardKernel> chosen;
  const auto kernels = ordered(capabilities);
  for (const NamedKernel& kernel : kernels) {
    if (!wanted.empty() && kernel.name != wanted) continue;
    auto configured = kernel.configure(desc, capabilities);
    considered.push_back({kernel.name, configured ? std::string() : configured.error().message});
    if (configured && !chosen) chosen = *std::move(configured);
  }
  if (chosen) return BackwardSelection{*std::move(chosen), std::move(considered)};
  if (considered.empty()) {
    std::string names;
    for (const NamedKernel& kernel : kernels) names += message(names.empty() ? "" : ", ", kernel.name);
    return Error{ErrorCode::kNotFound, VK_SUCCESS,
                 message("there is no kernel ", wanted, " of the backward pass; there are: ", names)};
  }
  std::string text = "no kernel of the backward pass accepts the problem";
  for (const KernelSupport& support : considered) text += message("; ", support.kernel, ": ", support.reason);
  return Error{ErrorCode::kUnsupported, VK_SUCCESS, std::move(text)};
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
  std::vector<KernelSupport> support;
  const Result<void> valid = validate(desc);
  const BackwardDesc resolved = valid ? desc.resolved() : BackwardDesc{};
  for (const detail::NamedKernel& kernel : detail::ordered(capabilities)) {
    std::string reason = valid ? std::string() : valid.error().message;
    if (valid) {
      const auto configured = kernel.configure(resolved, capabilities);
      if (!configured) reason = configured.error().message;
    }
    support.push_back({kernel.name, std::move(reason)});
  }
  return support;
}

}  // namespace vkattn
