/// @file
/// Gradients of attention: the backward pass of training. docs/semantics.md ("Gradients") defines every
/// result. Nothing is summed by atomics, so two runs with the same inputs give the same bits.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/attention_tensors.hpp>
#include <vkattn/bindings.hpp>
#include <vkattn/buffer_range.hpp>
#include <vkattn/capabilities.hpp>
#include <vkattn/device.hpp>
#include <vkattn/kernels.hpp>
#include <vkattn/recording.hpp>
#include <vkattn/shared.hpp>
#include <vkattn/statistics.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn {

struct Tuning;

namespace detail {
struct BackwardState;
}  // namespace detail

/// The gradients of a forward problem. With L a number that depends on the output O alone, grad_output is
/// dL/dO, and grad_query, grad_key, … are what it makes of the other tensors: dL/dQ, dL/dK, ….
///
/// The forward pass must have written its lse: scores are computed again and taken to probabilities by it.
/// Sums are float32, whatever is stored. Keys and values lie in one piece, and are not quantised.
struct BackwardDesc {
  AttentionDesc
      attention{};  ///< as the forward pass was planned, with has_lse; its weights are not looked at

  bool has_grad_query = true;          ///< write grad_query
  bool has_grad_key = true;            ///< write grad_key
  bool has_grad_value = true;          ///< write grad_value
  bool has_grad_mask = false;          ///< write grad_mask, of a mask of numbers
  bool has_grad_alibi_slopes = false;  ///< write grad_alibi_slopes, of Alibi::kGiven
  bool has_grad_sinks = false;         ///< write grad_sinks

  /// Storage of a tensor that has the shape of another: float32, float16 or bfloat16. Not given: type,
  /// strides and alignment of the other. Elements of what is written must not overlap, so where K repeats by
  /// a stride of 0 the gradient needs strides of its own.
  /// @{
  std::optional<TensorDesc> grad_output{};  ///< of AttentionDesc::output
  std::optional<TensorDesc> grad_query{};   ///< of AttentionDesc::query
  std::optional<TensorDesc> grad_key{};     ///< of AttentionDesc::key
  std::optional<TensorDesc> grad_value{};   ///< of AttentionDesc::value
  /// @}
  /// Of the mask's gradient, over (batch, query_head, query, key): along a dimension with stride 0 it is
  /// summed. Float32 or float16. Not given: type and strides of the mask.
  std::optional<TensorDesc> grad_mask{};

  /// The same with everything given, as BackwardPlan::desc() has it: the storage of each gradient, and what
  /// AttentionDesc::resolved() gives.
  [[nodiscard]] BackwardDesc resolved() const;

  /// Equal in every member.
  bool operator==(const BackwardDesc&) const = default;
};

/// The tensors of one execution. Those that are not asked for may be null. No gradient may overlap another
/// tensor, nor the workspace: such bindings are refused, as those of AttentionTensors are. Gradients may be
/// parts of one tensor, as those of packed Q, K and V.
struct BackwardTensors {
  /// Those of the forward pass, output and lse as it has written them, with its dropout_seed and
  /// dropout_offset. All of them are read; weights, block_mask and score_buffers are not used.
  AttentionTensors forward{};
  BufferRange grad_output{};        ///< with the shape of O; read
  BufferRange grad_query{};         ///< with the shape of Q; written
  BufferRange grad_key{};           ///< with the shape of K; written
  BufferRange grad_value{};         ///< with the shape of V; written
  BufferRange grad_mask{};          ///< BackwardDesc::grad_mask; written
  BufferRange grad_alibi_slopes{};  ///< float32, one per query head; written
  BufferRange grad_sinks{};         ///< float32, one per query head; written
};

/// How to plan a backward pass; what is left at its default the library decides.
struct BackwardOptions {
  /// Use this kernel or fail with its reason: `lane` (no barriers; comes first on CPU implementations),
  /// `tile` (shared memory), `matrix` (VK_KHR_cooperative_matrix, 16-bit Q, K, V and dO; comes first on GPUs
  /// with such matrices, but on Intel before Xe2) or `matrix2` (VK_NV_cooperative_matrix2, the same types,
  /// rows at multiples of 16 bytes, heads of up to 256 dims, no gradients of masks and slopes; comes before
  /// `matrix` where it is there). Empty: the first that accepts, and that the driver compiles.
  std::string kernel;
  std::vector<KernelRefusal> refusals;  ///< as PlanOptions::refusals
  /// Keys whose probabilities and gradients the workspace holds at a time, 8 bytes for each and each row; a
  /// multiple of 64. 0: as many as fit 16 MiB on a CPU, 256 MiB elsewhere. `matrix2` holds none of them, and
  /// takes all keys at once.
  std::uint32_t chunk_keys = 0;
  Shared<const Tuning> tuning{};        ///< as PlanOptions::tuning, for what is left open above
  VkPipelineCache pipeline_cache = {};  ///< owned by the caller; may be null
  /// As PlanOptions::max_dispatch_ns. Of a block of rows or keys that is above it by itself the log warns.
  std::uint64_t max_dispatch_ns = 0;
  bool push_descriptors = false;      ///< for record(command buffer, tensors, workspace)
  bool deferred_compilation = false;  ///< leave compilation to BackwardPlan::compile()
  bool capture_statistics = false;    ///< for BackwardPlan::statistics()
};

