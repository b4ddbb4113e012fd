// Describes attention weights in numbers.
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
  std::span<const reference::KeyRange>
      visible;  ///< one for each row; used again from its start if there are more rows
};

/// Counts only rows that see at least two keys, because a single key has the whole weight, whatever its score
/// is. Scores of hidden keys do not count.
struct WeightStatistics {
  double score_deviation = 0;  ///< standard deviation of all counted scores
  double entropy_bits = 0;     ///< mean over rows of -sum p log2 p
  double entropy_share = 0;    ///< entropy as a share of log2 of the number of keys that the row sees, the
                               ///< entropy of equal weights
  double mean_largest = 0;     ///< mean over rows of the row's largest weight
  double largest = 0;          ///< largest weight of all rows
  std::int64_t largest_row = 0, largest_key = 0;
  bool has_choice = false;  ///< whether any row sees at least two keys
};

[[nodiscard]] WeightStatistics weight_statistics(const WeightRows& rows);

/// The Frobenius norm of the Jacobian of softmax, dp_i/ds_j = p_i (1[i = j] - p_j), at the weights of each
/// row. It tells how much of a gradient reaches the scores.
[[nodiscard]] std::vector<double> jacobian_norms(const WeightRows& rows);

}  // namespace vkattn::cli
