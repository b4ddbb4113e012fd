/// @file
/// From a descriptor to recorded commands: plan once, bind tensors, record as often as wanted. Plans of all
/// operations (attention, its gradients, appends, merges, products) are made, asked and recorded alike.
#pragma once

#include <vkattn/bindings.hpp>
#include <vkattn/buffer_range.hpp>
#include <vkattn/device.hpp>
#include <vkattn/kernels.hpp>
#include <vkattn/matmul_desc.hpp>
#include <vkattn/recording.hpp>
#include <vkattn/shared.hpp>
#include <vkattn/statistics.hpp>
#include <vkattn/tuning.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vkattn {

namespace detail {
struct PlanState;
}  // namespace detail

/// How to plan a problem; what is left at its default the library decides. An option that is set and that the
/// operation has no use for is an error, so that nothing is asked for in vain; `tuning`, `notes`,
/// `pipeline_cache` and `max_dispatch_ns` may be given to every operation.
struct PlanOptions {
  /// Use this kernel or fail with its reason; empty: the first of the ordered list that accepts, and that the
  /// driver compiles. kernel_support() has the list of a problem. Of gradients: `lane` (no barriers; comes
  /// first on CPU implementations), `tile` (shared memory), `matrix` (VK_KHR_cooperative_matrix, 16-bit Q, K,
  /// V and dO; comes first on GPUs with such matrices, but on Intel before Xe2) or `matrix2`
  /// (VK_NV_cooperative_matrix2, the same types, rows at multiples of 16 bytes, heads of up to 256 dims, no
  /// gradients of masks and slopes; comes before `matrix` where it is there). Of products: `lane`, `tile` or
  /// `matrix`.
  std::string kernel;
  /// Use these block sizes or fail; needs `kernel`. Without: the tile table's. Of attention; `matmul_tile` is
  /// that of products.
  std::optional<TileSizes> tile{};
  /// Measured block sizes: where a problem like this one was measured in this arithmetic, they come before
  /// the tile table. Not used where block sizes or another kernel are asked for.
  Shared<const Tuning> tuning{};
  /// Kernels that are passed over with these reasons; one that `kernel` asks for fails with its reason.
  std::vector<KernelRefusal> refusals{};
  /// Lines that describe() gives as they are: what the caller knows of the choice.
  std::vector<std::string> notes{};
  /// Refuse kernels of attention in which a NaN or an infinity of a hidden row of V may reach the output:
  /// those on matrix units. The others then also leave out the rows of V whose scores infinities in Q or K
  /// made -inf, which costs them a comparison for each score.
  bool strict_nonfinite = false;
  /// Of attention. kFloat16: products and short sums are float16, within a tolerance and limits of their own
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
  /// are cut into parts too, if there is memory for their results; else the log warns, as of a block of
  /// gradients or of a product that is above it by itself. Appends and merges have no estimates.
  std::uint64_t max_dispatch_ns = 0;
  /// Of attention: parts that the keys are cut into, to keep a device busy that few rows would not; 0: chosen
  /// by a rule. The parts' results are merged by a second dispatch and take workspace. 1: none, and no
  /// workspace, except where the keys of one head exceed maxStorageBufferRange. The rule also keeps each part
  /// below Capabilities::max_loop_iterations; a number of parts that does not is refused, and the least that
  /// does is named.
  std::uint32_t kv_splits = 0;
  /// Of gradients: keys whose probabilities and gradients the workspace holds at a time, 8 bytes for each and
  /// each row; a multiple of 64. 0: as many as fit 16 MiB on a CPU, 256 MiB elsewhere. `matrix2` holds none
  /// of them, and takes all keys at once.
  std::uint32_t chunk_keys = 0;
  /// Of products: block sizes in place of the kernel's own.
  std::optional<MatmulTile> matmul_tile{};
  /// Of products: parts that `inner` is cut into, whose sums are added by a second pass: for few rows and
  /// columns. 0: as many as the device needs to be busy. 1: none. At most 64; as parts have multiples of 64
  /// elements, there may be fewer.
  std::uint32_t inner_splits = 0;
  /// Of products: in place of the rule, which copies on CPUs what enough rows or columns of the output read.
  /// {}: none, which takes the least workspace.
  std::optional<MatmulCopies> copies{};
  /// Have the driver keep statistics of the pipelines for Plan::statistics(): needs
  /// VK_KHR_pipeline_executable_properties enabled. Slows compilation, and drivers may pass their caches by.
  bool capture_statistics = false;
  /// Make the plan for record(command buffer, tensors): needs VK_KHR_push_descriptor enabled on the device.
  bool push_descriptors = false;
  /// Leave compilation, the slow part, to Plan::compile(). The pipeline cache must live until then.
  bool deferred_compilation = false;
};

/// What plans of every operation are: immutable, with the chosen kernel, the compiled pipelines and the list
/// of dispatches. All shader compilation that the library asks for happens in create(), or in compile().
/// Cheap to copy; safe to share across threads; the last copy, or the last of its Bindings, destroys the
/// pipelines that no other plan of the device shares. Its executions must have ended by then.
class Plan {
 public:
  /// Of plans made with PlanOptions::deferred_compilation: compiles the pipelines, on any thread. Later calls
  /// do nothing, those at the same time wait for the first and have its outcome; after a failure a later call
  /// tries again. Until then everything works but recording. Where the driver refuses a pipeline this fails
  /// (kUnsupported): make the plan again with its kernel in PlanOptions::refusals. create() does that by
  /// itself.
  [[nodiscard]] Result<void> compile() const;
  /// That it can be recorded.
  [[nodiscard]] bool is_compiled() const noexcept;

