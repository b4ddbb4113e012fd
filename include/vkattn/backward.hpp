/// @file
/// Gradients of attention: the backward pass of training. docs/semantics.md ("Gradients") defines every
/// result. Nothing is summed by atomics, so two runs with the same inputs give the same bits.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/attention_tensors.hpp>
#include <vkattn/buffer_range.hpp>
#include <vkattn/capabilities.hpp>
#include <vkattn/kernels.hpp>
#include <vkattn/plan.hpp>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace vkattn {

/// The gradients of a forward problem. L is a number that depends on the output O, and with has_grad_lse on
/// the lse too. grad_output is dL/dO, and grad_query, grad_key, … are the results dL/dQ, dL/dK, ….
///
/// The forward pass must have written its lse, which turns scores, computed again, into probabilities. Sums
/// are float32 with any storage. Keys and values lie in one piece, and are not quantised.
struct BackwardDesc {
  using Plan = class BackwardPlan;  ///< what computes it

  AttentionDesc
      attention{};  ///< as the forward pass was planned, with has_lse; its weights are not looked at

  bool has_grad_lse = false;           ///< read grad_lse: L depends on the lse too
  bool has_grad_query = true;          ///< write grad_query
  bool has_grad_key = true;            ///< write grad_key
  bool has_grad_value = true;          ///< write grad_value
  bool has_grad_mask = false;          ///< write grad_mask, of a mask of numbers
  bool has_grad_alibi_slopes = false;  ///< write grad_alibi_slopes, of Alibi::kGiven or kTimesMask
  bool has_grad_sinks = false;         ///< write grad_sinks

  /// Storage of a gradient, float32, float16 or bfloat16, with the shape of the tensor that is named. Not
  /// given: type, strides and alignment of that tensor. Written elements must not overlap, so if K repeats by
  /// a stride of 0 its gradient needs strides of its own.
  /// @{
  std::optional<TensorDesc> grad_output{};  ///< of AttentionDesc::output
  std::optional<TensorDesc> grad_query{};   ///< of AttentionDesc::query
  std::optional<TensorDesc> grad_key{};     ///< of AttentionDesc::key
  std::optional<TensorDesc> grad_value{};   ///< of AttentionDesc::value
  /// @}
  /// The mask's gradient, float32 or float16, over (batch, query_head, query, key): along a dimension with
  /// stride 0 it is the sum. Not given: type and strides of the mask.
  std::optional<TensorDesc> grad_mask{};

  /// This problem with everything given, as BackwardPlan::desc() has it: the storage of each gradient, and
  /// what AttentionDesc::resolved() gives.
  [[nodiscard]] BackwardDesc resolved() const;

  /// Equal in every member.
  bool operator==(const BackwardDesc&) const = default;
};

/// The tensors of one execution; tensors that are not asked for may be null. A gradient that overlaps another
/// tensor or the workspace is refused, as in AttentionTensors. Gradients may be parts of one tensor, such as
/// packed Q, K and V.
struct BackwardTensors {
  /// The tensors of the forward pass, with the output and lse that it has written, its dropout_seed and
  /// dropout_offset. All are read, but weights, block_mask and score_buffers are not used.
  AttentionTensors forward{};
  BufferRange grad_output{};        ///< with the shape of O; read
  BufferRange grad_lse{};           ///< dL/dlse, float32 with the shape and strides of lse; read
  BufferRange grad_query{};         ///< with the shape of Q; written
  BufferRange grad_key{};           ///< with the shape of K; written
  BufferRange grad_value{};         ///< with the shape of V; written
  BufferRange grad_mask{};          ///< BackwardDesc::grad_mask; written
  BufferRange grad_alibi_slopes{};  ///< float32, one per query head; written
  BufferRange grad_sinks{};         ///< float32, one per query head; written
};

/// Checks every rule that needs no device; the first broken one is the error.
[[nodiscard]] Result<void> validate(const BackwardDesc& desc);

/// Every kernel of the backward pass in the order of preference, with the reason against each.
[[nodiscard]] std::vector<KernelSupport> kernel_support(const BackwardDesc& desc,
                                                        const Capabilities& capabilities);

/// Every kernel that takes the problem on this device, each with its own block sizes (TileSizes{}), and
/// behind it with others that can be asked for (PlanOptions::tile). The default comes first.
[[nodiscard]] std::vector<KernelTile> tuning_candidates(const BackwardDesc& desc,
                                                        const Capabilities& capabilities);

/// A plan of gradients: passes over chunks of the keys, with the same pipelines for all chunks. Each tensor
/// must fit maxStorageBufferRange.
class BackwardPlan : public PlanOf<BackwardPlan, BackwardDesc, BackwardTensors> {
 public:
  /// The type that the kernel rounds probabilities and gradients of scores to before it multiplies them with
  /// dO, K and Q: it widens the tolerance.
  [[nodiscard]] DataType probability_type() const;
  /// Keys of a chunk.
  [[nodiscard]] std::uint32_t chunk_keys() const;
  /// Whether the kernel leaves gradients of scores in the workspace, for 5 products in place of 7
  /// (PlanOptions::chunk_keys).
  [[nodiscard]] bool keeps_gradients() const;
  /// The block sizes, where PlanOptions::tile can give them; else all are 0.
  [[nodiscard]] const TileSizes& tile() const;
  using PlanOf::range_bytes;
  /// The same for the tensors of the forward pass.
  [[nodiscard]] VkDeviceSize range_bytes(BufferRange AttentionTensors::*tensor,
                                         VkDeviceSize offset = 0) const;

 private:
  friend PlanOf;
  explicit BackwardPlan(Shared<const detail::PlanState> state) : PlanOf(std::move(state)) {}
};

}  // namespace vkattn
