// Gradients in float64, row by row, as docs/semantics.md states them.
#include "reference/gradients.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "reference/philox.hpp"
#include "reference/positions.hpp"
#include "reference/storage.hpp"
#include "reference/storage_tolerance.hpp"

namespace vkattn::reference {
namespace {

ProductSum sum_of_products(const std::vector<double>& a, const std::vector<double>& b) {
  ProductSum sum;
  for (std::size_t d = 0; d < a.size(); ++d) sum.add(a[d], b[d]);
  return sum;
}

double sum_of_magnitudes(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += std::abs(a[d] * b[d]);
  return sum;
}

/// The error of a float32 sum of so many terms, as a share of their magnitudes.
double sum_tolerance(std::int64_t terms) {
  return (16.0 + std::sqrt(static_cast<double>(terms))) * 0x1p-24;
}

/// The extents of a mask's gradient, which is a sum along strides of 0.
TensorExtents gradient_extents(const AttentionDesc& desc, const Strides& strides) {
  const auto positions = [](std::int64_t stride, std::int64_t extent) { return stride == 0 ? 1 : extent; };
  return {positions(strides.batch, desc.batch), positions(strides.head, mask_extents(desc).heads),
          positions(strides.row, desc.query_length), positions(strides.dim, desc.kv_length)};
}

/// The gradient of one key's score, and of what it is made of.
struct PairGradient {
  double kept = 0;         ///< what dropout makes of a probability of 1
  double weight = 0;       ///< w[i,j]
  double score = 0;        ///< of s[i,j]
  double product = 0;      ///< of <q, k>
  double tolerance = 0;    ///< of `score`
  double magnitude = 0;    ///< of the terms of `score`
  double slope = 0;        ///< of `product` to `score`, without its sign
  double lost_slope = 0;   ///< the part of it that a device may flush
  bool is_defined = true;  ///< that float32 holds what `score` is made of
};

/// The factors by which kernels may multiply a pair's gradient, and a row's element, before they add up
/// products: so a scale far from 1 makes no product overflow without need.
struct EarlyScale {
  double pair = 1, element = 1;

  explicit EarlyScale(double scale) {
    const double size = std::abs(scale), root = std::sqrt(size);
    if (size > 0 && size < 0x1p-5) pair = root;
    if (size > 1) pair = size <= 0x1p16 ? size : root;
    if (size > 0x1p16) element = 2 * root;
  }
};

class BackwardPass {
 public:
  BackwardPass(const AttentionDesc& desc, const BackwardInputs& inputs, const GradientSelection& selection,
               Gradients& gradients)
      : desc_(desc),
        inputs_(inputs),
        selection_(selection),
        gradients_(gradients),
        early_(static_cast<double>(desc.effective_scale())) {
    desc_.weights = WeightsStage::kProbabilities;
  }

  void add_row(const RowIndex& row) {
    row_ = row;
    stored_ = stored_row(desc_, inputs_.forward, row);
    forward_ = compute_row(desc_, inputs_.forward, row);
    const RowIndex& s = stored_;
    decode(vector_at(inputs_.forward.query, desc_.query, s.batch, s.head, s.query, desc_.head_dim), query_);
    decode(
        vector_at(inputs_.grad_output, inputs_.grad_output_desc, s.batch, s.head, s.query, desc_.value_dim),
        grad_output_);
    const ProductSum delta = sum_of_products(grad_output_, forward_.output);
    delta_ = delta.sum;
    row_is_defined_ = forward_.score_flushed != kUndefined;
    delta_magnitude_ = sum_of_magnitudes(grad_output_, forward_.value_magnitude);
    delta_tolerance_ = sum_tolerance(desc_.value_dim) * delta_magnitude_ + delta.flushed();
    for (std::int64_t d = 0; d < desc_.value_dim; ++d) {
      const double of_output = output_tolerance(desc_, forward_, d, inputs_.probability_type);
      row_is_defined_ = row_is_defined_ && of_output != kUndefined;
      delta_tolerance_ += std::abs(grad_output_[static_cast<std::size_t>(d)]) * of_output;
    }
    if (!inputs_.grad_lse.bytes().empty()) subtract_grad_lse();
    const KeyRange seen = seen_keys(desc_, inputs_.forward, row);
    const bool is_whole = row.query % selection_.row_step == 0;
    Gradient& query = gradients_.query;
    query.is_partial[query.row_index(stored_.batch, stored_.head, stored_.query)] = !is_whole;
    for (std::int64_t j = seen.begin; j < seen.end; ++j) {
      if ((is_whole || j % selection_.key_step == 0) && !is_hidden(j)) add_key(j);
    }
    if (desc_.has_sinks) add_sink();
  }

