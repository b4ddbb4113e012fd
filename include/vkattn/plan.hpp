/// @file
/// From a descriptor to recorded commands: plan once, bind tensors, record as often as wanted.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/attention_tensors.hpp>
#include <vkattn/bindings.hpp>
#include <vkattn/device.hpp>
#include <vkattn/kernels.hpp>
#include <vkattn/recording.hpp>
#include <vkattn/shared.hpp>
#include <vkattn/statistics.hpp>
#include <vkattn/tuning.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn {

namespace detail {
struct PlanState;
}  // namespace detail

/// A word of a block mask: what a block of rows sees of a block of keys.
enum class BlockVisibility : std::uint32_t {
  kHidden = 0,   ///< nothing: it is passed by
  kMixed = 1,    ///< whatever mask and score function say; always right
  kVisible = 2,  ///< everything that they decide about; not with a mask of floats, which is added
};

/// Where the word (uint32) of a block lies: batch * batch_stride + kv_head * head_stride + row / rows *
/// row_stride + key / keys, with strides in words. `row` is query * g + h for query head kv_head * g + h, g
/// being the query heads of a KV head. A block whose rows causality or the window keeps from all of its keys
/// is computed as hidden where no lengths come from buffers; else only the mask and the score function show.
/// One of the caller's own need not know of causality, windows and lengths: the kernels see to them anyway.
struct BlockMaskLayout {
  std::uint32_t rows = 0;          ///< of a block
  std::uint32_t keys = 0;          ///< of a block
  std::uint32_t batch_stride = 0;  ///< 0 where blocks do not depend on the batch entry
  std::uint32_t head_stride = 0;   ///< 0 where they do not depend on the KV head
  std::uint32_t row_stride = 0;    ///< from a block of rows to the next: blocks along the keys
};

/// How to plan a problem; what is left at its default the library decides.
struct PlanOptions {
  /// Use this kernel or fail with its reason; empty: the first of the ordered list that accepts, and that the
  /// driver compiles.
  std::string kernel;
  /// Use these block sizes or fail; needs `kernel`. Without: the tile table's.
  std::optional<TileSizes> tile;
  /// Measured block sizes: where a problem like this one was measured in this arithmetic, they come before
  /// the tile table. Not used where `tile` or another kernel is asked for.
  Shared<const Tuning> tuning;
  /// Kernels that are passed over with these reasons; one that `kernel` asks for fails with its reason.
  std::vector<KernelRefusal> refusals;
  /// Lines that describe() gives as they are: what the caller knows of the choice.
  std::vector<std::string> notes;
  /// Refuse kernels in which a NaN or an infinity of a hidden row of V may reach the output: those on matrix
  /// units. The others then also leave out the rows of V whose scores infinities in Q or K made -inf, which
  /// costs them a comparison for each score.
  bool strict_nonfinite = false;
  /// kFloat16: products and short sums are float16, within a tolerance and limits of their own
  /// (docs/semantics.md, "float16 arithmetic"), at up to twice the rate where a GPU multiplies pairs of
  /// float16; docs/performance.md says which compilers make use of it. For Q, K and V of float16, by the
  /// kernel tile, on devices with shaderFloat16 and storageBuffer16BitAccess enabled; else refused. So few
  /// rows over many keys go to tile too, not to decode.
  DataType arithmetic_type = DataType::kFloat32;
  /// Passed to pipeline creation; owned by the caller; may be null.
  VkPipelineCache pipeline_cache = {};
  /// Work is cut so that no dispatch is estimated above this, in nanoseconds. 0: 100 ms, so that a device ten
  /// times slower than guessed stays below the 2 seconds after which watchdogs end a program, and whole on a
  /// CPU, which has none. Where one block of rows over all its keys is above that by itself, the keys
  /// are cut into parts too, if there is memory for their results; else the log warns.
  std::uint64_t max_dispatch_ns = 0;
  /// Parts that the keys are cut into, to keep a device busy that few rows would not; 0: chosen by a rule.
  /// The parts' results are merged by a second dispatch and take workspace. 1: none, and no workspace, except
  /// where the keys of one head exceed maxStorageBufferRange. The rule also keeps each part below
  /// Capabilities::max_loop_iterations; a number of parts that does not is refused, and the least that does
  /// is named.
  std::uint32_t kv_splits = 0;
  /// Have the driver keep statistics of the pipelines for AttentionPlan::statistics(): needs
  /// VK_KHR_pipeline_executable_properties enabled. Slows compilation, and drivers may pass their caches by.
  bool capture_statistics = false;
  /// Make the plan for record(command buffer, tensors): needs VK_KHR_push_descriptor enabled on the device.
  bool push_descriptors = false;
  /// Leave compilation, the slow part, to AttentionPlan::compile(). The pipeline cache must live until then.
  bool deferred_compilation = false;
};

/// An immutable plan: the chosen kernel, its compiled pipeline and the list of dispatches. All shader
/// compilation that the library asks for happens in create(), or in compile(). Cheap to copy; safe to share
/// across threads; the last copy, or the last of its Bindings, destroys the pipelines that no other plan of
/// the device shares. Its executions must have ended by then.
class AttentionPlan {
 public:
  /// validate -> select -> plan. Errors: a broken rule of the descriptor, a device limit (named, with both
  /// numbers), no kernel that accepts (each reason), or Vulkan's own.
  [[nodiscard]] static Result<AttentionPlan> create(const Device& device, const AttentionDesc& desc,
                                                    const PlanOptions& options = {});

