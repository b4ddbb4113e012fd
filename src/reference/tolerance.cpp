// How far a result may be from the reference: docs/semantics.md, "Tolerances".
#include <algorithm>
#include <cmath>

#include "reference/gradients.hpp"
#include "reference/philox.hpp"
#include "reference/reference.hpp"
#include "reference/storage_tolerance.hpp"

namespace vkattn::reference {
namespace {

/// A tanh of float32 may be off by 4 units in the last place, which are 8 halves of one.
double softcap_factor(const AttentionDesc& desc) {
  return desc.softcap > 0 ? 8.0 : 0.0;
}

double arithmetic_tolerance(const AttentionDesc& desc, const Row& row) {
  const double factor = 16.0 + softcap_factor(desc) + std::sqrt(static_cast<double>(desc.kv_length));
  return factor * 0x1p-24 * (1.0 + row.score_magnitude) + share_of_score(row.score_flushed);
}

/// The error of one score in float32 arithmetic, as a share of the magnitudes that it is the sum of. It is a
/// sum of head_dim products, whose roundings go up as likely as down, with few operations after it.
double score_tolerance(const AttentionDesc& desc) {
  return (16.0 + softcap_factor(desc) + std::sqrt(static_cast<double>(desc.head_dim))) * 0x1p-24;
}

/// Products that a float16 sum takes at most, in float16 arithmetic: of dims for a score, of keys for the
/// output. At the least it takes 4 dims, and where a mask hides the others 2 keys.
constexpr double kSumDims = 16, kSumKeys = 8;
constexpr double kLeastSumDims = 4, kLeastSumKeys = 2;

/// The error of a sum of so many products, as a share of their magnitudes: each product and each partial sum
/// is rounded, up as often as down.
double float16_sum_tolerance(double products) {
  return (1.0 + std::sqrt(products)) * 0x1p-11;
}

/// E_i, what float16 arithmetic loses of a score: by rounding, and of small products and sums. A factor makes
/// scores of sums, as queries are scaled by a power of two.
double float16_score_tolerance(const AttentionDesc& desc, const Row& row) {
  const double factor = std::max(2 * std::log(2.0), std::abs(static_cast<double>(desc.effective_scale())));
  const double sums = 2 * std::ceil(static_cast<double>(desc.head_dim) / (2 * kLeastSumDims));
  return float16_sum_tolerance(kSumDims) * row.product_magnitude + row.product_lost +
         sums * factor * kLeastFloat16;
}

/// This error as a share of a probability, which is the exponential of a score. Finite, as it is multiplied
/// by zeros too.
double float16_probability_tolerance(const AttentionDesc& desc, const Row& row) {
  constexpr double kAnythingGoes = 64;
  return std::expm1(std::min(float16_score_tolerance(desc, row), kAnythingGoes));
}

/// As float16_probability_tolerance(), but of an element of the output.
double float16_output_tolerance(const AttentionDesc& desc, const Row& row, std::size_t dim) {
  const double sums = std::ceil(static_cast<double>(row.visible_keys) / kLeastSumKeys) + 1;
  return (float16_probability_tolerance(desc, row) + float16_sum_tolerance(kSumKeys)) *
             row.value_magnitude[dim] +
         row.value_lost[dim] + sums * kept_factor(desc.dropout) * row.largest_weight * kLeastFloat16;
}

}  // namespace

double rounding_tolerance(DataType type) {
  return type == DataType::kFloat32 ? 0 : type == DataType::kFloat16 ? 0x1p-11 : 0x1p-8;
}

double least_weight(DataType type) {
  return type == DataType::kFloat16 ? 0x1p-32 : kLeastNormal;
}

double largest_stored(DataType type) {
  switch (type) {
    case DataType::kQ8_0:
      return 127;
    case DataType::kQ4_0:
      return 8;
    case DataType::kFloat8E4m3:
      return 448;
    default:
      return 0;
  }
}

double output_tolerance(const AttentionDesc& desc, const Row& row, std::int64_t dim,
                        DataType probability_type, DataType arithmetic_type) {
  const auto d = static_cast<std::size_t>(dim);
  // Weights are relative to the largest, 1, where they meet values.
  if (row.score_flushed == kUndefined || overflows(row.value_magnitude[d] / row.largest_weight))
    return kUndefined;
  // Devices may flush weights (beside a sink, or if the others meet zeros in V, all can be tiny),
  // their products with values, and results.
  // They may also flush products with the scales of V, before these meet its numbers.
  const double of_a_key = kLeastNormal * (1 + largest_stored(desc.value.type));
  const double flushed =
      kLeastNormal + kept_factor(desc.dropout) * (of_a_key * static_cast<double>(row.visible_keys) +
                                                  least_weight(probability_type) * row.value_sum[d]);
  return (arithmetic_tolerance(desc, row) + rounding_tolerance(probability_type)) * row.value_magnitude[d] +
         storage_tolerance(desc.output.type, std::abs(row.output[d])) + flushed +
         (arithmetic_type == DataType::kFloat16 ? float16_output_tolerance(desc, row, d) : 0);
}

double lse_tolerance(const AttentionDesc& desc, const Row& row, DataType arithmetic_type) {
  if (row.score_flushed == kUndefined) return kUndefined;
  return arithmetic_tolerance(desc, row) + 0x1p-22 * std::abs(row.lse) +
         (arithmetic_type == DataType::kFloat16 ? float16_score_tolerance(desc, row) : 0);
}

double weight_tolerance(const AttentionDesc& desc, const Row& row, std::int64_t key,
                        DataType arithmetic_type) {
  const auto j = static_cast<std::size_t>(key);
  if (desc.weights != WeightsStage::kProbabilities) {
    return score_tolerance(desc) * row.weight_magnitudes[j] + row.weight_flushed[j] + kLeastNormal;
  }
  if (row.score_flushed == kUndefined) return kUndefined;
  // One score's error is not averaged over keys as that of the output is, so it counts here by itself.
  // The score is computed again in float32: of float16 arithmetic the weight has the error of the lse alone.
  const double lse = arithmetic_type == DataType::kFloat16 ? float16_probability_tolerance(desc, row) : 0;
  return (arithmetic_tolerance(desc, row) + score_tolerance(desc) * row.score_magnitude + lse) *
             row.weights[j] +
         0x1p-24;
}

double gradient_tolerance(const Gradient& gradient, std::size_t index, DataType type) {
  const double largest = gradient.largest_factors[index / static_cast<std::size_t>(gradient.extents.dims)];
  return gradient.tolerances[index] + gradient.least_factor * largest * gradient.factored[index] +
         storage_tolerance(type, std::abs(gradient.values[index])) + kLeastNormal;
}

}  // namespace vkattn::reference
