// The keys that a row may see by position alone, and those that a tile of rows sees in a part of the keys.
#ifndef VKATTN_LIB_KEY_RANGES
#define VKATTN_LIB_KEY_RANGES

#include "lib/block_mask.glsl"
#include "lib/entries.glsl"

#if VKATTN_FEATURES

layout(constant_id = VKATTN_SPEC_HAS_LEFT_LIMIT) const bool kHasLeftLimit = false;

// True if a row's keys may begin after the first key.
const bool kHasKeyBegin = kHasLeftLimit || kKeyMapping == VKATTN_KEYS_RING;

int right_alignment(int kv_length) { return kCausalMode == VKATTN_CAUSAL_BOTTOM_RIGHT ? entry_position_shift : 0; }

// The first key that a row may see. It grows with the row.
int visible_key_begin(int row, int kv_length) {
  int begin = 0;
  if (kKeyMapping == VKATTN_KEYS_RING) begin = max(kv_length - int(kCacheRows), 0);
  if (kHasLeftLimit) begin = max(begin, row + (kAlignBottomRight ? entry_position_shift : 0) + features.left_offset);
  return min(begin, kv_length);
}

#else

const bool kHasKeyBegin = false;

int right_alignment(int kv_length) { return kCausalMode == VKATTN_CAUSAL_BOTTOM_RIGHT ? kv_length : 0; }
int visible_key_begin(int row, int kv_length) { return 0; }

#endif

// The first key after those that a row sees. It grows with the row.
int visible_key_end(int row, int kv_length) {
  if (kCausalMode == VKATTN_CAUSAL_NONE) return kv_length;
  return clamp(row + right_alignment(kv_length) + params.causal_offset + 1, 0, kv_length);
}

// The first key of a tile's first part, if the tile's first row sees keys from `begin` on. There are parts for all keys,
// or for as many keys as a tile may see.
int first_part_begin(int begin) {
  const bool of_all_keys = !kHasKeyBegin || params.kv_splits * params.split_keys >= params.kv_length;
  return of_all_keys ? 0 : int(uint(begin) / max(params.split_keys, 1u) * params.split_keys);
}

// The keys that a tile of rows sees in a part of the keys.
struct KeyRange {
  int begin;       // some row sees keys from here, a whole number of steps after part_begin,
  int end;         // to before here
  int full_begin;  // every row sees the keys from here
  int full_end;    // to before here; not before full_begin
  int part_begin;  // the part's keys
  int part_end;
};

// The beginning of part `split` of a tile whose first row is at `first_query`.
int part_begin_of(int first_query, int kv_length, uint split) {
  const uint first_part = uint(first_part_begin(visible_key_begin(first_query, kv_length)));
  return int(min(first_part + split * params.split_keys, params.kv_length));
}

// What rows first_query .. last_query see of the part that begins at part_begin.
KeyRange visible_keys(int first_query, int last_query, int kv_length, int part_begin, int step) {
  KeyRange keys;
  const int first_key = visible_key_begin(first_query, kv_length);
  keys.part_begin = part_begin;
  keys.part_end = int(min(uint(part_begin) + params.split_keys, params.kv_length));
  keys.end = min(visible_key_end(last_query, kv_length), keys.part_end);
  const int begin = max(first_key, part_begin);
  keys.begin = part_begin + (begin - part_begin) / step * step;
  keys.full_begin = keys.begin;
  if (kHasKeyBegin) keys.full_begin = max(visible_key_begin(last_query, kv_length), part_begin);
  keys.full_end = min(visible_key_end(first_query, kv_length), keys.end);
  // If a score may hide its key, no step is full.
  if (kStepsHide && !kHasBlockMask) keys.full_end = keys.full_begin;
  keys.full_end = max(keys.full_end, keys.full_begin);
  return keys;
}

// The first full step, a whole number of steps from keys.begin.
int first_full_step(KeyRange keys, int step) {
  return keys.begin + (keys.full_begin - keys.begin + step - 1) / step * step;
}

// True if position hides none of the `count` keys from `key` on from any row.
bool is_full_step(KeyRange keys, int key, uint count) {
  return key >= keys.full_begin && key + int(count) <= keys.full_end;
}

#endif
