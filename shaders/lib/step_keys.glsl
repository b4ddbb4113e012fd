// The keys of a step of lane, which each invocation visits.
#ifndef VKATTN_LIB_STEP_KEYS
#define VKATTN_LIB_STEP_KEYS

#include "lib/entries.glsl"
#include "lib/key_ranges.glsl"
#include "lib/scores.glsl"

layout(constant_id = VKATTN_SPEC_LANE_KEYS) const uint kKeys = 32;
layout(constant_id = VKATTN_SPEC_LANE_KEYS_FIRST) const bool kKeysFirst = false;

// Rows of keys are found once a step, before the loops over dims, if they need a look-up, and on a CPU: what a loop finds there,
// and later code needs too, costs a masked store in each pass. GPUs find them at each use.
const bool kFindsKeys = kLooksUpKeys || kKeysFirst;

// True if all rows see the same keys, and each product with a key beyond the end may be computed. Otherwise each product asks
// whether its key is hidden.
const bool kRowsAlike = kKeysFirst && kCausalMode == VKATTN_CAUSAL_NONE && !kHasKeyBegin && !kScoresHide;

// The key to read for the step's key. The last key stands for hidden keys beyond the end.
uint source_key(int first_key, uint key, bool masked) {
  return uint(masked ? min(first_key + int(key), readable_kv_length() - 1) : first_key + int(key));
}

#endif