 private:
  [[nodiscard]] bool is_hidden(std::int64_t key) const {
    return std::isinf(mask_bias(inputs_.forward.mask, desc_, row_.batch, row_.head, row_.query, key));
  }

  /// dlse[i] / ds[i,j] is p[i,j], so each gradient of a score has p[i,j] * dL/dlse[i] more.
  void subtract_grad_lse() {
    const Strides& strides = *desc_.lse_strides;
    const std::int64_t place =
        stored_.batch * strides.batch + stored_.head * strides.head + stored_.query * strides.row;
    const auto of_lse = static_cast<double>(number_at<float>(inputs_.grad_lse, place));
    const double size = std::abs(of_lse);
    delta_ -= of_lse;
    delta_magnitude_ += size;
    delta_tolerance_ += sum_tolerance(desc_.value_dim) * size + std::min(size, kLeastNormal);
  }

  /// The error of a float32 probability, from its score and the row's lse.
  [[nodiscard]] double probability_tolerance() const {
    const double softcap = desc_.softcap > 0 ? 8 * 0x1p-24 : 0;
    return (sum_tolerance(desc_.kv_length) + softcap) * (1 + forward_.score_magnitude) +
           (sum_tolerance(desc_.head_dim) + softcap) * forward_.score_magnitude +
           share_of_score(forward_.score_flushed);
  }

  [[nodiscard]] double dropout_factor(std::int64_t key) const {
    if (desc_.dropout == 0) return 1;
    DropoutPosition position;
    position.seed = inputs_.forward.dropout_seed;
    position.offset = inputs_.forward.dropout_offset;
    position.batch_head = static_cast<std::uint32_t>(row_.batch * desc_.query_heads + row_.head);
    position.query = static_cast<std::uint32_t>(row_.query);
    position.key = static_cast<std::uint32_t>(key);
    return is_kept(position, desc_.dropout) ? kept_factor(desc_.dropout) : 0;
  }

  /// The gradient of the pair with the key whose vectors are key_ and value_.
  [[nodiscard]] PairGradient pair_gradient(std::int64_t key) const {
    PairGradient pair;
    const double probability = forward_.weights[static_cast<std::size_t>(key)];
    const double kept = dropout_factor(key);
    const ProductSum of_weight = sum_of_products(grad_output_, value_);
    pair.kept = kept;
    pair.weight = probability * kept;
    pair.score = probability * (kept * of_weight.sum - delta_);
    const double scale = static_cast<double>(desc_.effective_scale());
    double slope = scale;
    if (desc_.softcap > 0) {
      const double cosh =
          std::cosh(scale * sum_of_products(query_, key_).sum / static_cast<double>(desc_.softcap));
      slope /= cosh * cosh;
      pair.lost_slope = 4 * kLeastNormal * std::abs(scale);  // kernels compute 4 e / (1 + e)^2
    }
    pair.product = slope * pair.score;
    pair.slope = std::abs(slope);
    const double magnitude = kept * of_weight.magnitude + delta_magnitude_;
    pair.is_defined = row_is_defined_ && !overflows(magnitude);
    pair.magnitude = (probability + kLeastNormal) * magnitude;
    const double chain = desc_.softcap > 0 ? 2 * probability_tolerance() : 0;
    pair.tolerance = (probability_tolerance() + sum_tolerance(desc_.value_dim) + chain) * pair.magnitude +
                     kLeastNormal * magnitude + probability * (kept * of_weight.flushed() + delta_tolerance_);
    return pair;
  }

  /// The tolerance of a product of the pair's gradient and an element of K or Q; `tolerance` is that of the
  /// gradient.
  [[nodiscard]] double product_tolerance(const PairGradient& pair, double tolerance, double number) const {
    const double size = std::abs(number);
    const double factor = pair.magnitude * early_.pair, element = size * early_.element;
    const bool is_defined =
        pair.is_defined && !overflows(factor) && !overflows(element) && !overflows(factor * element);
    if (!is_defined) return kUndefined;
    const double flushed = size < kLeastNormal ? std::abs(pair.product) * size : 0;
    return tolerance * size + kLeastNormal * (1 + size) + flushed;
  }

