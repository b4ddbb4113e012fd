// Gradients of attention in float64, from the definition: the oracle of the backward pass. Shares no code
// with its kernels.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/backward.hpp>
#include <vkattn/host_tensors.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "reference/reference.hpp"

namespace vkattn::reference {

/// The gradient of one tensor at all its positions (batch, head, row, dim), without padding.
struct Gradient {
  TensorExtents extents;
  std::vector<double> values;
  std::vector<double> tolerances;  ///< what float32 arithmetic may lose of each, without its storage
  /// Rows, all heads of all batch entries in one list, of which not all that they are the sum of was added.
  std::vector<bool> is_partial;
  // Where factors are rounded: the largest of each row, and of each element the magnitudes that they
  // multiply.
  std::vector<double> largest_factors, factored;
  double least_factor = 0;  ///< what may be lost of each factor, as a share of the row's largest

  explicit Gradient(const TensorExtents& of);
  [[nodiscard]] std::size_t index(std::int64_t batch, std::int64_t head, std::int64_t row,
                                  std::int64_t dim) const {
    return static_cast<std::size_t>(((batch * extents.heads + head) * extents.rows + row) * extents.dims +
                                    dim);
  }
  /// The number of a row in is_partial.
  [[nodiscard]] std::size_t row_index(std::int64_t batch, std::int64_t head, std::int64_t row) const {
    return static_cast<std::size_t>((batch * extents.heads + head) * extents.rows + row);
  }
  void add(std::size_t at, double value, double tolerance) {
    values[at] += value;
    tolerances[at] += tolerance;
  }
  /// A product whose factor is rounded by `rounding` of itself.
  void add_product(std::size_t at, double factor, double number, double tolerance, double rounding) {
    add(at, factor * number, tolerance + rounding * std::abs(factor * number));
    factored[at] += std::abs(number);
  }
  /// Once for the products of a row, which have one factor.
  void note_factor(std::size_t row, double factor) {
    largest_factors[row] = std::max(largest_factors[row], std::abs(factor));
  }
};

/// All gradients that a problem may have; of those that it has not there is no telling what they hold.
struct Gradients {
  Gradient query, key, value;
  Gradient mask;  ///< along a dimension in which the gradient's stride is 0 there is one position, the sum
  Gradient alibi_slopes, sinks;  ///< (1, query_heads, 1, 1)

  /// The gradient of a tensor that a backward pass writes.
  [[nodiscard]] const Gradient& of(BufferRange BackwardTensors::*tensor) const;
};

/// Which is whose.
inline constexpr std::pair<BufferRange BackwardTensors::*, Gradient Gradients::*> kGradientMembers[] = {
    {&BackwardTensors::grad_query, &Gradients::query},
    {&BackwardTensors::grad_key, &Gradients::key},
    {&BackwardTensors::grad_value, &Gradients::value},
    {&BackwardTensors::grad_mask, &Gradients::mask},
    {&BackwardTensors::grad_alibi_slopes, &Gradients::alibi_slopes},
    {&BackwardTensors::grad_sinks, &Gradients::sinks}};

/// The part of the gradients of Q, K and V to compute: every so manyth row and key of some KV heads. The
/// others, and keys that no query sees, are partial then, and so are all gradients that are summed over rows
/// and keys.
struct GradientSelection {
  std::vector<std::pair<std::int64_t, std::int64_t>> heads;  ///< batch and KV head; none: all
  std::int64_t row_step = 1, key_step = 1;

  [[nodiscard]] bool is_all() const { return heads.empty() && row_step == 1 && key_step == 1; }
};

/// The inputs of the forward pass, and the gradients of its results.
struct BackwardInputs {
  Inputs forward;
  HostInput grad_output;
  TensorDesc grad_output_desc;  ///< with strides
  HostInput grad_lse;           ///< with the strides of the lse; none if nothing depends on that
  Strides grad_mask;            ///< of the mask's gradient: those of 0 are summed over
  /// The type to which the forward kernel has rounded probabilities, as its output is used.
  DataType probability_type = DataType::kFloat32;
  /// The type to which the backward kernel rounds probabilities and gradients of scores.
  DataType factor_type = DataType::kFloat32;
  /// The least number that the largest weight of a key counts as, for kernels that scale no weights.
  double least_largest_weight = 0;
};

/// The descriptor is resolved; its keys lie in one piece, are not quantised, and have no score function.
[[nodiscard]] Gradients compute_gradients(const AttentionDesc& desc, const BackwardInputs& inputs,
                                          const GradientSelection& selection = {});

/// The largest |g - ref| allowed for an element that is stored in a type (docs/semantics.md, "Gradients").
[[nodiscard]] double gradient_tolerance(const Gradient& gradient, std::size_t index, DataType type);

}  // namespace vkattn::reference
