// From a descriptor to recorded commands: plan once, bind tensors, record as often as wanted.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/device.hpp>
#include <vkattn/score_shaders.hpp>
#include <vkattn/tuning.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn {

namespace detail {
struct PlanState;
struct BindingsState;
}  // namespace detail

/// A part of a buffer that holds one tensor. `offset` is the byte of the tensor's first element and may be
/// any multiple of the element's size (and of the declared alignment); `size` is the bytes from there that
/// the tensor may use. The buffer needs VK_BUFFER_USAGE_STORAGE_BUFFER_BIT.
struct BufferRange {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceSize offset = 0;
  VkDeviceSize size = 0;
};

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
  std::uint32_t rows = 0;  ///< of a block
  std::uint32_t keys = 0;
  std::uint32_t batch_stride = 0;  ///< 0 where blocks do not depend on the batch entry
  std::uint32_t head_stride = 0;   ///< likewise
  std::uint32_t row_stride = 0;
};

/// The tensors of one execution. A tensor without elements may have a null buffer; those from lse on are
/// used only where the descriptor asks for them. Output, lse and weights must not overlap any other tensor.
struct AttentionTensors {
  BufferRange query;
  BufferRange key;
  BufferRange value;
  BufferRange output;
  BufferRange lse;                       ///< float32
  BufferRange kv_lengths;                ///< int32, one per batch entry
  BufferRange query_lengths;             ///< int32, one per batch entry
  BufferRange cumulative_query_lengths;  ///< int32, batch + 1
  BufferRange cumulative_kv_lengths;     ///< int32, batch + 1
  BufferRange page_table;                ///< int32 (batch, page_table_stride)
  BufferRange key_scales;                ///< float32, one per KV head, where K is kFloat8E4m3
  BufferRange value_scales;              ///< float32, one per KV head, where V is kFloat8E4m3
  BufferRange mask;                      ///< AttentionDesc::mask
  BufferRange alibi_slopes;              ///< float32, one per query head
  BufferRange sinks;                     ///< float32, one per query head
  BufferRange weights;                   ///< float32
  /// Those of PlanOptions::score_function, each from a multiple of minStorageBufferOffsetAlignment on.
  std::array<BufferRange, kMaxScoreBuffers> score_buffers;
  /// Where the block mask is kept, AttentionPlan::block_mask_bytes() from a multiple of
  /// minStorageBufferOffsetAlignment on; null: in the workspace, computed by each execution.
  BufferRange block_mask;
  /// `block_mask` is what an execution of the same plan has left there, and mask, score function and its
  /// buffers are the same; or the caller has written it. It is not computed then.
  bool block_mask_complete = false;
  std::uint64_t dropout_seed = 0;
  std::uint32_t dropout_offset = 0;  ///< of the call, so that calls with one seed differ
};

/// A kernel that must not be used, and why: for what a program knows of a driver that the library does not.
struct KernelRefusal {
  std::string kernel;
  std::string reason;
};

