// What the plan of an append and its bindings hold.
#pragma once

#include <vkattn/cache.hpp>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "shared/cache_constants.h"
#include "vulkan/device_state.hpp"
#include "vulkan/pipeline.hpp"

namespace vkattn::detail {

namespace shared {
using uint = std::uint32_t;
#include "shared/cache_params.h"
}  // namespace shared
using shared::AppendParams;

static_assert(sizeof(AppendParams) <= 128, "push constants of 128 bytes are all that every device has");

/// A tensor of one task: what the descriptor says of it. No bytes where the task has no use for it.
struct AppendTensor {
  std::string_view name;
  BufferRange AppendTensors::*range = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t element_bytes = 4;
  std::uint32_t alignment_bytes = 4;
  bool whole_words = false;  ///< accessed as 32-bit words, though its elements are smaller
};

/// The conversion of one tensor, or the writing of lengths. Later tasks do not depend on earlier ones, but
/// for the last, which may write what they read.
struct AppendTask {
  std::string_view name;  ///< keys, values, queries, lengths
  std::string_view shader;
  std::vector<SpecializationValue> specialization;
  std::array<AppendTensor, VKATTN_APPEND_BINDING_COUNT> tensors;
  AppendParams params{};     ///< without offsets and units
  std::uint64_t units = 0;   ///< invocations
  std::size_t pipeline = 0;  ///< index into AppendState::pipelines
  bool waits = false;        ///< for the tasks before it
};

/// One dispatch: a run of a task's units.
struct AppendStep {
  std::uint32_t task = 0;
  std::uint32_t first_unit = 0, unit_count = 0;
  std::uint32_t groups_x = 0, groups_y = 0;
};

struct AppendState {
  std::shared_ptr<const DeviceState> device;
  AppendDesc desc;
  AppendOptions options;
  std::vector<AppendTask> tasks;
  std::vector<AppendStep> steps;
  std::vector<Pipeline> pipelines;  ///< tasks with the same specialization share one
};

/// A task's tensors resolved against actual buffers.
struct BoundTask {
  std::array<VkDescriptorBufferInfo, VKATTN_APPEND_BINDING_COUNT> buffers{};
  std::array<std::uint32_t, VKATTN_APPEND_BINDING_COUNT> offsets{};  ///< elements from the bound start
};

struct AppendBindingsState {
  std::shared_ptr<const DeviceState> device;
  std::weak_ptr<const AppendState> plan;  ///< that made them
  VkDescriptorPool pool = VK_NULL_HANDLE;
  std::vector<VkDescriptorSet> sets;  ///< one per task
  std::vector<AppendParams> params;   ///< one per step, ready to push
  ~AppendBindingsState();
};

/// Key positions that the cache has room for.
[[nodiscard]] std::int64_t append_capacity(const AppendDesc& desc);

/// New rows of one batch entry that there can be.
[[nodiscard]] std::int64_t most_new_rows(const AppendDesc& desc);

/// Invocations of a workgroup.
inline constexpr std::uint32_t kAppendWorkgroup = 64;

}  // namespace vkattn::detail
