// Scores and weights of queries and keys, computed on the device.
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
  double largest_share = 0;  ///< of its tolerance; NaN counts as infinity

  [[nodiscard]] bool passed() const { return largest_share <= 1; }
};

/// What weights are made of: a descriptor of one batch entry with as much of values as it needs, and arrays
/// in its strides.
struct WeightProblem {
  AttentionDesc desc;
  std::span<const float> query, key;
  std::span<const float> value = {};  ///< none: the keys stand in
};

/// Of a problem, (head, query, key).
struct Weights {
  std::vector<float> scores;  ///< times the scale, before softcap and whatever hides keys
  std::vector<float> weights;
  std::int64_t keys = 0;
  std::vector<reference::KeyRange> visible;  ///< of each query
  std::string kernel;

  /// Of one head, or of all as if they were one.
  [[nodiscard]] WeightRows rows_of(std::int64_t head) const;
  [[nodiscard]] WeightRows rows() const;
};

/// What one execution gives, and the kernel that computed it.
struct Computed {
  std::vector<float> output;   ///< (head, query, value_dim)
  std::vector<float> weights;  ///< at the stage that was asked for, (head, query, key)
  std::string kernel;
};
[[nodiscard]] Computed compute_attention(const Runtime& runtime, const WeightProblem& problem,
                                         WeightsStage stage);

[[nodiscard]] Weights compute_weights(const Runtime& runtime, const WeightProblem& problem);

/// Compares the weights and adds to the outcome.
void check_weights(const WeightProblem& problem, const Weights& weights, WeightCheck& check);

/// One line.
[[nodiscard]] std::string check_text(const WeightCheck& check);

}  // namespace vkattn::cli
