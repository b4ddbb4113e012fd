// The rows that see the keys of a block, by position alone.
#ifndef VKATTN_BACKWARD_ROW_RANGES
#define VKATTN_BACKWARD_ROW_RANGES

#include "lib/forms.glsl"

#if VKATTN_FEATURES

#include "lib/grid.glsl"
#include "lib/key_ranges.glsl"
#include "lib/scores.glsl"

// True if the row's position lets it see the key.
bool sees_key(int query, int key, int kv_length) {
  return key < visible_key_end(query, kv_length) && (!kHasKeyBegin || key >= visible_key_begin(query, kv_length));
}

// The rows that see some key of a block, and among them the rows that see all of it, by position alone.
struct RowRange {
  uint begin;
  uint end;
  uint full_begin;  // not before begin
  uint full_end;    // not before full_begin
};

// The first query that sees keys beyond `key`. A row's last visible key grows with the row, so halving finds it.
int first_query_to(int key, int kv_length) {
  if (kCausalMode == VKATTN_CAUSAL_NONE) return key < kv_length ? 0 : int(visible_query_length());
  int begin = 0, end = int(visible_query_length());
  while (begin < end) {
    const int middle = (begin + end) / 2;
    if (visible_key_end(middle, kv_length) > key) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}

// The first query that sees no key before `key`.
int first_query_from(int key, int kv_length) {
  if (!kHasKeyBegin) return key > 0 ? int(visible_query_length()) : 0;
  int begin = 0, end = int(visible_query_length());
  while (begin < end) {
    const int middle = (begin + end) / 2;
    if (visible_key_begin(middle, kv_length) >= key) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}

// The queries of each head that see keys key_begin .. key_end - 1.
RowRange queries_of_keys(int key_begin, int key_end, int kv_length) {
  const int begin = first_query_to(key_begin, kv_length);
  // Rows whose window lies behind the last key see nothing; their keys begin at kv_length.
  const int end = max(first_query_from(min(key_end, kv_length), kv_length), begin);
  const int full_begin = clamp(first_query_to(key_end - 1, kv_length), begin, end);
  int full_end = clamp(first_query_from(key_begin + 1, kv_length), full_begin, end);
  if (kStepsHide) full_end = full_begin;  // any score may hide its key
  RowRange rows;
  rows.begin = uint(begin);
  rows.end = uint(end);
  rows.full_begin = uint(full_begin);
  rows.full_end = uint(full_end);
  return rows;
}

// The packed rows that see these keys.
RowRange rows_of_keys(int key_begin, int key_end, int kv_length) {
  RowRange rows = queries_of_keys(key_begin, key_end, kv_length);
  rows.begin *= params.heads_per_kv;
  rows.end *= params.heads_per_kv;
  rows.full_begin *= params.heads_per_kv;
  rows.full_end *= params.heads_per_kv;
  return rows;
}

#endif

#endif
