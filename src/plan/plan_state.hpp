// What a plan and its bindings hold.
#pragma once

#include <vkattn/plan.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "plan/select.hpp"
#include "plan/split.hpp"
#include "plan/window.hpp"
#include "vulkan/device_state.hpp"
#include "vulkan/pipeline.hpp"

namespace vkattn::detail {

namespace shared {
using uint = std::uint32_t;
#include "shared/attention_params.h"
#include "shared/feature_params.h"
}  // namespace shared
using shared::AttentionParams;
using shared::FeatureParams;

static_assert(sizeof(AttentionParams) <= 128, "push constants of 128 bytes are all that every device has");

/// One dispatch: a run of tiles of one window.
struct Step {
  std::uint32_t window = 0;  ///< index into PlanState::windows
  std::uint32_t pass = 0;    ///< index into PlanState::passes; a new pass waits for the one before
  std::uint32_t first_tile = 0;
  std::uint32_t tile_count = 0;
  std::uint32_t groups_x = 0, groups_y = 0;
};

/// One pipeline and what makes it.
struct Pass {
  std::string_view name;  ///< the kernel's, or of what follows it: combine, ...
  std::string shader;     ///< name in shaders/binaries.cmake
  std::vector<SpecializationValue> specialization;
  PassUnit unit = PassUnit::kTiles;
  std::uint32_t units_per_workgroup = 1;
  double workgroup_flops = 0;  ///< of passes that do not go by tiles
  std::uint32_t required_subgroup_size = 0;
  Pipeline pipeline;
};

/// A piece of the workspace.
struct WorkspaceArea {
  std::uint64_t offset = 0, bytes = 0;
};

/// What features need of the workspace, for one window.
struct FeatureAreas {
  WorkspaceArea params;           ///< one FeatureParams
  WorkspaceArea block_mask;       ///< none where bytes is 0
  std::uint64_t kept_offset = 0;  ///< of the block mask in a buffer of the caller's
  WorkspaceArea lse;              ///< for the weights, where the caller wants none
};

struct PlanState {
  std::shared_ptr<const DeviceState> device;
  AttentionDesc desc;
  PlanOptions options;
  KernelConfig config;
  std::string_view kernel_name;
  std::vector<KernelSupport> considered;
  std::vector<std::string> notes;  ///< lines for describe()
  bool tuned = false;              ///< by PlanOptions::tuning
  TensorWindows whole{};           ///< the whole tensors; no bytes where nothing is recorded
  std::vector<Window> windows;
  std::vector<WorkspaceArea> areas;           ///< of each window of rows
  std::vector<WorkspaceArea> window_areas;    ///< of each window: those that differ in keys only share one
  std::vector<TensorWindows> parts;           ///< of each window
  std::vector<AttentionParams> params;        ///< of each window, without offsets and tile range
  std::vector<FeatureAreas> feature_areas;    ///< of each window; none for problems without features
  std::vector<FeatureParams> feature_params;  ///< of each window, without offsets
  std::vector<Step> steps;
  std::vector<DispatchInfo> dispatches;  ///< the same steps, for reports
  std::vector<Pass> passes;              ///< in order; none where nothing is to be recorded
  std::size_t kernel_pass = 0;           ///< the kernel's among them
  KvSplit split;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t block_mask_bytes = 0;  ///< in a buffer of the caller's
  bool whole_words = false;            ///< 16-bit tensors are accessed as 32-bit words
};

/// A window's tensors resolved against actual buffers.
struct BoundWindow {
  std::array<VkDescriptorBufferInfo, VKATTN_FEATURE_BINDING_COUNT> buffers{};
  /// Elements from the bound start; bytes where the tensor is quantised.
  std::array<std::uint32_t, VKATTN_FEATURE_BINDING_COUNT> offsets{};
};

struct BindingsState {
  std::shared_ptr<const DeviceState> device;
  std::weak_ptr<const PlanState> plan;  ///< that made them
  VkDescriptorPool pool = VK_NULL_HANDLE;
  std::vector<VkDescriptorSet> sets;    ///< one per window
  std::vector<AttentionParams> params;  ///< one per step, ready to push
  BufferRange workspace;
  std::size_t first_step = 0;                 ///< beyond the block mask's where that is complete
  std::vector<FeatureParams> feature_params;  ///< one per window, to be written to the workspace
  ~BindingsState();
};

/// The first step of an execution: those of a block mask that is complete are left out.
[[nodiscard]] std::size_t first_step(const PlanState& plan, const AttentionTensors& tensors) noexcept;

/// Checks the caller's ranges against the descriptor.
[[nodiscard]] Status check_tensors(const PlanState& plan, const AttentionTensors& tensors,
                                   const BufferRange& workspace);

/// Resolves one window. The tensors have passed check_tensors().
[[nodiscard]] BoundWindow bind_window(const PlanState& plan, const AttentionTensors& tensors,
                                      const BufferRange& workspace, std::size_t window) noexcept;

/// The push constants of one step.
[[nodiscard]] AttentionParams step_params(const PlanState& plan, const Step& step,
                                          const BoundWindow& bound) noexcept;

/// The feature parameters of a window.
[[nodiscard]] FeatureParams bound_feature_params(const PlanState& plan, const AttentionTensors& tensors,
                                                 std::size_t window, const BoundWindow& bound) noexcept;

/// Of one window; binding_count() of them count.
using DescriptorWrites = std::array<VkWriteDescriptorSet, VKATTN_FEATURE_BINDING_COUNT>;

}  // namespace vkattn::detail
