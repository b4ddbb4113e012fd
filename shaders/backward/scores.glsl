// Turns a row's scores and lse into probabilities and gradients.
#ifndef VKATTN_BACKWARD_SCORES
#define VKATTN_BACKWARD_SCORES

#include "lib/forms.glsl"

#if VKATTN_FEATURES

#include "backward/gradients.glsl"
#include "lib/dropout.glsl"
#include "lib/key_ranges.glsl"
#include "lib/scores.glsl"

// True if scores are changed by more than an addition. Their gradients then have a factor, score_slope().
const bool kBendsScores = kHasSoftcap;

// The derivative of softcap * tanh(score / softcap), 1 - tanh^2 = 4 e / (1 + e)^2 with e = exp(-2 |x|). The second form has no
// cancellation. The score is in log2 units.
float score_slope(float score) {
  if (!kHasSoftcap) return 1.0;
  const float e = exp2(-2.0 * kLog2E * abs(score * features.softcap_log2_inverse));
  return 4.0 * e / ((1.0 + e) * (1.0 + e));
}

// ALiBi's distance |i + offset - j|.
float key_distance(uint query, uint key) {
  const int shift = features.position_offset + (kAlignBottomRight ? entry_position_shift : 0);
  return float(abs(int(query) + shift - int(key)));
}

// What a pair adds to the gradient of its head's slope. A pair without a gradient adds 0, whatever the mask holds there.
float slope_gradient(float score_gradient, ScoreRow row, uint key) {
  if (!kSlopesTimesMask) return -score_gradient * key_distance(row.query, key);
  return score_gradient == 0.0 ? 0.0 : score_gradient * mask_number(row.mask_index, key);
}

// The numbers of a pair, described in backward/pairs.glsl.
struct PairGradient {
  float weight;
  float gradient;
  float score_gradient;
};

// The pair of a row and a key that its position lets it see. `score` is scaled and in log2 units, as `lse` is; `product` is
// <dO, v>; `delta` is D of the row; `kept` says that dropout keeps the key.
PairGradient pair_gradient(float score, float product, float lse, float delta, ScoreRow row, uint key, bool kept,
                           bool masked) {
  const float finished = finish_score(score, row, key, masked);
  if (kScoresHide && finished == kHiddenScore) return PairGradient(0.0, 0.0, 0.0);
  const float probability = exp2(finished - lse);
  PairGradient pair;
  pair.weight = kept ? probability : 0.0;
  pair.score_gradient = pair.weight * drop_scale() * product - probability * delta;
  pair.gradient = scaled_pair(pair.score_gradient * score_slope(score));
  return pair;
}

#endif

#endif
