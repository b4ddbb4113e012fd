// How far a result may be from the reference: docs/semantics.md, "Tolerances".
#include <algorithm>
#include <cmath>

#include "reference/gradients.hpp"
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
  return factor * 0x1p-24 * (1.0 + row.score_magnitude);
}

/// What float32 arithmetic can lose of one score, as a share of the magnitudes that it is the sum of: the sum
/// of head_dim products, of which each rounding is as likely up as down, and few operations after it.
double score_tolerance(const AttentionDesc& desc) {
  return (16.0 + softcap_factor(desc) + std::sqrt(static_cast<double>(desc.head_dim))) * 0x1p-24;
}

}  // namespace

double rounding_tolerance(DataType type) {
  return type == DataType::kFloat32 ? 0 : type == DataType::kFloat16 ? 0x1p-11 : 0x1p-8;
}

double least_weight(DataType type) {
  return type == DataType::kFloat16 ? 0x1p-32 : kLeastNormal;
}

double output_tolerance(const AttentionDesc& desc, const Row& row, std::int64_t dim,
                        DataType probability_type) {
  const auto d = static_cast<std::size_t>(dim);
  // What is flushed: weights (beside a sink, or where the others meet zeros in V, they can all be tiny),
  // their products with values, and results.
  const double flushed = kLeastNormal * (1.0 + static_cast<double>(row.visible_keys)) +
                         least_weight(probability_type) * row.value_sum[d];
  return (arithmetic_tolerance(desc, row) + rounding_tolerance(probability_type)) * row.value_magnitude[d] +
         storage_tolerance(desc.output.type, std::abs(row.output[d])) + flushed;
}

double lse_tolerance(const AttentionDesc& desc, const Row& row) {
  return arithmetic_tolerance(desc, row) + 0x1p-22 * std::abs(row.lse);
}

double weight_tolerance(const AttentionDesc& desc, const Row& row, std::int64_t key) {
  const auto j = static_cast<std::size_t>(key);
  if (desc.weights != WeightsStage::kProbabilities) {
    return score_tolerance(desc) * row.weight_magnitudes[j] + kLeastNormal;
  }
  // One score's error is not averaged over keys as that of the output is, so it counts here by itself.
  return (arithmetic_tolerance(desc, row) + score_tolerance(desc) * row.score_magnitude) * row.weights[j] +
         0x1p-24;
}

double gradient_tolerance(const Gradient& gradient, std::size_t index, DataType type) {
  const double largest = gradient.largest_factors[index / static_cast<std::size_t>(gradient.extents.dims)];
  return gradient.tolerances[index] + gradient.least_factor * largest * gradient.factored[index] +
         storage_tolerance(type, std::abs(gradient.values[index])) + kLeastNormal;
}

}  // namespace vkattn::reference
