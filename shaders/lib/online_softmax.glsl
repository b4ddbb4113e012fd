// Online softmax in log2 units (Milakov and Gimelshein, arXiv:1805.02867), without arithmetic on infinities.
#ifndef VKATTN_LIB_ONLINE_SOFTMAX
#define VKATTN_LIB_ONLINE_SOFTMAX

// The score of a hidden key, and the maximum of a row that has seen no key: the lowest finite float32.
const float kHiddenScore = -3.402823466e+38;

// The probability kept for a hidden key, so that its V row can be skipped rather than multiplied by 0.
const float kHiddenProbability = -1.0;

const float kLog2E = 1.44269504088896;

// Tells by the bits, as GLSL does not promise comparisons with infinities and NaN.
bool is_finite(float number) { return (floatBitsToUint(number) & 0x7fffffffu) < 0x7f800000u; }

// Converts a number that is added to scores or takes their place. It keeps finite numbers finite: 2.3e38 * log2(e) is. It
// keeps infinities and NaN as well.
float logit_in_log2_units(float logit) {
  return kLog2E * (is_finite(logit) ? clamp(logit, -2.3e38, 2.3e38) : logit);
}

// The factor of a row's sum and accumulators when its maximum rises. The difference can overflow only while nothing is
// accumulated yet.
float rescale_factor(float old_maximum, float new_maximum) {
  return exp2(max(old_maximum - new_maximum, -1000.0));
}

// A row's log-sum-exp in log2 units, from its sum and its maximum (or whatever its scores were taken relative to);
// kHiddenScore for a row that saw no key. Probabilities are at most 1, or 2^15 on matrix units, so a sum that is not finite
// comes from a NaN. exp2 and log2 of some implementations turn a NaN into a number; here it stays NaN.
float log_sum_exp2(float maximum, float sum) {
  if ((floatBitsToUint(sum) & 0x7fffffffu) >= 0x7f800000u) return uintBitsToFloat(0x7fc00000u);
  return sum == 0.0 ? kHiddenScore : maximum + log2(sum);
}

#endif