/// How to plan a problem; what is left at its default the library decides.
struct PlanOptions {
  /// Use this kernel or fail with its reason; empty: the first of the ordered list that accepts.
  std::string kernel;
  /// Use these block sizes or fail; needs `kernel`. Without: the tile table's.
  std::optional<TileShape> tile;
  /// Measured block sizes: where a problem like this one was measured, they come before the tile table. Not
  /// used where `tile` or another kernel is asked for.
  std::shared_ptr<const Tuning> tuning;
  /// Kernels that are passed over with these reasons; one that `kernel` asks for fails with its reason.
  std::vector<KernelRefusal> refusals;
  /// Refuse kernels in which a NaN or an infinity of a hidden row of V may reach the output: those on matrix
  /// units. The others then also leave out the rows of V whose scores infinities in Q or K made -inf, which
  /// costs them a comparison for each score.
  bool strict_nonfinite = false;
  /// A score function of the user's own, see vkattn/score_function.hpp. It is part of the problem: create()
  /// sets AttentionDesc::has_score_function and score_function_hides for it.
  std::shared_ptr<const ScoreShaders> score_function;
  /// Passed to pipeline creation; owned by the caller; may be null.
  VkPipelineCache pipeline_cache = VK_NULL_HANDLE;
  /// Work is split so that no dispatch is estimated above this, on devices that are not a CPU.
  std::uint64_t max_dispatch_ns = 100'000'000;
  /// Parts that the keys are cut into, to keep a device busy that few rows would not; 0: chosen by a rule.
  /// The parts' results are merged by a second dispatch and take workspace. 1: none, and no workspace, except
  /// where the keys of one head exceed maxStorageBufferRange.
  std::uint32_t kv_splits = 0;
  /// Have the driver keep statistics of the pipelines for AttentionPlan::statistics(): needs
  /// VK_KHR_pipeline_executable_properties enabled. Slows compilation, and drivers may pass their caches by.
  bool capture_statistics = false;
  /// Make the plan for record(command buffer, tensors): needs VK_KHR_push_descriptor enabled on the device.
  bool push_descriptors = false;
};

/// One dispatch of a plan, for reports and tests.
struct DispatchInfo {
  std::string_view pass;  ///< the kernel's name, or of what follows it: combine merges a split over keys
  std::uint64_t first_tile =
      0;  ///< of the pass's tiles (row tiles of all heads of all batch entries; or rows)
  std::uint64_t tile_count = 0;
  std::uint32_t workgroups[3] = {};  ///< what vkCmdDispatch gets
  double estimated_ns = 0;           ///< a rough guess from the device class, never a measurement
};

/// One pipeline of a plan, for reports and tests.
struct PipelineInfo {
  std::string_view pass;             ///< as in DispatchInfo
  std::string_view shader;           ///< name of the binary
  std::uint32_t workgroup_size = 0;  ///< invocations
};

/// What a driver's compiler says of one executable of a pipeline (VK_KHR_pipeline_executable_properties).
struct PipelineStatistics {
  std::string pipeline;    ///< the kernel, or what follows it
  std::string shader;      ///< name of the binary
  std::string executable;  ///< the driver's name
  std::uint32_t subgroup_size = 0;
  struct Entry {
    std::string name;  ///< the driver's words
    double value = 0;
  };
  std::vector<Entry> entries;
  struct Listing {
    std::string name;
    std::string text;
  };
  std::vector<Listing> listings;  ///< intermediate forms and machine code, where asked for
};

/// Descriptor sets and parameters for one set of tensors. Reusable: record it as often as wanted; rewrite it
/// only while no recorded use is pending. The plan must outlive it. Move-only; not thread-safe by itself.
class Bindings {
 public:
  Bindings(Bindings&&) noexcept;
  Bindings& operator=(Bindings&&) noexcept;
  Bindings(const Bindings&) = delete;
  Bindings& operator=(const Bindings&) = delete;
  ~Bindings();

  /// For the library's own files.
  [[nodiscard]] const detail::BindingsState& state() const { return *state_; }

 private:
  friend class AttentionPlan;
  explicit Bindings(std::unique_ptr<detail::BindingsState> state);
  std::unique_ptr<detail::BindingsState> state_;
};

/// An immutable plan: the chosen kernel, its compiled pipeline and the list of dispatches. All shader
/// compilation that the library asks for happens in create(). Cheap to copy; safe to share across threads;
/// the last copy destroys the pipeline, which must be idle by then.
class AttentionPlan {
 public:
  /// validate -> select -> plan. Errors: a broken rule of the descriptor, a device limit (named, with both
  /// numbers), no kernel that accepts (each reason), or Vulkan's own.
  [[nodiscard]] static Result<AttentionPlan> create(const Device& device, const AttentionDesc& desc,
                                                    const PlanOptions& options = {});

