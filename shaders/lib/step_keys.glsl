// The keys of a step of lane, which each invocation visits.
#ifndef VKATTN_LIB_STEP_KEYS
#define VKATTN_LIB_STEP_KEYS

#include "lib/key_ranges.glsl"
#include "lib/scores.glsl"
#include "lib/tensors.glsl"

layout(constant_id = VKATTN_SPEC_LANE_KEYS) const uint kKeys = 32;
layout(constant_id = VKATTN_SPEC_LANE_KEYS_FIRST) const bool kKeysFirst = false;

// Rows of keys are found once a step, before the loops over dims, if they need a look-up, and on lavapipe: a number that a loop
// finds, and that later code needs too, costs a masked store in each pass of the loop there. Otherwise each use finds them.
const bool kFindsKeys = kLooksUpKeys || kKeysFirst;

// True if all rows see the same keys. Then the hidden keys of a step are those beyond the end alone, and their products, which
// are 0, are computed. Otherwise each product asks whether its key is hidden.
const bool kRowsAlike = kKeysFirst && kCausalMode == VKATTN_CAUSAL_NONE && !kHasKeyBegin && !kScoresHide;

// The key to read for the step's key. The last key stands for hidden keys beyond the end.
uint source_key(int first_key, uint key, bool masked) {
  return uint(masked ? min(first_key + int(key), readable_kv_length() - 1) : first_key + int(key));
}

uint key_index[kFindsKeys ? kKeys : 1], value_index[kFindsKeys ? kKeys : 1];  // rows in K and V of the step's keys

void find_key(uint batch, uint kv_head, int first_key, uint key, bool masked) {
  const uvec2 slot = key_slot(batch, source_key(first_key, key, masked));
  key_index[kFindsKeys ? key : 0] = key_row_at(slot, kv_head);
  value_index[kFindsKeys ? key : 0] = value_row_at(slot, kv_head);
}

uint key_row_of(uint batch, uint kv_head, int first_key, uint key, bool masked) {
  if (kFindsKeys) return key_index[kFindsKeys ? key : 0];
  return key_row(batch, kv_head, source_key(first_key, key, masked));
}

uint value_row_of(uint batch, uint kv_head, int first_key, uint key, bool masked) {
  if (kFindsKeys) return value_index[kFindsKeys ? key : 0];
  return value_row(batch, kv_head, source_key(first_key, key, masked));
}

#endif
