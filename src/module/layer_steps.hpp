// The steps of a layer's passes, and the problems that they are.
#pragma once

#include <array>

#include "module/layer_program.hpp"
#include "module/layer_symbols.hpp"

namespace vkattn::detail {

/// What lies between the steps, or its gradients: a symbol for each piece of the memory.
struct BetweenSteps {
  std::vector<BufferRange> projected;  ///< of each group
  BufferRange turned, heads, lse;

  /// Q, K or V: the first element of its first head.
  [[nodiscard]] BufferRange projection(std::size_t which, const LayerShape& shape, DataType type) const;
};

/// Of a resolved descriptor with a cache: writing the new rows, and turning queries where they lie.
[[nodiscard]] AppendDesc append_desc(const MultiHeadAttentionDesc& desc);
/// Of one without: the heads of Q, of K, or of both where they lie side by side, are turned where they lie;
/// `back` is the transpose, which their gradients take.
[[nodiscard]] AppendDesc rotation_desc(const MultiHeadAttentionDesc& desc, std::size_t first, bool back);
/// Adds all of it, on what `rows` are the projections of; `call` has symbols, as in all that follows.
[[nodiscard]] Result<void> add_rotation_steps(const MultiHeadAttentionDesc& desc,
                                              const MultiHeadAttentionTensors& call, const BetweenSteps& rows,
                                              bool back, LayerProgram& program);
/// The gradients of its attention.
[[nodiscard]] BackwardDesc attention_gradients(const MultiHeadAttentionBackwardDesc& desc);

/// Of valid and resolved descriptors.
/// @{
[[nodiscard]] Result<void> add_forward_steps(const MultiHeadAttentionDesc& desc,
                                             const MultiHeadAttentionTensors& call, LayerProgram& program);
[[nodiscard]] Result<void> add_backward_steps(const MultiHeadAttentionBackwardDesc& desc,
                                              const MultiHeadAttentionBackwardTensors& call,
                                              LayerProgram& program);
/// @}

/// A weight as a matrix: which it is, and how it is stored.
struct StoredWeight {
  BufferRange MultiHeadAttentionParameters::*parameter = nullptr;
  VkDeviceSize byte = 0;  ///< in it
  std::int64_t inputs = 0;
  DataType type = DataType::kFloat32;
  std::uint32_t alignment_bytes = 0;

  /// Among those of a call.
  [[nodiscard]] BufferRange in(const MultiHeadAttentionParameters& parameters) const {
    return behind(parameters.*parameter, byte);
  }
  /// (inputs, outputs), as a forward pass multiplies by it.
  [[nodiscard]] MatrixDesc transposed() const { return {type, MatrixStrides{0, 1, inputs}, alignment_bytes}; }
  /// (outputs, inputs).
  [[nodiscard]] MatrixDesc as_stored() const { return {type, MatrixStrides{0, inputs, 1}, alignment_bytes}; }
};

/// W_Q, W_K or W_V; where they are packed, those of a group are read as one by the first.
[[nodiscard]] StoredWeight projection_weight(const MultiHeadAttentionDesc& desc, const LayerShape& shape,
                                             std::size_t which);
/// W_O.
[[nodiscard]] StoredWeight output_weight(const MultiHeadAttentionDesc& desc, const LayerShape& shape);

/// "projection to Q K", …
[[nodiscard]] std::string name_of(const ProjectionGroup& group);

/// The inputs as the caller gives them.
inline constexpr std::array kInputRanges{&MultiHeadAttentionTensors::query, &MultiHeadAttentionTensors::key,
                                         &MultiHeadAttentionTensors::value};

/// Their gradients.
inline constexpr std::array kInputGradients{&MultiHeadAttentionBackwardTensors::grad_query,
                                            &MultiHeadAttentionBackwardTensors::grad_key,
                                            &MultiHeadAttentionBackwardTensors::grad_value};

/// In the memory that `base` is.
[[nodiscard]] BetweenSteps between_steps(const LayerMemory& memory, const BufferRange& base);
/// What attention is given in either pass, with the caller's tensors for its features.
[[nodiscard]] AttentionTensors attention_tensors(const MultiHeadAttentionTensors& call,
                                                 const BetweenSteps& between,
                                                 const MultiHeadAttentionDesc& desc, const LayerShape& shape);

/// Names and shapes of what the caller gives to both passes, of which the forward pass alone writes some.
void name_layer_tensors(const MultiHeadAttentionDesc& desc, const LayerShape& shape,
                        const MultiHeadAttentionTensors& call, VkDeviceSize saved_bytes, bool is_forward,
                        LayerProgram& program);
/// Those of the forward pass.
void name_output_tensors(const MultiHeadAttentionDesc& desc, const LayerShape& shape,
                         const MultiHeadAttentionTensors& call, LayerProgram& program);
/// Those of the backward pass.
void name_gradient_tensors(const MultiHeadAttentionBackwardDesc& desc, const LayerShape& shape,
                           const MultiHeadAttentionBackwardTensors& call, LayerProgram& program);

}  // namespace vkattn::detail
