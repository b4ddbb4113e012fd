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
#include <vkattn/supports.hpp>
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

/// How to plan a problem. The library decides options that are left at their defaults. An option that is set,
/// but that the operation does not use, is an error. `tuning`, `notes`, `pipeline_cache` and
/// `max_dispatch_ns` may be given to every operation.
struct PlanOptions {
  /// Use this kernel or fail with its reason; empty: the first of the ordered list that accepts, and that the
  /// driver compiles. kernel_support() has the list of a problem. Of gradients: `lane` (no barriers; comes
  /// first on CPU implementations), `tile` (shared memory), `matrix` (VK_KHR_cooperative_matrix, 16-bit Q, K,
  /// V and dO; comes first on GPUs with such matrices, not on Intel before Xe2) or `matrix2`
  /// (VK_NV_cooperative_matrix2, the same types, rows at multiples of 16 bytes, heads of up to 256 dims, no
  /// gradients of masks and slopes; comes before `matrix` where it is there). Of products: `lane`,
  /// `lane_decode`, `tile` or `matrix`.
  std::string kernel;
  /// Of attention: use these block sizes or fail; needs `kernel`. Not given: those of the tile table. The
  /// block sizes of products are `matmul_tile`. Of gradients `matrix2` alone takes them, for its staged form:
  /// `subgroups`, the rows that its pass over keys visits at a time, and the keys of its pass over rows.
  std::optional<TileSizes> tile{};
  /// Measured block sizes. If a problem like this one was measured in this arithmetic, they come before the
  /// tile table. Not used if block sizes or another kernel are asked for.
  Shared<const Tuning> tuning{};
  /// Kernels that are passed over, with reasons; a plan whose `kernel` is one of them fails with its reason.
  std::vector<KernelRefusal> refusals{};
  /// Lines that describe() gives as they are: what the caller knows of the choice.
  std::vector<std::string> notes{};
  /// Refuse kernels of attention in which a NaN or an infinity of a hidden row of V may reach the output: the
  /// kernels on matrix units. The other kernels then also leave out rows of V whose scores are -inf because
  /// of infinities in Q or K, which costs a comparison for each score.
  bool strict_nonfinite = false;
  /// Of attention. kFloat16: products and short sums are float16, within a tolerance and limits of their own
  /// (docs/semantics.md, "float16 arithmetic"), at up to twice the rate on GPUs that multiply pairs of
  /// float16; docs/performance.md says which compilers use this. It needs Q, K and V of float16, the kernel
  /// tile, and shaderFloat16 and storageBuffer16BitAccess enabled; else the plan is refused. So few rows over
  /// many keys go to tile too, not to decode.
  DataType arithmetic_type = DataType::kFloat32;
  /// Passed to pipeline creation; owned by the caller; may be null.
  VkPipelineCache pipeline_cache = {};
  /// Work is cut so that no dispatch is estimated above this, in nanoseconds. 0: 100 ms, and no limit on a
  /// CPU. With 100 ms a device ten times slower than guessed stays below the 2 seconds after which watchdogs
  /// end a program. If one block of rows over all its keys is above the limit, the keys are cut into parts
  /// too, if there is memory for their results. Otherwise the log warns, and also for a block of gradients or
  /// of a product above the limit. Appends and merges have no estimates.
  std::uint64_t max_dispatch_ns = 0;
  /// Of attention: the number of parts that the keys are cut into, to keep a device busy that few rows would
  /// leave idle. The parts' results take workspace; decode merges them itself where the device allows it,
  /// else a second dispatch does. 0: a rule chooses. 1: no split and no workspace, unless the keys of one
  /// head exceed maxStorageBufferRange; so lane_decode reads no vectors, and takes about twice as long. The
  /// rule also keeps each part below
  /// Capabilities::max_loop_iterations; a number that does not is refused with the least number that does.
  std::uint32_t kv_splits = 0;
  /// Of gradients: number of keys whose probabilities and gradients the workspace holds at a time, 8 bytes
  /// for each key and row; a multiple of 64. 0: as many as fit 16 MiB on a CPU, 256 MiB elsewhere. `matrix2`
  /// stores none of them and takes all keys at once for 0, and where dQ is not written or neither of
  /// dK and dV; else it stores the gradients alone, 4 bytes.
  std::uint32_t chunk_keys = 0;
  /// Of products: block sizes in place of the kernel's own.
  std::optional<MatmulTile> matmul_tile{};
  /// Of products: the number of parts that `inner` is cut into, for few rows and columns; a second pass adds
  /// their sums. 0: as many as the device needs to be busy. 1: none. At most 64. Parts have multiples of 64
  /// elements, so there may be fewer.
  std::uint32_t inner_splits = 0;
  /// Of products: which operands are copied. Not given: by a rule, which on CPUs copies operands that enough
  /// rows or columns read. MatmulCopies{}: none, with the least workspace.
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
  /// Compiles the pipelines of a plan with PlanOptions::deferred_compilation, on any thread. Later calls do
  /// nothing. Calls at the same time wait for the first and have its outcome; after a failure a later call
  /// tries again. Before that everything works but recording. If the driver refuses a pipeline this fails
  /// (kUnsupported): make the plan again, without PlanOptions::tuning if its block sizes were measured, else
  /// with its kernel in PlanOptions::refusals. create() does that by itself.
  [[nodiscard]] Result<void> compile() const;
  /// Whether the plan can be recorded.
  [[nodiscard]] bool is_compiled() const noexcept;

