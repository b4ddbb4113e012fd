// Attention in float64, one row at a time, as docs/semantics.md states it.
#include "reference/reference.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "reference/philox.hpp"
#include "reference/positions.hpp"
#include "reference/storage.hpp"
#include "reference/storage_tolerance.hpp"

namespace vkattn::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The key or value vector of a key that exists.
Vector cache_vector(const AttentionDesc& desc, const Inputs& inputs, const RowIndex& row, std::int64_t key,
                    bool of_value) {
  const TensorDesc& tensor = of_value ? desc.value : desc.key;
  const std::int64_t kv_head = row.head / (desc.query_heads / desc.kv_heads);
  const KeyPlace place = stored_key(desc, inputs, row.batch, key);
  Vector vector = vector_at(of_value ? inputs.value : inputs.key, tensor, place.batch, kv_head, place.row,
                            of_value ? desc.value_dim : desc.head_dim);
  if (tensor.type == DataType::kFloat8E4m3) {
    vector.scale =
        static_cast<double>(number_at<float>(of_value ? inputs.value_scales : inputs.key_scales, kv_head));
  }
  return vector;
}

/// The slope of a head, by which distances are multiplied.
double alibi_slope(const AttentionDesc& desc, const Inputs& inputs, std::int64_t head) {
  switch (desc.alibi) {
    case Alibi::kNone:
    case Alibi::kTimesMask:
      return 0;
    case Alibi::kStandard:
      return static_cast<double>(standard_alibi_slope(head, desc.query_heads));
    case Alibi::kGiven:
      break;
  }
  return static_cast<double>(number_at<float>(inputs.alibi_slopes, head));
}

/// Numbers that are added to scores, or replace them, count up to this magnitude; infinities and NaN stay.
double limited_logit(double logit) {
  return std::isfinite(logit) ? std::clamp(logit, -kLargestNumber, kLargestNumber) : logit;
}

/// What the mask adds to a score; -inf hides the key, whatever the head's slope is.
double added_bias(const AttentionDesc& desc, const Inputs& inputs, const RowIndex& row, std::int64_t key) {
  const double bias = mask_bias(inputs.mask, desc, row.batch, row.head, row.query, key);
  if (bias == -kInfinity || desc.alibi != Alibi::kTimesMask) return limited_logit(bias);
  const double slope = mask_factor(inputs.alibi_slopes, desc, row.head);
  if (!std::isfinite(bias) || !std::isfinite(slope)) return std::numeric_limits<double>::quiet_NaN();
  return limited_logit(limited_logit(slope) * bias);
}

/// One element of the score matrix, stage by stage.
struct Score {
  double scaled = -kInfinity;   ///< scale * <q, k>
  double capped = -kInfinity;   ///< after softcap
  double scored = -kInfinity;   ///< after the user's function
  double masked = -kInfinity;   ///< after bias, ALiBi and masks: -inf where hidden
  double scaled_magnitude = 0;  ///< |scale| * sum |q||k|
  double masked_magnitude = 0;  ///< A_ij: with |bias| and |ALiBi|
  double lost = 0;              ///< of scaled_magnitude, what float16 arithmetic may lose of small products
  double flushed = 0;           ///< and float32; kUndefined where <q, k> or the score may overflow
};

/// The factor of queries in float16 arithmetic, so that products are not far from scores: the power of two
/// below |scale| * log2(e), from 2^-8 to 1.
double float16_query_scale(double scale) {
  const double in_log2_units = std::abs(scale) / std::log(2.0);
  return in_log2_units < 0x1p-8 ? 0x1p-8 : std::ldexp(1.0, std::min(std::ilogb(in_log2_units), 0));
}

/// Computes the scores of one row, key by key.
class ScoreRow {
 public:
  ScoreRow(const AttentionDesc& desc, const Inputs& inputs, const RowIndex& row)
      : desc_(desc),
        inputs_(inputs),
        row_(row),
        seen_(seen_keys(desc, inputs, row)),
        offset_(position_offset(desc, inputs, row.batch)),
        slope_(alibi_slope(desc, inputs, row.head)) {
    const RowIndex stored = stored_row(desc, inputs, row);
    decode(vector_at(inputs.query, desc.query, stored.batch, stored.head, stored.query, desc.head_dim),
           query_);
    // Some kernels scale queries before their products.
    const double scale = std::abs(static_cast<double>(desc.effective_scale()));
    for (const double q : query_) {
      query_least_.push_back(std::abs(q) * std::min(scale, 1.0));
      query_overflows_ = query_overflows_ || overflows(std::abs(q) * scale);
    }
  }

  /// The keys that causality and window do not hide.
  [[nodiscard]] const KeyRange& seen() const { return seen_; }

  /// The score of a key that exists, up to softcap.
  [[nodiscard]] Score begin(std::int64_t key) {
    Score score;
    multiply(key, score);
    const auto softcap = static_cast<double>(desc_.softcap);
    score.capped = softcap > 0 ? softcap * std::tanh(score.scaled / softcap) : score.scaled;
    score.scored = score.capped;
    return score;
  }