  /// The problem that it computes, with what a score function adds to the one it was made from.
  [[nodiscard]] const AttentionDesc& desc() const;
  /// decode, lane, tile, matrix, matrix2 or unfused.
  [[nodiscard]] std::string_view kernel_name() const;
  /// The block sizes it was made with.
  [[nodiscard]] const TileShape& tile() const;
  /// Kernel, types, dims and block sizes in words, and a hash of the code and its constants: equal for plans
  /// whose pipelines do the same, for one driver.
  [[nodiscard]] std::string configuration() const;
  /// A few lines for a person: the problem, the kernel and its configuration, every refusal, the dispatches.
  [[nodiscard]] std::string describe() const;
  /// Bytes of workspace that record needs; 0 where none is. Grows with query_length x kv_length only
  /// for the kernel unfused.
  [[nodiscard]] VkDeviceSize workspace_bytes() const;
  /// Usage flags that a workspace buffer needs; 0 where none is needed. Its range must begin at a multiple of
  /// minStorageBufferOffsetAlignment. Executions that may overlap need workspaces of their own.
  [[nodiscard]] VkBufferUsageFlags workspace_usage() const;
  /// Bytes of AttentionTensors::block_mask, of plans that compute one before the kernel: those with a mask
  /// or a score function that hides keys, mostly. Else 0.
  [[nodiscard]] VkDeviceSize block_mask_bytes() const;
  /// For callers that write it themselves. Nothing where there is none, and where the problem takes several
  /// windows (describe()), each of which has one.
  [[nodiscard]] std::optional<BlockMaskLayout> block_mask_layout() const;
  /// What record() records, in this order; none where nothing is to be computed.
  [[nodiscard]] const std::vector<DispatchInfo>& dispatches() const;
  /// In the order of their dispatches; none where nothing is to be computed. The names live as long as the
  /// plan.
  [[nodiscard]] std::vector<PipelineInfo> pipelines() const;
  /// Bytes of one workgroup's shared memory.
  [[nodiscard]] std::uint32_t shared_memory_bytes() const;
  /// The type that the kernel rounds probabilities to before it multiplies them with V: it widens the
  /// tolerance.
  [[nodiscard]] DataType probability_type() const;
  /// That the kernel runs on matrix units, whose results depend on what a driver claims of them.
  [[nodiscard]] bool uses_matrix_units() const;

  /// The driver's statistics of each pipeline, for plans made with PlanOptions::capture_statistics.
  [[nodiscard]] Result<std::vector<PipelineStatistics>> statistics(bool listings = false) const;

  /// Checks the tensors against the descriptor and writes descriptor sets from a pool of its own.
  [[nodiscard]] Result<Bindings> make_bindings(const AttentionTensors& tensors,
                                               const BufferRange& workspace = {}) const;
  /// Points existing bindings at other tensors, without allocating descriptors. Only while none is in use.
  [[nodiscard]] Status rewrite(Bindings& bindings, const AttentionTensors& tensors,
                               const BufferRange& workspace = {}) const;

  /// Records the work: binds, pushes, dispatches. No allocation, no wait, no lock. The caller orders it
  /// against whatever writes the inputs and reads the outputs: shader reads and writes in the compute stage.
  void record(VkCommandBuffer commands, const Bindings& bindings) const noexcept;
  /// The same without an object, for plans made with PlanOptions::push_descriptors.
  [[nodiscard]] Status record(VkCommandBuffer commands, const AttentionTensors& tensors,
                              const BufferRange& workspace = {}) const;

 private:
  explicit AttentionPlan(std::shared_ptr<const detail::PlanState> state) : state_(std::move(state)) {}
  std::shared_ptr<const detail::PlanState> state_;
};

/// A kernel and whether the device and problem suit it: empty reason where they do.
struct KernelSupport {
  std::string_view kernel;
  std::string reason;
};

/// Every kernel of this build in the order of preference for the device, with the reason against each.
/// Kernels left out at build time are listed too.
[[nodiscard]] std::vector<KernelSupport> kernel_support(const AttentionDesc& desc,
                                                        const Capabilities& capabilities);

}  // namespace vkattn
