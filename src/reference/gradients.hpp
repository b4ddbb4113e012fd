// Gradients of attention in float64, from the definition: the oracle of the backward pass. Shares no code
// with its kernels.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/host_tensors.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/reference.hpp"

namespace vkattn::reference {

/// The gradient of one tensor at all its positions (batch, head, row, dim), without padding.
struct Gradient {
  TensorExtents extents;
  std::vector<double> values;
  std::vector<double> tolerances;  ///< what float32 arithmetic may lose of each, without its storage

  explicit Gradient(const TensorExtents& of);
  [[nodiscard]] std::size_t index(std::int64_t batch, std::int64_t head, std::int64_t row,
                                  std::int64_t dim) const {
    return static_cast<std::size_t>(((batch * extents.heads + head) * extents.rows + row) * extents.dims +
                                    dim);
  }
  void add(std::size_t at, double value, double tolerance) {
    values[at] += value;
    tolerances[at] += tolerance;
  }
};

/// All gradients that a problem may have; of those that it has not there is no telling what they hold.
struct Gradients {
  Gradient query, key, value;
  Gradient mask;  ///< along a dimension in which the gradient's stride is 0 there is one position, the sum
  Gradient alibi_slopes, sinks;  ///< (1, query_heads, 1, 1)
};

/// What the forward pass was given, and the gradient of what it wrote.
struct BackwardInputs {
  Inputs forward;
  HostInput grad_output;
  TensorDesc grad_output_desc;  ///< with strides
  Strides grad_mask;            ///< of the mask's gradient: those of 0 are summed over
  /// What the kernel of the forward pass has rounded probabilities to: the output that it left is used.
  DataType probability_type = DataType::kFloat32;
};

/// The descriptor is resolved; its keys lie in one piece, are not quantised, and have no score function.
[[nodiscard]] Gradients compute_gradients(const AttentionDesc& desc, const BackwardInputs& inputs);

/// The largest |g - ref| allowed for an element that is stored in a type (docs/semantics.md, "Gradients").
[[nodiscard]] double gradient_tolerance(const Gradient& gradient, std::size_t index, DataType type);

}  // namespace vkattn::reference