  void add_key(std::int64_t key) {
    const std::int64_t group = desc_.query_heads / desc_.kv_heads;
    const std::int64_t kv_head = row_.head / group;
    const KeyPlace place = stored_key(desc_, inputs_.forward, row_.batch, key);
    const std::size_t key_row = gradients_.key.row_index(place.batch, kv_head, place.row);
    gradients_.key.is_partial[key_row] = gradients_.value.is_partial[key_row] =
        key % selection_.key_step != 0;
    decode(vector_at(inputs_.forward.key, desc_.key, place.batch, kv_head, place.row, desc_.head_dim), key_);
    decode(vector_at(inputs_.forward.value, desc_.value, place.batch, kv_head, place.row, desc_.value_dim),
           value_);
    const PairGradient pair = pair_gradient(key);
    const std::int64_t rows = desc_.query_length * group;
    const double lost = pair.lost_slope * pair.magnitude;
    const double in_row =
        pair.slope * (pair.tolerance + sum_tolerance(desc_.kv_length) * pair.magnitude) + lost;
    const double in_column = pair.slope * (pair.tolerance + sum_tolerance(rows) * pair.magnitude) + lost;
    const double rounding = rounding_tolerance(inputs_.factor_type);
    const std::size_t query_row = gradients_.query.row_index(stored_.batch, stored_.head, stored_.query);
    gradients_.query.note_factor(query_row, pair.product);
    gradients_.key.note_factor(key_row, pair.product);
    // A row's elements lie side by side.
    const auto query_first = query_row * query_.size(), key_first = key_row * key_.size();
    for (std::size_t d = 0; d < query_.size(); ++d) {
      const double q = query_[d], k = key_[d];
      gradients_.query.add_product(query_first + d, pair.product, k, product_tolerance(pair, in_row, k),
                                   rounding);
      gradients_.key.add_product(key_first + d, pair.product, q, product_tolerance(pair, in_column, q),
                                 rounding);
    }
    const double flushed = std::max(1.0, pair.kept) * kLeastNormal;
    const double weight = (probability_tolerance() + sum_tolerance(rows)) * pair.weight + flushed;
    gradients_.value.note_factor(key_row, pair.weight);
    const auto value_first = key_row * value_.size();
    for (std::size_t d = 0; d < value_.size(); ++d) {
      const double g = grad_output_[d];
      const bool is_defined = row_is_defined_ && !overflows(pair.weight * std::abs(g));
      const double tolerance = weight * std::abs(g) + std::max(1.0, pair.kept) * kLeastNormal;
      gradients_.value.add_product(value_first + d, pair.weight, g, is_defined ? tolerance : kUndefined,
                                   rounding);
    }
    add_score(key, pair);
  }

  /// Adds to the gradients of numbers that are added to scores, or multiply distances.
  void add_score(std::int64_t key, const PairGradient& pair) {
    const std::int64_t all = desc_.batch * desc_.query_heads * desc_.query_length * desc_.kv_length;
    const double tolerance =
        pair.is_defined ? pair.tolerance + sum_tolerance(all) * pair.magnitude : kUndefined;
    const TensorExtents& e = gradients_.mask.extents;
    const auto at = [](std::int64_t position, std::int64_t extent) { return extent == 1 ? 0 : position; };
    const double factor = mask_factor(inputs_.forward.alibi_slopes, desc_, row_.head);
    gradients_.mask.add(
        gradients_.mask.index(at(row_.batch, e.batch), at(mask_head(desc_, row_.head), e.heads),
                              at(row_.query, e.rows), at(key, e.dims)),
        factor * pair.score, std::abs(factor) * tolerance);
    add_slope(key, pair, tolerance);
  }

  /// Adds to the gradient of the number that multiplies the distance, or the mask.
  void add_slope(std::int64_t key, const PairGradient& pair, double tolerance) {
    if (desc_.alibi == Alibi::kTimesMask) {
      const double bias = mask_bias(inputs_.forward.mask, desc_, row_.batch, row_.head, row_.query, key);
      gradients_.alibi_slopes.add(static_cast<std::size_t>(row_.head), pair.score * bias,
                                  tolerance * std::abs(bias));
      return;
    }
    const std::int64_t aligned = row_.query + position_offset(desc_, inputs_.forward, row_.batch);
    const auto distance = static_cast<double>(std::abs(aligned - key));
    if (distance == 0) return;
    gradients_.alibi_slopes.add(static_cast<std::size_t>(row_.head), -pair.score * distance,
                                tolerance * distance);
  }

