// What attention weights look like, in numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/positions.hpp"

namespace vkattn::cli {

/// Scores and weights of rows over the same keys, as the device wrote them.
struct WeightRows {
  std::span<const float> scores, weights;  ///< row by row
  std::int64_t keys = 0;
  std::span<const reference::KeyRange> visible;  ///< of each row; over again where there are more rows
};

/// Of the rows that see at least two keys: one key has all of the weight, whatever its score is. Deviations
/// are of all scores of keys that are seen.
struct WeightStatistics {
  double score_deviation = 0;  ///< standard deviation of all scores
  double entropy_bits = 0;     ///< mean over rows of -sum p log2 p
  double entropy_share = 0;    ///< of log2 of the keys that each row sees, which equal weights would have
  double mean_largest = 0;     ///< mean over rows of the row's largest weight
  double largest = 0;          ///< of all
  std::int64_t largest_row = 0, largest_key = 0;
  bool has_choice = false;  ///< there is such a row
};

[[nodiscard]] WeightStatistics weight_statistics(const WeightRows& rows);

/// The Frobenius norm of the Jacobian of softmax at each row's weights, dp_i/ds_j = p_i (1[i = j] - p_j): how
/// much of a gradient passes to the scores.
[[nodiscard]] std::vector<double> jacobian_norms(const WeightRows& rows);

}  // namespace vkattn::cli