/// Checks every rule that needs no device; the first broken one is the error.
[[nodiscard]] Result<void> validate(const BackwardDesc& desc);

/// Every kernel of the backward pass in the order of preference, with the reason against each.
[[nodiscard]] std::vector<KernelSupport> kernel_support(const BackwardDesc& desc,
                                                        const Capabilities& capabilities);

/// An immutable plan of passes over chunks of the keys. Cheap to copy; safe to share across threads; the last
/// copy, or the last of its Bindings, ends it as AttentionPlan's does.
class BackwardPlan {
 public:
  /// Errors: a broken rule of the descriptor, a device limit (each tensor must fit maxStorageBufferRange), or
  /// Vulkan's own.
  [[nodiscard]] static Result<BackwardPlan> create(const Device& device, const BackwardDesc& desc,
                                                   const BackwardOptions& options = {});

  /// As AttentionPlan::compile().
  [[nodiscard]] Result<void> compile() const;
  /// That nothing is left to compile.
  [[nodiscard]] bool is_compiled() const noexcept;

  /// What it computes, as BackwardDesc::resolved() gives it.
  [[nodiscard]] const BackwardDesc& desc() const;
  /// The kernel's name.
  [[nodiscard]] std::string_view kernel_name() const;
  /// The type that the kernel rounds probabilities and gradients of scores to before it multiplies them with
  /// dO, K and Q: it widens the tolerance.
  [[nodiscard]] DataType probability_type() const;
  /// As AttentionPlan::configuration().
  [[nodiscard]] std::string configuration() const;
  /// As AttentionPlan::uses_matrix_units().
  [[nodiscard]] bool uses_matrix_units() const;
  /// Keys of a chunk.
  [[nodiscard]] std::uint32_t chunk_keys() const;
  /// Lines for a person: the problem, the kernel with its block sizes, the reasons against others.
  [[nodiscard]] std::string describe() const;
  /// As AttentionPlan::dispatches().
  [[nodiscard]] std::vector<DispatchInfo> dispatches() const;
  /// As AttentionPlan::pipelines(); those of all chunks are the same.
  [[nodiscard]] std::vector<PipelineInfo> pipelines() const;
  /// As AttentionPlan::statistics().
  [[nodiscard]] Result<std::vector<PipelineStatistics>> statistics(bool listings = false) const;
  /// As AttentionPlan::requirements().
  [[nodiscard]] PlanRequirements requirements() const;
  /// Bytes of workspace that record needs: it grows with query rows and with head_dim, not with their product
  /// with the number of keys.
  [[nodiscard]] VkDeviceSize workspace_bytes() const;
  /// As AttentionPlan::range_bytes(), of the tensors that both passes have.
  [[nodiscard]] VkDeviceSize range_bytes(BufferRange AttentionTensors::*tensor,
                                         VkDeviceSize offset = 0) const;
  /// The same of the others.
  [[nodiscard]] VkDeviceSize range_bytes(BufferRange BackwardTensors::*tensor, VkDeviceSize offset = 0) const;

  /// As AttentionPlan::make_bindings().
  [[nodiscard]] Result<Bindings> make_bindings(const BackwardTensors& tensors,
                                               const BufferRange& workspace = {},
                                               VkDescriptorPool pool = {}) const;
  /// Points existing bindings at other tensors. Only while none is in use.
  [[nodiscard]] Result<void> rewrite(Bindings& bindings, const BackwardTensors& tensors,
                                     const BufferRange& workspace = {}) const;
  /// That the plan was made on this VkDevice.
  [[nodiscard]] bool is_on(const Device& device) const noexcept;
  /// That the bindings were made by this plan or a copy of it.
  [[nodiscard]] bool has_made(const Bindings& bindings) const noexcept;

  /// As AttentionPlan::record().
  void record(VkCommandBuffer commands, const Bindings& bindings,
              const RecordOptions& options = {}) const noexcept;
  /// The same without an object, for plans made with BackwardOptions::push_descriptors.
  [[nodiscard]] Result<void> record(VkCommandBuffer commands, const BackwardTensors& tensors,
                                    const BufferRange& workspace = {},
                                    const RecordOptions& options = {}) const;

 private:
  explicit BackwardPlan(Shared<const detail::BackwardState> state) : state_(std::move(state)) {}
  Shared<const detail::BackwardState> state_;
};

}  // namespace vkattn
