/// @file
/// What recording a plan needs, what it does to a command buffer, and how it is cut into slices.
#pragma once

#include <vkattn/buffer_range.hpp>

#include <cstdint>
#include <string_view>

namespace vkattn {

/// What a plan asks of its caller, and what record() does to a command buffer. Everything is recorded outside
/// of render passes, on a queue family with compute.
struct PlanRequirements {
  VkDeviceSize workspace_bytes = 0;        ///< 0: no workspace is needed
  VkDeviceSize workspace_alignment = 1;    ///< of its first byte in its buffer
  VkBufferUsageFlags workspace_usage = 0;  ///< of its buffer
  VkBufferUsageFlags tensor_usage = 0;     ///< of every tensor's buffer

  std::uint32_t descriptor_sets = 0;  ///< that make_bindings() takes from a pool of the caller's
  std::uint32_t storage_buffers = 0;  ///< in each of them
  /// Of host-visible memory that make_bindings() takes for parameters (DeviceDesc::parameter_buffer).
  std::uint32_t parameter_bytes = 0;
  std::uint32_t dispatches = 0;  ///< that record() records

  /// For the caller's barriers: what must come after everything that wrote the inputs, or still uses the
  /// outputs and the workspace. With synchronization2 the same bits hold.
  /// @{
  VkPipelineStageFlags first_stages = 0;
  VkAccessFlags first_access = 0;
  /// @}
  /// Likewise: what must be over before anything uses the outputs.
  /// @{
  VkPipelineStageFlags last_stages = 0;
  VkAccessFlags last_access = 0;
  /// @}

  /// What of a command buffer's state is another after record(): the pipeline of the compute bind point, its
  /// descriptor set `descriptor_set` (with what pipeline layout compatibility takes along of other sets),
  /// and push constants of the compute stage, bytes 0 to push_constant_bytes - 1. Nothing of graphics.
  /// @{
  std::uint32_t descriptor_set = 0;
  std::uint32_t push_constant_bytes = 0;
  /// @}
};

/// One dispatch of a plan, for reports and tests.
struct DispatchInfo {
  std::string_view pass;  ///< the kernel's name, or of what follows it: combine merges a split over keys
  /// Of the pass's tiles (row tiles of all heads of all batch entries; or rows).
  std::uint64_t first_tile = 0;
  std::uint64_t tile_count = 0;      ///< from there on
  std::uint32_t workgroups[3] = {};  ///< what vkCmdDispatch gets
  double estimated_ns = 0;           ///< a rough guess from the device class, never a measurement
};

/// How to record.
struct RecordOptions {
  /// A slice of the dispatches (Plan::dispatches(), Sequence::dispatches()): dispatch_count of them, or as
  /// many as there are, from first_dispatch on. Slices may lie in different command buffers, submitted in
  /// their order to one queue; each sets all state that it needs and waits for what it must of those before
  /// it. Between them the workspace keeps their results.
  /// @{
  std::uint32_t first_dispatch = 0;
  std::uint32_t dispatch_count = ~std::uint32_t{0};
  /// @}
  /// Begin with a barrier after all compute and transfers recorded before on the queue: for executions that
  /// share a workspace or work on what the one before has written.
  bool wait_for_earlier = false;
  /// Write timestamps around each dispatch of the slice, into this pool of VK_QUERY_TYPE_TIMESTAMP: query
  /// `first_timestamp` before the first one, and one more query after each, when everything before it is
  /// done. So the difference of neighbours is what a dispatch took, with the barrier before it. A dispatch
  /// that the bindings leave out takes nothing. The caller resets one query more than the slice has
  /// dispatches, and records for a queue family with timestamps (timestampValidBits). Null: none.
  /// @{
  VkQueryPool timestamps = {};
  std::uint32_t first_timestamp = 0;
  /// @}
};

/// How recording with bindings ended.
enum class RecordStatus : std::uint32_t {
  kRecorded,     ///< the commands are there
  kOtherPlan,    ///< nothing is: another plan has made the bindings
  kNotCompiled,  ///< nothing is: the plan waits for compile()
};

}  // namespace vkattn