  void add_sink() {
    const auto sink = static_cast<double>(number_at<float>(inputs_.forward.sinks, row_.head));
    const double probability = std::exp(sink - forward_.lse);
    const std::int64_t rows = desc_.batch * desc_.query_length;
    const double tolerance =
        probability * ((probability_tolerance() + sum_tolerance(rows)) * delta_magnitude_ + delta_tolerance_);
    gradients_.sinks.add(static_cast<std::size_t>(row_.head), -probability * delta_,
                         row_is_defined_ ? tolerance + kLeastNormal * (1 + delta_magnitude_) : kUndefined);
  }

  AttentionDesc desc_;
  const BackwardInputs& inputs_;
  const GradientSelection& selection_;
  Gradients& gradients_;
  EarlyScale early_;
  // These belong to the row.
  RowIndex row_, stored_;
  Row forward_;
  std::vector<double> query_, grad_output_;
  double delta_ = 0, delta_magnitude_ = 0, delta_tolerance_ = 0;
  bool row_is_defined_ = true;
  // These belong to the key.
  std::vector<double> key_, value_;
};

}  // namespace

Gradient::Gradient(const TensorExtents& of) : extents(of) {
  const auto elements = static_cast<std::size_t>(of.batch * of.heads * of.rows * of.dims);
  values.assign(elements, 0.0);
  tolerances.assign(elements, 0.0);
  factored.assign(elements, 0.0);
  const auto rows = static_cast<std::size_t>(of.batch * of.heads * of.rows);
  largest_factors.assign(rows, 0.0);
  is_partial.assign(rows, false);
}

namespace {

bool is_selected(const GradientSelection& selection, std::int64_t batch, std::int64_t kv_head) {
  return selection.heads.empty() ||
         std::ranges::find(selection.heads, std::pair(batch, kv_head)) != selection.heads.end();
}

}  // namespace

const Gradient& Gradients::of(BufferRange BackwardTensors::*tensor) const {
  const auto* const found =
      std::ranges::find_if(kGradientMembers, [&](const auto& member) { return member.first == tensor; });
  assert(found != std::end(kGradientMembers));
  return this->*found->second;
}

Gradients compute_gradients(const AttentionDesc& desc, const BackwardInputs& inputs,
                            const GradientSelection& selection) {
  assert(desc.cache.mapping == KeyMapping::kContiguous && !desc.score_function);
  const bool adds = desc.mask.type == MaskType::kFloat32 || desc.mask.type == MaskType::kFloat16;
  Gradients gradients{Gradient(query_extents(desc, desc.head_dim)),
                      Gradient(key_extents(desc, desc.head_dim)),
                      Gradient(key_extents(desc, desc.value_dim)),
                      Gradient(adds ? gradient_extents(desc, inputs.grad_mask) : TensorExtents{1, 1, 1, 1}),
                      Gradient({1, desc.query_heads, 1, 1}),
                      Gradient({1, desc.query_heads, 1, 1})};
  if (!selection.is_all()) {
    // Rows that are summed up whole tell so themselves.
    for (Gradient* const each : {&gradients.query, &gradients.key, &gradients.value, &gradients.mask,
                                 &gradients.alibi_slopes, &gradients.sinks}) {
      each->is_partial.assign(each->is_partial.size(), true);
    }
  }
  for (Gradient* const each : {&gradients.query, &gradients.key, &gradients.value})
    each->least_factor = least_weight(inputs.factor_type);
  gradients.value.largest_factors.assign(gradients.value.largest_factors.size(), inputs.least_largest_weight);
  BackwardPass pass(desc, inputs, selection, gradients);
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    const std::int64_t rows = query_length(desc, inputs.forward, b);
    for (std::int64_t h = 0; h < desc.query_heads; ++h) {
      if (!is_selected(selection, b, h / (desc.query_heads / desc.kv_heads))) continue;
      for (std::int64_t i = 0; i < rows; ++i) pass.add_row({b, h, i});
    }
  }
  return gradients;
}

}  // namespace vkattn::reference
