// The steps of a layer's passes, and their problems.
#pragma once

#include <array>

#include "module/layer_program.hpp"
#include "module/layer_symbols.hpp"

namespace vkattn::detail {

/// The tensors between the steps, or their gradients: a symbol for each piece of the memory.
struct BetweenSteps {
  std::vector<BufferRange> projected;  ///< of each group
  BufferRange turned, heads, lse;

  /// Q, K or V: the first element of its first head.
  [[nodiscard]] BufferRange projection(std::size_t which, const LayerShape& shape, DataType type) const;
};

/// The append of a resolved descriptor with a cache: it writes the new rows, and turns queries.
[[nodiscard]] AppendDesc append_desc(const MultiHeadAttentionDesc& desc);
/// The rotation of a descriptor without a cache: it turns the heads of Q, of K, or of both if they lie side
/// by side, in place. `back` is the transpose, for their gradients.
[[nodiscard]] AppendDesc rotation_desc(const MultiHeadAttentionDesc& desc, std::size_t first, bool back);
/// Adds the steps of the rotation of the projections `rows`. `call` has symbols, here and below.
[[nodiscard]] Result<void> add_rotation_steps(const MultiHeadAttentionDesc& desc,
                                              const MultiHeadAttentionTensors& call, const BetweenSteps& rows,
                                              bool back, LayerProgram& program);
/// The gradients of its attention.
[[nodiscard]] BackwardDesc attention_gradients(const MultiHeadAttentionBackwardDesc& desc);

/// Add the steps of valid and resolved descriptors.
/// @{
[[nodiscard]] Result<void> add_forward_steps(const MultiHeadAttentionDesc& desc,
                                             const MultiHeadAttentionTensors& call, LayerProgram& program);
[[nodiscard]] Result<void> add_backward_steps(const MultiHeadAttentionBackwardDesc& desc,
                                              const MultiHeadAttentionBackwardTensors& call,
                                              LayerProgram& program);
/// @}

/// A weight as a matrix: the parameter that holds it, and its storage.
struct StoredWeight {
  BufferRange MultiHeadAttentionParameters::*parameter = nullptr;
  VkDeviceSize byte = 0;  ///< in it
  std::int64_t inputs = 0;
  DataType type = DataType::kFloat32;
  std::uint32_t alignment_bytes = 0;

  /// The weight among the parameters of a call.
  [[nodiscard]] BufferRange in(const MultiHeadAttentionParameters& parameters) const {
    return behind(parameters.*parameter, byte);
  }
  /// (inputs, outputs), as a forward pass multiplies by it.
  [[nodiscard]] MatrixDesc transposed() const { return {type, MatrixStrides{0, 1, inputs}, alignment_bytes}; }
  /// (outputs, inputs).
  [[nodiscard]] MatrixDesc as_stored() const { return {type, MatrixStrides{0, inputs, 1}, alignment_bytes}; }
};

/// W_Q, W_K or W_V. Packed weights of a group are read as one, by its first.
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

/// The tensors between the steps in the memory `base`.
[[nodiscard]] BetweenSteps between_steps(const LayerMemory& memory, const BufferRange& base);
/// The tensors of attention in either pass, with the caller's tensors for its features.
[[nodiscard]] AttentionTensors attention_tensors(const MultiHeadAttentionTensors& call,
                                                 const BetweenSteps& between,
                                                 const MultiHeadAttentionDesc& desc, const LayerShape& shape);

/// Sets names and shapes of the tensors that the caller gives to both passes. Some are written by the forward
/// pass alone.
void name_layer_tensors(const MultiHeadAttentionDesc& desc, const LayerShape& shape,
                        const MultiHeadAttentionTensors& call, VkDeviceSize saved_bytes, bool is_forward,
                        LayerProgram& program);
/// Sets those of the forward pass's other tensors.
void name_output_tensors(const MultiHeadAttentionDesc& desc, const LayerShape& shape,
                         const MultiHeadAttentionTensors& call, LayerProgram& program);
/// Sets those of the backward pass's other tensors.
void name_gradient_tensors(const MultiHeadAttentionBackwardDesc& desc, const LayerShape& shape,
                           const MultiHeadAttentionBackwardTensors& call, LayerProgram& program);

}  // namespace vkattn::detail
