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

/// The gradients of a forward problem. With L a number that depends on the output O alone, grad_output is
/// dL/dO, and grad_query, grad_key, … are what it makes of the other tensors: dL/dQ, dL/dK, ….
///
/// The forward pass must have written its lse: scores are computed again and taken to probabilities by it.
/// Sums are float32, whatever is stored. Keys and values lie in one piece, and are not quantised.
struct BackwardDesc {
  using Plan = class BackwardPlan;  ///< what computes it

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

/// Checks every rule that needs no device; the first broken one is the error.
[[nodiscard]] Result<void> validate(const BackwardDesc& desc);

/// Every kernel of the backward pass in the order of preference, with the reason against each.
[[nodiscard]] std::vector<KernelSupport> kernel_support(const BackwardDesc& desc,
                                                        const Capabilities& capabilities);

/// A plan of gradients: passes over chunks of the keys, those of all chunks with the same pipelines. Each
/// tensor must fit maxStorageBufferRange.
class BackwardPlan : public PlanOf<BackwardPlan, BackwardDesc, BackwardTensors> {
 public:
  /// The type that the kernel rounds probabilities and gradients of scores to before it multiplies them with
  /// dO, K and Q: it widens the tolerance.
  [[nodiscard]] DataType probability_type() const;
  /// Keys of a chunk.
  [[nodiscard]] std::uint32_t chunk_keys() const;
  using PlanOf::range_bytes;
  /// The same of the tensors that both passes have.
  [[nodiscard]] VkDeviceSize range_bytes(BufferRange AttentionTensors::*tensor,
                                         VkDeviceSize offset = 0) const;

 private:
  friend PlanOf;
  explicit BackwardPlan(Shared<const detail::PlanState> state) : PlanOf(std::move(state)) {}
};

}  // namespace vkattn