  /// The kernel's name (KernelRefusal::kernel has all), which lives as long as the plan; empty for operations
  /// that have one kernel alone, and where no product is to be computed.
  [[nodiscard]] std::string_view kernel_name() const;
  /// Operation, kernel, types, dims and block sizes in words, and a hash of the code, its constants, the
  /// subgroup size that it asks for and the execution modes that the device offers. With one driver it is
  /// equal for plans whose pipelines do the same. Empty for operations that have one kernel alone.
  [[nodiscard]] std::string configuration() const;
  /// Whether the kernel runs on matrix units, whose results depend on what a driver claims of them.
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
  /// Bytes that the plan holds, or needs of its caller. Errors: those of statistics(), if the plan was made
  /// with PlanOptions::capture_statistics and is compiled.
  [[nodiscard]] Result<PlanMemory> memory() const;
  /// What the caller must provide, what to put into barriers, and what record() does to a command buffer.
  /// Executions that may overlap need workspaces of their own; others may share one (see
  /// RecordOptions::wait_for_earlier).
  [[nodiscard]] PlanRequirements requirements() const;
  /// Bytes of workspace that record needs, as requirements() has them; 0 where none is. No score matrix is
  /// ever in it; of attention only a block mask, of a word for each block, grows with query_length x
  /// kv_length. That of gradients grows with query rows and with head_dim.
  [[nodiscard]] VkDeviceSize workspace_bytes() const;

  /// Whether the plan was made on this VkDevice.
  [[nodiscard]] bool is_on(const Device& device) const noexcept;
  /// Whether this plan or a copy of it made the bindings.
  [[nodiscard]] bool has_made(const Bindings& bindings) const noexcept;

  /// Records the work: binds, pushes, dispatches. No allocation, no wait, no lock, no transfer. The caller
  /// orders it against whatever writes the inputs and reads the outputs, and binds its own compute state
  /// again afterwards: requirements() has both. Bindings of another plan, and a plan that is not compiled,
  /// are errors of the caller's: nothing is recorded then, as the status and DeviceDesc::log tell, and a core
  /// that was built as Debug ends the program by assert(). has_made() and is_compiled() say beforehand.
  RecordStatus record(VkCommandBuffer commands, const Bindings& bindings,
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

  /// validate -> select -> plan. Errors: a broken rule of the descriptor, an option that the operation does
  /// not use, a device limit (named, with both numbers), no kernel that accepts (with each reason), or an
  /// error of Vulkan.
  [[nodiscard]] static Result<Made> create(const Device& device, const Desc& desc,
                                           const Options& options = {});
  /// What create() would make on a device of these capabilities: see vkattn::supports().
  [[nodiscard]] static Result<Support> supported(const Capabilities& capabilities, const Desc& desc,
                                                 const Options& options = {});

  /// The problem that it computes, with everything given, as Desc::resolved() has it (if there is one).
  [[nodiscard]] const Desc& desc() const;
  /// Bytes that the range of a tensor must have if it begins at byte `offset` of its buffer: from its first
  /// element to the end of the 32-bit word in which its last element ends. Equal on every device. 0 for a
  /// tensor that the problem does not use. Example: range_bytes(&AttentionTensors::key, 0).
  [[nodiscard]] VkDeviceSize range_bytes(BufferRange Tensors::*tensor, VkDeviceSize offset = 0) const;

  /// Checks the tensors against the descriptor and writes descriptor sets. Parameters of features go to a few
  /// bytes of host-visible memory that belong to the bindings (DeviceDesc::parameter_buffer or the
  /// library's). For queues of one family. The sets come from pools that the plan's bindings share, or from
  /// `pool`, which needs room for requirements(), is used by no other thread meanwhile, outlives the
  /// bindings' last use and frees their sets. `workspace` may be null if workspace_bytes() is 0.
  [[nodiscard]] Result<Bindings> make_bindings(const Tensors& tensors, const BufferRange& workspace = {},
                                               VkDescriptorPool pool = {}) const;
  /// Points existing bindings at other tensors, without allocating descriptors. Only while none is in use.
  [[nodiscard]] Result<void> rewrite(Bindings& bindings, const Tensors& tensors,
                                     const BufferRange& workspace = {}) const;

  using Plan::record;
  /// Records without bindings, for plans with PlanOptions::push_descriptors. Parameters of features then go
  /// to the workspace by vkCmdUpdateBuffer (requirements()).
  [[nodiscard]] Result<void> record(VkCommandBuffer commands, const Tensors& tensors,
                                    const BufferRange& workspace = {},
                                    const RecordOptions& options = {}) const;

 protected:
  /// For the library's own files.
  explicit PlanOf(Shared<const detail::PlanState> state) : Plan(std::move(state)) {}
};

}  // namespace vkattn
