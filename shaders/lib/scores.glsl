// Turns a scaled score into the score that enters the softmax: softcap, the user's function, mask, ALiBi.
#ifndef VKATTN_LIB_SCORES
#define VKATTN_LIB_SCORES

#include "lib/entries.glsl"
#include "lib/features.glsl"
#include "lib/mask.glsl"
#include "lib/online_softmax.glsl"

// What a row's scores depend on besides the key. Batch entry, head and query count within the window.
struct ScoreRow {
  uint batch;
  uint head;
  uint query;
  uint mask_index;  // of key 0
  float slope_log2;
  float most_mask_number;  // if the slope multiplies the mask
};

float without_infinity(float score) {
  return kStrictNonfinite && floatBitsToUint(score) == 0xff800000u ? kHiddenScore : score;
}

#if VKATTN_FEATURES

layout(constant_id = VKATTN_SPEC_HAS_SOFTCAP) const bool kHasSoftcap = false;
layout(constant_id = VKATTN_SPEC_ALIBI) const uint kAlibi = VKATTN_ALIBI_NONE;

// Slopes multiply the distance, or the mask.
const bool kSlopesTimesMask = kAlibi == VKATTN_ALIBI_TIMES_MASK;
const bool kSlopesTimesDistance = kAlibi != VKATTN_ALIBI_NONE && !kSlopesTimesMask;

layout(set = 0, binding = VKATTN_BINDING_ALIBI_SLOPES, std430) readonly buffer Slopes { float alibi_slopes[]; };

#include "lib/score_function.glsl"

// True if finish_score() may return kHiddenScore.
const bool kScoresHide = kMaskType != VKATTN_MASK_NONE || kUserHides || kHasUserScore || kStrictNonfinite;
// True if may_see() may hide keys. Then a step needs no test only if a block mask says so.
const bool kStepsHide = kMaskType != VKATTN_MASK_NONE || kUserHides;
// True if finish_score() may change a score.
const bool kFinishesScores = kScoresHide || kHasSoftcap || kSlopesTimesDistance || kHasUserScore;

// tanh within a few units in the last place, also of small numbers; a device's own tanh may be off by more.
float accurate_tanh(float x) {
  const float square = x * x;
  // A convergent of Lambert's continued fraction; below 1 it is exact to 2e-9.
  const float small = x * (10395.0 + square * (1260.0 + 21.0 * square)) /
                      (10395.0 + square * (4725.0 + square * (210.0 + square)));
  const float large = 1.0 - 2.0 / (exp2(2.0 * kLog2E * min(abs(x), 20.0)) + 1.0);
  // min() may drop a NaN, so a test of bits sends it to `small`, which keeps it.
  const bool is_small = abs(x) < 1.0 || (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u;
  return is_small ? small : (x < 0.0 ? -large : large);
}

// The slope of a head of the window (vkattn::standard_alibi_slope()).
float alibi_slope(uint head) {
  if (kAlibi == VKATTN_ALIBI_GIVEN || kSlopesTimesMask) return alibi_slopes[features.slopes_offset + head];
  const uint h = features.first_head + head;
  const uint power = 1u << findMSB(features.problem_heads);
  return h < power ? exp2(-8.0 * float(h + 1u) / float(power)) : exp2(-4.0 * float(2u * (h - power) + 1u) / float(power));
}

// What the mask of a head is multiplied by. An infinite slope counts as NaN.
float mask_factor(uint head) {
  if (!kSlopesTimesMask) return 1.0;
  const float slope = alibi_slope(head);
  return is_finite(slope) ? slope : uintBitsToFloat(0x7fc00000u);
}

ScoreRow score_row(uint batch, uint head, uint query) {
  ScoreRow row = ScoreRow(batch, head, query, mask_row(batch, head, query), 0.0, 0.0);
  if (kSlopesTimesDistance) row.slope_log2 = kLog2E * alibi_slope(head);
  if (kSlopesTimesMask) {
    row.slope_log2 = logit_in_log2_units(mask_factor(head));
    row.most_mask_number = most_mask_number(row.slope_log2);
  }
  return row;
}

// The score after the mask; kHiddenScore if the mask hides the key.
float masked_score(float score, ScoreRow row, uint key) {
  if (!kMaskAdds) return mask_shows(row.mask_index, key) ? score : kHiddenScore;
  const float number = mask_number(row.mask_index, key);
  // Compares bits, as GLSL does not promise comparisons with infinities. A finite number hides nothing.
  if (floatBitsToUint(number) == 0xff800000u) return kHiddenScore;
  return score + mask_in_log2_units(number, kSlopesTimesMask, row.slope_log2, row.most_mask_number);
}

float capped_score(float score) {
  return kHasSoftcap ? features.softcap_log2 * accurate_tanh(score * features.softcap_log2_inverse) : score;
}

// True if neither the mask nor the user's function hides the key from the row.
bool may_see(ScoreRow row, uint key) {
  if (kMaskType != VKATTN_MASK_NONE && masked_score(0.0, row, key) == kHiddenScore) return false;
  return !kUserHides || user_visible(row.batch, row.head, row.query, key);
}

// True if hidden scores must be looked for in a step. The user's score() may return minus infinity in any step.
bool looks_for_hidden(bool masked) { return masked || kHasUserScore || kStrictNonfinite; }

// The score that enters the softmax, from a scaled score in log2 units: softcap, the user's function, bias and mask, ALiBi.
// It is kHiddenScore if the key is hidden from the row. In steps that are not masked the mask hides nothing and is 0, and only
// the user's score() can hide a key.
float finish_score(float score, ScoreRow row, uint key, bool masked) {
  score = capped_score(score);
  if (kHasUserScore) score = user_score(score, row.batch, row.head, row.query, key);
  score = without_infinity(score);
  if ((kHasUserScore || kStrictNonfinite) && score == kHiddenScore) return score;
  if (kSlopesTimesDistance) {
    const int shift = features.position_offset + (kAlignBottomRight ? entry_position_shift : 0);
    score -= row.slope_log2 * float(abs(int(row.query) + shift - int(key)));
  }
  if (kMaskType != VKATTN_MASK_NONE && masked) score = masked_score(score, row, key);
  // A slope that is no number makes scores NaN where the mask is 0 too. Heads that share a mask share its visible blocks.
  if (kSlopesTimesMask && !masked && !is_finite(row.slope_log2)) score = uintBitsToFloat(0x7fc00000u);
  if (kUserHides && masked && !user_visible(row.batch, row.head, row.query, key)) score = kHiddenScore;
  return score;
}

#else

const bool kHasUserScore = false;
const bool kScoresHide = kStrictNonfinite;
const bool kStepsHide = false;
const bool kFinishesScores = false;

ScoreRow score_row(uint batch, uint head, uint query) { return ScoreRow(batch, head, query, 0u, 0.0, 0.0); }
bool looks_for_hidden(bool masked) { return masked || kStrictNonfinite; }
float finish_score(float score, ScoreRow row, uint key, bool masked) { return without_infinity(score); }

#endif

#endif