  /// Bias, ALiBi and masks of a key that is seen.
  void finish(std::int64_t key, Score& score) const {
    const double bias = added_bias(desc_, inputs_, row_, key);
    if (bias == -kInfinity || score.scored == -kInfinity) return;  // hidden, whatever the score is: a NaN too
    const double alibi = slope_ * static_cast<double>(std::abs(row_.query + offset_ - key));
    score.masked = score.scored + bias - alibi;
    score.masked_magnitude =
        score.scaled_magnitude + std::abs(score.scored - score.capped) + std::abs(bias) + std::abs(alibi);
  }

 private:
  void multiply(std::int64_t key, Score& score) {
    decode(cache_vector(desc_, inputs_, row_, key, false), key_);
    ProductSum dot;
    double lost = 0;
    const auto scale = static_cast<double>(desc_.effective_scale());
    const double query_scale = float16_query_scale(scale);
    for (std::size_t d = 0; d < query_.size(); ++d) {
      dot.add(query_[d], key_[d], query_least_[d]);
      const double factor = query_scale * std::abs(query_[d]);
      if (std::min({factor, std::abs(key_[d]), factor * std::abs(key_[d])}) < kLeastFloat16) {
        lost += std::abs(query_[d] * key_[d]);
      }
    }
    score.scaled = scale * dot.sum;
    score.scaled_magnitude = std::abs(scale) * dot.magnitude;
    score.lost = std::abs(scale) * lost;
    const bool is_defined =
        !query_overflows_ && !overflows(dot.magnitude) && !overflows(score.scaled_magnitude);
    score.flushed = is_defined ? std::abs(scale) * dot.flushed() : kUndefined;
  }

  const AttentionDesc& desc_;
  const Inputs& inputs_;
  RowIndex row_;
  KeyRange seen_;
  std::int64_t offset_;
  double slope_;
  std::vector<double> query_;
  std::vector<double> query_least_;  ///< magnitudes, as they are or scaled
  bool query_overflows_ = false;
  std::vector<double> key_;
};

/// The parts of the softmax of a row.
struct Softmax {
  std::vector<Score> scores;  ///< of the keys that are seen, from the first one on; masked -inf hides
  double largest = -kInfinity;
  double sum = 0;  ///< of exp(score - largest), and of the sink's
};

/// Whether the weight of a visible key may show in float32, whatever the rounding of its score. Without this,
/// a bias of the lowest number would make any result near enough.
bool may_count(double score, double magnitude, double largest) {
  constexpr double kVanishes = 128;  // exp(-128) is below the smallest float32
  return !(score + magnitude * 0x1p-12 < largest - kVanishes);
}

/// Has the user's function replace the scores of the keys that are seen; the first is that of computed.begin.
void apply_hook(const Inputs& inputs, const RowIndex& index, const KeyRange& computed, const KeyRange& seen,
                std::vector<Score>& scores) {
  std::vector<double> row;
  const auto first = scores.begin() + (seen.begin - computed.begin);
  const auto last = first + (seen.end - seen.begin);
  for (auto score = first; score != last; ++score) row.push_back(score->capped);
  inputs.score_hook(index, seen.begin, row);
  for (auto score = first; score != last; ++score)
    score->scored = limited_logit(row[static_cast<std::size_t>(score - first)]);
}

void note_weight(const AttentionDesc& desc, std::int64_t key, const Score& score, Row& row) {
  const auto j = static_cast<std::size_t>(key);
  if (desc.weights != WeightsStage::kNone) row.weight_flushed[j] = score.flushed;
  switch (desc.weights) {
    case WeightsStage::kScores:
      row.weights[j] = score.scaled;
      row.weight_magnitudes[j] = score.scaled_magnitude;
      return;
    case WeightsStage::kSoftcap:
      row.weights[j] = score.capped;
      row.weight_magnitudes[j] = score.scaled_magnitude;
      return;
    case WeightsStage::kMasked:
      row.weights[j] = score.masked;
      row.weight_magnitudes[j] = score.masked_magnitude;
      return;
    case WeightsStage::kNone:
    case WeightsStage::kProbabilities:
      return;
  }
}

