// Which keys a row may see, by position alone.
#ifndef VKATTN_LIB_MASK
#define VKATTN_LIB_MASK

#include "lib/tensors.glsl"

// Keys that exist for a batch entry.
int visible_kv_length(uint batch) {
  const int kv_length = int(params.kv_length);
  return kHasKvLengths ? clamp(kv_lengths[params.kv_lengths_offset + batch], 0, kv_length) : kv_length;
}

// The end of the keys that a row sees: it sees keys 0 .. end - 1. Grows with the row.
int visible_key_end(int row, int kv_length) {
  if (kCausalMode == VKATTN_CAUSAL_NONE) return kv_length;
  const int aligned = kCausalMode == VKATTN_CAUSAL_BOTTOM_RIGHT ? kv_length : 0;
  return clamp(row + aligned + params.causal_offset + 1, 0, kv_length);
}

// The keys of one part: begin .. end - 1.
int split_begin(uint split) { return int(split * params.split_keys); }
int split_end(uint split) { return int(min((split + 1u) * params.split_keys, params.kv_length)); }

#endif
