// Computes scores and weights of queries and keys on the device.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "inspect/statistics.hpp"

namespace vkattn::cli {

/// The outcome of a comparison with the float64 reference.
struct WeightCheck {
  std::int64_t compared = 0;
  double largest_error = 0;
  double largest_share = 0;  ///< share of the tolerance; NaN counts as infinity

  [[nodiscard]] bool passed() const { return largest_share <= 1; }
};

/// The inputs of weights: a descriptor of one batch entry, and arrays in its strides. It has values only as
/// far as the problem needs some.
struct WeightProblem {
  AttentionDesc desc;
  std::span<const float> query, key;
  std::span<const float> value = {};  ///< if empty, the keys stand in for the values
};

/// The scores and weights of a problem, (head, query, key).
struct Weights {
  std::vector<float> scores;  ///< times the scale, before softcap and before keys are hidden
  std::vector<float> weights;
  std::int64_t keys = 0;
  std::vector<reference::KeyRange> visible;  ///< of each query
  std::string kernel;

  /// The rows of one head, or the rows of all heads together.
  [[nodiscard]] WeightRows rows_of(std::int64_t head) const;
  [[nodiscard]] WeightRows rows() const;
};

/// The result of one execution, and the kernel that computed it.
struct Computed {
  std::vector<float> output;   ///< (head, query, value_dim)
  std::vector<float> weights;  ///< at the requested stage, (head, query, key)
  std::string kernel;
};
[[nodiscard]] Computed compute_attention(const Runtime& runtime, const WeightProblem& problem,
                                         WeightsStage stage);

[[nodiscard]] Weights compute_weights(const Runtime& runtime, const WeightProblem& problem);

/// Compares the weights with the reference and adds to the outcome.
void check_weights(const WeightProblem& problem, const Weights& weights, WeightCheck& check);

/// The outcome in one line.
[[nodiscard]] std::string check_text(const WeightCheck& check);

}  // namespace vkattn::cli