/// The scores of the keys that are seen, their largest and their sum; the row gets what they tell.
Softmax compute_scores(const AttentionDesc& desc, const Inputs& inputs, const RowIndex& index, Row& row) {
  ScoreRow scores(desc, inputs, index);
  const KeyRange seen = scores.seen();
  // The first two stages have a number for keys that are hidden, too.
  const bool all_keys = desc.weights == WeightsStage::kScores || desc.weights == WeightsStage::kSoftcap;
  const KeyRange computed = all_keys ? existing_keys(desc, inputs, index.batch) : seen;
  std::vector<Score> begun;
  for (std::int64_t j = computed.begin; j < computed.end; ++j) begun.push_back(scores.begin(j));
  if (inputs.score_hook && seen.begin < seen.end) apply_hook(inputs, index, computed, seen, begun);
  Softmax softmax;
  for (std::int64_t j = computed.begin; j < computed.end; ++j) {
    Score& score = begun[static_cast<std::size_t>(j - computed.begin)];
    const bool is_seen = j >= seen.begin && j < seen.end;
    if (is_seen) scores.finish(j, score);
    note_weight(desc, j, score, row);
    if (!is_seen) continue;
    softmax.scores.push_back(score);
    if (score.masked == -kInfinity) continue;
    ++row.visible_keys;
    softmax.largest = std::max(softmax.largest, score.masked);
  }
  double sink = -kInfinity;
  if (desc.has_sinks) sink = limited_logit(static_cast<double>(number_at<float>(inputs.sinks, index.head)));
  if (sink != -kInfinity) {
    softmax.largest = std::max(softmax.largest, sink);
    row.score_magnitude = std::max(row.score_magnitude, std::abs(sink));
    softmax.sum = std::exp(sink - softmax.largest);
  }
  for (const Score& score : softmax.scores) {
    if (score.masked == -kInfinity) continue;
    softmax.sum += std::exp(score.masked - softmax.largest);
    const bool is_defined = row.score_flushed != kUndefined && score.flushed != kUndefined;
    row.score_flushed = is_defined ? std::max(row.score_flushed, score.flushed) : kUndefined;
    if (!may_count(score.masked, score.masked_magnitude, softmax.largest)) continue;
    row.score_magnitude = std::max(row.score_magnitude, score.masked_magnitude);
    row.product_magnitude =
        std::max(row.product_magnitude, score.scaled_magnitude + std::abs(score.scored - score.capped));
    row.product_lost = std::max(row.product_lost, score.lost);
  }
  row.largest_weight = 1 / softmax.sum;
  // Not by the largest score: that of a row which sees nothing but NaN is -inf too.
  const bool has_logits = row.visible_keys > 0 || sink != -kInfinity;
  if (std::isnan(sink) || sink == kInfinity) softmax.sum = std::numeric_limits<double>::quiet_NaN();
  row.lse = has_logits ? softmax.largest + std::log(softmax.sum) : -kInfinity;
  return softmax;
}

/// A probability of 1 after dropout.
double dropout_factor(const AttentionDesc& desc, const Inputs& inputs, const RowIndex& row,
                      std::int64_t key) {
  if (desc.dropout == 0) return 1;
  DropoutPosition position;
  position.seed = inputs.dropout_seed;
  position.offset = inputs.dropout_offset;
  position.batch_head = static_cast<std::uint32_t>(row.batch * desc.query_heads + row.head);
  position.query = static_cast<std::uint32_t>(row.query);
  position.key = static_cast<std::uint32_t>(key);
  return is_kept(position, desc.dropout) ? kept_factor(desc.dropout) : 0;
}

}  // namespace

Row compute_row(const AttentionDesc& desc, const Inputs& inputs, RowIndex row) {
  assert(row.batch >= 0 && row.batch < desc.batch && row.head >= 0 && row.head < desc.query_heads);
  assert(row.query >= 0 && is_written(desc, inputs, row));
  const auto dims = static_cast<std::size_t>(desc.value_dim);
  Row result;
  result.output.assign(dims, 0.0);
  result.value_magnitude.assign(dims, 0.0);
  result.value_sum.assign(dims, 0.0);
  result.value_lost.assign(dims, 0.0);
  if (desc.weights != WeightsStage::kNone) {
    const auto keys = static_cast<std::size_t>(desc.kv_length);
    result.weights.assign(keys, desc.weights == WeightsStage::kProbabilities ? 0.0 : -kInfinity);
    result.weight_magnitudes.assign(keys, 0.0);
    result.weight_flushed.assign(keys, 0.0);
  }
  const Softmax softmax = compute_scores(desc, inputs, row, result);
  // Also for rows that see no key, so that a sink that is NaN shows wherever it counts.
  if (std::isnan(softmax.sum)) result.output.assign(dims, softmax.sum);
  const std::int64_t first = seen_keys(desc, inputs, row).begin;
  std::vector<double> value;
  for (std::size_t n = 0; n < softmax.scores.size(); ++n) {
    const double score = softmax.scores[n].masked;
    if (score == -kInfinity) continue;
    const std::int64_t j = first + static_cast<std::int64_t>(n);
    const double relative = std::exp(score - softmax.largest);
    const double probability = relative / softmax.sum;
    if (desc.weights == WeightsStage::kProbabilities) {
      result.weights[static_cast<std::size_t>(j)] = probability;
    }
    const double weight = probability * dropout_factor(desc, inputs, row, j);
    decode(cache_vector(desc, inputs, row, j, true), value);
    for (std::size_t d = 0; d < dims; ++d) {
      result.output[d] += weight * value[d];
      result.value_magnitude[d] += weight * std::abs(value[d]);
      result.value_sum[d] += std::abs(value[d]);
      // Twice the least, as the probability that the kernel has may be smaller.
      if (relative * std::min(1.0, std::abs(value[d])) < 2 * kLeastFloat16) {
        result.value_lost[d] += weight * std::abs(value[d]);
      }
    }
  }
  return result;
}

}  // namespace vkattn::reference