  /// Of plans made with PlanOptions::deferred_compilation: compiles the pipelines, on any thread. Later calls
  /// do nothing, those at the same time wait for the first and have its outcome; after a failure a later call
  /// tries again. Until then everything works but recording. Where the driver refuses a pipeline this fails
  /// (kUnsupported): make the plan again with its kernel in PlanOptions::refusals. create() does that by
  /// itself.
  [[nodiscard]] Result<void> compile() const;
  /// That it can be recorded.
  [[nodiscard]] bool is_compiled() const noexcept;

  /// The problem that it computes, as AttentionDesc::resolved() gives it.
  [[nodiscard]] const AttentionDesc& desc() const;
  /// decode, lane, tile, matrix or matrix2.
  [[nodiscard]] std::string_view kernel_name() const;
  /// The block sizes it was made with.
  [[nodiscard]] const TileSizes& tile() const;
  /// Kernel, types, dims and block sizes in words, and a hash of the code, its constants, the subgroup size
  /// that it asks for and the execution modes that the device offers: equal for plans whose pipelines do the
  /// same, for one driver.
  [[nodiscard]] std::string configuration() const;
  /// A few lines for a person: the problem, the kernel and its configuration, every refusal, the dispatches.
  [[nodiscard]] std::string describe() const;
  /// Bytes of workspace that record needs; 0 where none is. No score matrix is ever in it; only a block mask,
  /// of a word for each block, grows with query_length x kv_length.
  [[nodiscard]] VkDeviceSize workspace_bytes() const;
  /// What the caller must provide, what to put into barriers, and what record() does to a command buffer.
  /// Executions that may overlap need workspaces of their own; others may share one (see
  /// RecordOptions::wait_for_earlier).
  [[nodiscard]] PlanRequirements requirements() const;
  /// Bytes that the range of a tensor must have where it begins at byte `offset` of its buffer: from its
  /// first element to the end of the 32-bit word in which its last one ends, on every device the same. 0 for
  /// a tensor that the problem has no use for. Example: range_bytes(&AttentionTensors::key, 0).
  [[nodiscard]] VkDeviceSize range_bytes(BufferRange AttentionTensors::*tensor,
                                         VkDeviceSize offset = 0) const;
  /// Bytes of AttentionTensors::block_mask, of plans that compute one before the kernel: those with a mask
  /// or a score function that hides keys, mostly. Else 0.
  [[nodiscard]] VkDeviceSize block_mask_bytes() const;
  /// For callers that write it themselves. Nothing where there is none, and where the problem takes several
  /// windows (describe()), each of which has one.
  [[nodiscard]] std::optional<BlockMaskLayout> block_mask_layout() const;
  /// What record() records, in this order; none where nothing is to be computed. The names live as long as
  /// the plan.
  [[nodiscard]] std::vector<DispatchInfo> dispatches() const;
  /// In the order of their dispatches; none where nothing is to be computed. The names live as long as the
  /// plan.
  [[nodiscard]] std::vector<PipelineInfo> pipelines() const;
  /// Bytes of one workgroup's shared memory.
  [[nodiscard]] std::uint32_t shared_memory_bytes() const;
  /// The type that the kernel rounds probabilities to before it multiplies them with V: it widens the
  /// tolerance.
  [[nodiscard]] DataType probability_type() const;
  /// The type that products and short sums are computed in where the caller asked for another than float32
  /// (PlanOptions::arithmetic_type); of matrix units nothing is said here.
  [[nodiscard]] DataType arithmetic_type() const;
  /// That the kernel runs on matrix units, whose results depend on what a driver claims of them.
  [[nodiscard]] bool uses_matrix_units() const;

  /// The driver's statistics of each pipeline, for plans made with PlanOptions::capture_statistics.
  [[nodiscard]] Result<std::vector<PipelineStatistics>> statistics(bool listings = false) const;

  /// Checks the tensors against the descriptor, writes descriptor sets, and what features need into a few
  /// bytes of host-visible memory that belong to the bindings (DeviceDesc::parameter_buffer or the
  /// library's). For queues of one family. The sets come from pools that the plan's bindings share or from
  /// `pool`, which has room for requirements(); no other thread uses it meanwhile, it outlives their last
  /// use, and they go with it.
  [[nodiscard]] Result<Bindings> make_bindings(const AttentionTensors& tensors,
                                               const BufferRange& workspace = {},
                                               VkDescriptorPool pool = {}) const;
  /// Points existing bindings at other tensors, without allocating descriptors. Only while none is in use.
  [[nodiscard]] Result<void> rewrite(Bindings& bindings, const AttentionTensors& tensors,
                                     const BufferRange& workspace = {}) const;

  /// That the plan was made on this VkDevice.
  [[nodiscard]] bool is_on(const Device& device) const noexcept;
  /// That the bindings were made by this plan or a copy of it.
  [[nodiscard]] bool has_made(const Bindings& bindings) const noexcept;

  /// Records the work: binds, pushes, dispatches. No allocation, no wait, no lock, no transfer. The caller
  /// orders it against whatever writes the inputs and reads the outputs, and binds its own compute state
  /// again afterwards: requirements() has both. Bindings of another plan, and a plan that is not compiled,
  /// are errors of the caller's: nothing is recorded then, which only DeviceDesc::log tells. has_made() and
  /// is_compiled() say beforehand.
  void record(VkCommandBuffer commands, const Bindings& bindings,
              const RecordOptions& options = {}) const noexcept;
  /// The same without an object, for plans made with PlanOptions::push_descriptors. Where features need
  /// parameters, these go to the workspace by vkCmdUpdateBuffer (requirements()).
  [[nodiscard]] Result<void> record(VkCommandBuffer commands, const AttentionTensors& tensors,
                                    const BufferRange& workspace = {},
                                    const RecordOptions& options = {}) const;

 private:
  explicit AttentionPlan(Shared<const detail::PlanState> state) : state_(std::move(state)) {}
  Shared<const detail::PlanState> state_;
};

}  // namespace vkattn
