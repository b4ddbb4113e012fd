// The work in a problem: arithmetic and bytes. Every rate in a report counts them in this way.
#pragma once

#include <cstdint>

#include "problem/problem.hpp"

namespace vkattn::bench {

struct Work {
  /// The visible (query, key) pairs, over all batch entries and query heads. For a random mask, the expected
  /// number.
  double visible_pairs = 0;
  /// The multiplications and additions of the matrix products. Attention has two products: 2 * visible pairs
  /// * (head_dim + value_dim). A backward pass has five: 2 * visible pairs * (3 * head_dim + 2 * value_dim).
  /// The softmax is not counted. A matrix multiplication has 2 * rows * columns * inner, or half of it if a
  /// is all ones.
  double flops = 0;
  /// Every byte that must move at least once: Q, O, lse, weights and mask, and the rows of K and V that some
  /// query may see if the mask is ignored. A backward pass reads all of them and dO, and writes the gradients
  /// of Q, K, V and a mask. A matrix multiplication moves its matrices, and its output twice if it is added
  /// to.
  double bytes = 0;
};

[[nodiscard]] Work count_work(const Problem& problem);

/// The same problem with less work, about `flops` or somewhat more. It has fewer batch entries, then fewer
/// heads, then fewer query rows, with the same shares of visible keys if possible. Returns the problem itself
/// if it is no larger.
[[nodiscard]] Problem shrink(const Problem& problem, double flops);

}  // namespace vkattn::bench
