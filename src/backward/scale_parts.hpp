// How the scale is applied to the gradients of queries and keys.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace vkattn::detail {

/// The gradients are sums of products of three: the scale, the gradient of a pair's score, and a row of K or
/// Q. A scale far from 1 must reach a product in parts, before and after, as the product without it may
/// overflow or be flushed where the gradient is a number of ordinary size. The parts' product is the scale.
struct ScaleParts {
  float pair = 1;     ///< multiplies the gradient of a pair's score before the product
  float operand = 1;  ///< multiplies the row's element before the product
  float sum = 1;      ///< multiplies the sum of the products

  /// How many factors of a product are scaled: the pair's before the row's.
  [[nodiscard]] std::uint32_t scaled_factors() const { return operand != 1 ? 2 : pair != 1 ? 1 : 0; }
};

/// Scales from 2^-5 to 1, among them that of every head_dim, cost nothing in the products.
[[nodiscard]] inline ScaleParts scale_parts(float scale) {
  const float size = std::abs(scale);
  if (size == 0 || (size >= 0x1p-5F && size <= 1)) return {1, 1, scale};
  // Below 1 sums are scaled last, so that what is flushed before gets smaller still.
  const float half = std::exp2(std::floor(std::log2(size) / 2));
  if (size < 1) return {half, 1, scale / half};
  // Above 1 nothing is scaled after it was flushed.
  if (size <= 0x1p16F) return {scale, 1, 1};
  return {half, scale / half, 1};
}

}  // namespace vkattn::detail
