// How the scale is applied to the gradients of queries and keys.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace vkattn::detail {

/// The gradients are sums of products of three: the scale, the gradient of a pair's score, and a row of K or
/// Q. A scale far from 1 is applied in parts, before and after a product: without it the product may overflow
/// or be flushed although the gradient has an ordinary size. The product of the parts is the scale.
struct ScaleParts {
  float pair = 1;     ///< multiplies the gradient of a pair's score before the product
  float operand = 1;  ///< multiplies the row's element before the product
  float sum = 1;      ///< multiplies the sum of the products

  /// The number of factors of a product that are scaled: the pair's first, then the row's.
  [[nodiscard]] std::uint32_t scaled_factors() const { return operand != 1 ? 2 : pair != 1 ? 1 : 0; }
};

/// Scales from 2^-5 to 1, among them that of every head_dim, cost nothing in the products.
[[nodiscard]] inline ScaleParts scale_parts(float scale) {
  const float size = std::abs(scale);
  if (size == 0 || (size >= 0x1p-5F && size <= 1)) return {1, 1, scale};
  // Below 1 sums are scaled last, so numbers that were flushed before only get smaller.
  const float half = std::exp2(std::floor(std::log2(size) / 2));
  if (size < 1) return {half, 1, scale / half};
  // Above 1 numbers are scaled before they can be flushed.
  if (size <= 0x1p16F) return {scale, 1, 1};
  return {half, scale / half, 1};
}

}  // namespace vkattn::detail