  /// The kernel's name (decode, lane, tile, matrix or matrix2), which lives as long as the plan; empty for
  /// operations that have one kernel alone, and where no product is to be computed.
  [[nodiscard]] std::string_view kernel_name() const;
  /// Operation, kernel, types, dims and block sizes in words, and a hash of the code, its constants, the
  /// subgroup size that it asks for and the execution modes that the device offers: equal for plans whose
  /// pipelines do the same, for one driver. Empty where kernel_name() is for want of other kernels.
  [[nodiscard]] std::string configuration() const;
  /// That the kernel runs on matrix units, whose results depend on what a driver claims of them.
  [[nodiscard]] bool uses_matrix_units() const;
  /// A few lines for a person: the problem, the kernel and its configuration, every refusal, the dispatches.
  [[nodiscard]] std::string describe() const;
  /// What record() records, in this order; none where nothing is to be computed. The names live as long as
  /// the plan.
  [[nodiscard]] std::vector<DispatchInfo> dispatches() const;
  /// In the order of their dispatches, each once; none where nothing is to be computed. The names live as
  /// long as the plan.
  [[nodiscard]] std::vector<PipelineInfo> pipelines() const;
  /// The driver's statistics of each pipeline, for plans made with PlanOptions::capture_statistics.
  [[nodiscard]] Result<std::vector<PipelineStatistics>> statistics(bool listings = false) const;
  /// What the caller must provide, what to put into barriers, and what record() does to a command buffer.
  /// Executions that may overlap need workspaces of their own; others may share one (see
  /// RecordOptions::wait_for_earlier).
  [[nodiscard]] PlanRequirements requirements() const;
  /// Bytes of workspace that record needs, as requirements() has them; 0 where none is. No score matrix is
  /// ever in it; of attention only a block mask, of a word for each block, grows with query_length x
  /// kv_length. That of gradients grows with query rows and with head_dim.
  [[nodiscard]] VkDeviceSize workspace_bytes() const;

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

  /// For the library's own files.
  [[nodiscard]] const detail::PlanState& state() const { return *state_; }

 protected:
  /// For plans of one operation.
  /// @{
  explicit Plan(Shared<const detail::PlanState> state) : state_(std::move(state)) {}
  Plan(const Plan&) = default;
  Plan(Plan&&) = default;
  Plan& operator=(const Plan&) = default;
  Plan& operator=(Plan&&) = default;
  ~Plan() = default;
  /// @}

 private:
  Shared<const detail::PlanState> state_;
};

/// A plan of one operation: `Made`, with its descriptor, the tensors of an execution, and how to plan it.
template <class Made, class OwnDesc, class OwnTensors, class OwnOptions = PlanOptions>
class PlanOf : public Plan {
 public:
  using Desc = OwnDesc;        ///< what is to be computed
  using Tensors = OwnTensors;  ///< of one execution
  using Options = OwnOptions;  ///< how to plan it

  /// validate -> select -> plan. Errors: a broken rule of the descriptor, an option that the operation has no
  /// use for, a device limit (named, with both numbers), no kernel that accepts (each reason), or Vulkan's
  /// own.
  [[nodiscard]] static Result<Made> create(const Device& device, const Desc& desc,
                                           const Options& options = {});

  /// The problem that it computes, with everything given: as Desc::resolved() where that is there.
  [[nodiscard]] const Desc& desc() const;
  /// Bytes that the range of a tensor must have where it begins at byte `offset` of its buffer: from its
  /// first element to the end of the 32-bit word in which its last one ends, on every device the same. 0 for
  /// a tensor that the problem has no use for. Example: range_bytes(&AttentionTensors::key, 0).
  [[nodiscard]] VkDeviceSize range_bytes(BufferRange Tensors::*tensor, VkDeviceSize offset = 0) const;

  /// Checks the tensors against the descriptor, writes descriptor sets, and what features need into a few
  /// bytes of host-visible memory that belong to the bindings (DeviceDesc::parameter_buffer or the
  /// library's). For queues of one family. The sets come from pools that the plan's bindings share or from
  /// `pool`, which has room for requirements(); no other thread uses it meanwhile, it outlives their last
  /// use, and they go with it. `workspace` may be null where workspace_bytes() is 0.
  [[nodiscard]] Result<Bindings> make_bindings(const Tensors& tensors, const BufferRange& workspace = {},
                                               VkDescriptorPool pool = {}) const;
  /// Points existing bindings at other tensors, without allocating descriptors. Only while none is in use.
  [[nodiscard]] Result<void> rewrite(Bindings& bindings, const Tensors& tensors,
                                     const BufferRange& workspace = {}) const;

  using Plan::record;
  /// The same without an object, for plans made with PlanOptions::push_descriptors. Where features need
  /// parameters, these go to the workspace by vkCmdUpdateBuffer (requirements()).
  [[nodiscard]] Result<void> record(VkCommandBuffer commands, const Tensors& tensors,
                                    const BufferRange& workspace = {},
                                    const RecordOptions& options = {}) const;

 protected:
  /// For the library's own files.
  explicit PlanOf(Shared<const detail::PlanState> state) : Plan(std::move(state)) {}
};

}  // namespace vkattn
