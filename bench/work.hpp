// How much work a problem is: arithmetic and bytes, as every rate in a report counts them.
#pragma once

#include <cstdint>

#include "problem/problem.hpp"

namespace vkattn::bench {

struct Work {
  /// (query, key) pairs that are visible, over all batch entries and query heads. Of a random mask the
  /// number to be expected.
  double visible_pairs = 0;
  /// 2 * visible pairs * (head_dim + value_dim): multiplications and additions of both matrix products; of
  /// the five of a backward pass 2 * visible pairs * (3 * head_dim + 2 * value_dim). The softmax is not
  /// counted. Of a matrix multiplication 2 * rows * columns * inner, half of it where a is all ones.
  double flops = 0;
  /// Every byte that has to move at least once: Q, O, lse, weights and mask, and those rows of K and V that
  /// some query may see but for the mask. A backward pass reads all of them, and dO, and writes the gradients
  /// of Q, K, V and a mask. A matrix multiplication: its matrices, the output twice where it is added to.
  double bytes = 0;
};

[[nodiscard]] Work count_work(const Problem& problem);

/// The same problem with less to do, about `flops` or somewhat more: fewer batch entries, then fewer heads,
/// then fewer query rows, in the same proportions of visible keys where that is possible. The problem itself
/// where it is no larger.
[[nodiscard]] Problem shrink(const Problem& problem, double flops);

}  // namespace vkattn::bench
