// The steps of a layer's passes, and the problems that they are.
#pragma once

#include <array>

#include "module/module_program.hpp"

namespace vkattn::detail {

/// What lies between the steps, or its gradients: a place for each piece of the memory.
struct BetweenSteps {
  std::vector<Place> projected;  ///< of each group
  Place turned, heads, lse;

  /// Q, K or V: the first element of its first head.
  [[nodiscard]] Place projection(std::size_t which, const LayerShape& shape, DataType type) const;
};

/// Of a resolved descriptor with a cache: writing the new rows, and turning queries where they lie.
[[nodiscard]] AppendDesc append_desc(const MultiHeadAttentionDesc& desc);
/// Of one without: the heads of Q, of K, or of both where they lie side by side, are turned where they lie;
/// `back` is the transpose, which their gradients take.
[[nodiscard]] AppendDesc rotation_desc(const MultiHeadAttentionDesc& desc, std::size_t first, bool back);
/// Adds all of it, on what `rows` are the projections of.
[[nodiscard]] Result<void> add_rotation_steps(const MultiHeadAttentionDesc& desc, const BetweenSteps& rows,
                                              bool back, ModuleProgram& program);
/// Gradients of what features of attention ask for, which are attention's own and the caller's.
struct ScoreGradient {
  BufferRange MultiHeadAttentionBackwardTensors::*layer;
  BufferRange BackwardTensors::*attention;
};
inline constexpr std::array<ScoreGradient, 3> kScoreGradients{
    {{&MultiHeadAttentionBackwardTensors::grad_mask, &BackwardTensors::grad_mask},
     {&MultiHeadAttentionBackwardTensors::grad_alibi_slopes, &BackwardTensors::grad_alibi_slopes},
     {&MultiHeadAttentionBackwardTensors::grad_sinks, &BackwardTensors::grad_sinks}}};
/// The gradients of its attention.
[[nodiscard]] BackwardDesc attention_gradients(const MultiHeadAttentionBackwardDesc& desc);

/// Of valid and resolved descriptors.
/// @{
[[nodiscard]] Result<void> add_forward_steps(const MultiHeadAttentionDesc& desc,
                                             const AttentionPlan& attention, ModuleProgram& program);
[[nodiscard]] Result<void> add_backward_steps(const MultiHeadAttentionBackwardDesc& desc,
                                              ModuleProgram& program);
/// @}

/// A weight as a matrix: its place, and how it is stored.
struct StoredWeight {
  Place place;
  std::int64_t inputs = 0;
  DataType type = DataType::kFloat32;
  std::uint32_t alignment_bytes = 0;

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
[[nodiscard]] Place input_place(std::size_t input);

[[nodiscard]] BetweenSteps between_steps(const LayerMemory& memory, Place (*place)(const Piece&));
/// What attention is given in either pass, with the caller's tensors for its features.
[[nodiscard]] AttentionTensors attention_tensors(const ModuleCall& call, const BetweenSteps& between,
                                                 const MultiHeadAttentionDesc& desc, const LayerShape& shape);

/// Tensors that the caller gives to both passes, of which the forward pass alone writes some.
void add_layer_tensors(const MultiHeadAttentionDesc& desc, const LayerShape& shape, VkDeviceSize saved_bytes,
                       bool is_forward, ModuleProgram& program);
/// Those of the forward pass.
void add_output_tensors(const MultiHeadAttentionDesc& desc, const LayerShape& shape, ModuleProgram& program);
/// Those of the backward pass.
void add_gradient_tensors(const MultiHeadAttentionBackwardDesc& desc, const LayerShape& shape,
                          ModuleProgram& program);

}  // namespace vkattn::detail
