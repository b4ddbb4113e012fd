// Chunks of the keys, and what the rows' pass leaves of each row and key of a chunk for the passes after it:
//   weight          the probability after dropout, without 1 / (1 - dropout)
//   gradient        that of scale * <q, k>
//   score_gradient  that of the score, where softcap makes it another and somebody wants it
// All are 0 where the key is hidden from the row. Pairs of rows and keys that the rows' pass has not visited, as no row of
// its tile sees the step's keys, hold anything: sees_key() tells.
#ifndef VKATTN_BACKWARD_PAIRS
#define VKATTN_BACKWARD_PAIRS

#include "lib/forms.glsl"

#if VKATTN_FEATURES

#include "backward/gradients.glsl"
#include "lib/grid.glsl"
#include "lib/key_ranges.glsl"

#if VKATTN_WIDE_LOADS
layout(set = 0, binding = VKATTN_BINDING_PAIRS, std430) buffer Pairs { uint64_t pairs[]; };
vec2 load_pair(uint index) { return uintBitsToFloat(unpackUint2x32(pairs[index])); }
void store_pair(uint index, vec2 pair) { pairs[index] = packUint2x32(floatBitsToUint(pair)); }
#else
layout(set = 0, binding = VKATTN_BINDING_PAIRS, std430) buffer Pairs { vec2 pairs[]; };
vec2 load_pair(uint index) { return pairs[index]; }
void store_pair(uint index, vec2 pair) { pairs[index] = pair; }
#endif
// The third numbers lie behind all pairs.
layout(set = 0, binding = VKATTN_BINDING_PAIRS, std430) buffer ScoreGradients { float score_gradients[]; };

uint score_gradient_index(uint pair_index) { return 2u * backward.pair_rows * params.split_keys + pair_index; }

// Where the pairs of a row begin, and how far behind that of a key of the chunk lies. The pass over keys reads tiles of
// kPairTile keys: where these lie together a CPU fetches the next rows ahead.
uint pair_row(uint batch, uint head, uint query) {
  return workspace_row(batch, head, query) * (kPairTile == 0u ? params.split_keys : kPairTile);
}
uint pair_place(uint key_in_chunk) {
  if (kPairTile == 0u) return key_in_chunk;
  return key_in_chunk / kPairTile * (backward.pair_rows * kPairTile) + key_in_chunk % kPairTile;
}

// Whether the row may see the key by its position.
bool sees_key(int query, int key, int kv_length) {
  return key < visible_key_end(query, kv_length) && (!kHasKeyBegin || key >= visible_key_begin(query, kv_length));
}

// Packed rows that see some of a block of keys, and among them those that see all of it. By position alone.
struct RowRange {
  uint begin;
  uint end;
  uint full_begin;  // not before begin
  uint full_end;    // not before full_begin
};

// The first query that sees keys beyond `key`, as what rows see grows with them.
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

// Keys key_begin .. key_end - 1.
RowRange rows_of_keys(int key_begin, int key_end, int kv_length) {
  const int begin = first_query_to(key_begin, kv_length);
  const int end = max(first_query_from(key_end, kv_length), begin);
  const int full_begin = clamp(first_query_to(key_end - 1, kv_length), begin, end);
  int full_end = clamp(first_query_from(key_begin + 1, kv_length), full_begin, end);
  if (kStepsHide) full_end = full_begin;  // scores must be looked at one by one
  RowRange rows;
  rows.begin = uint(begin) * params.heads_per_kv;
  rows.end = uint(end) * params.heads_per_kv;
  rows.full_begin = uint(full_begin) * params.heads_per_kv;
  rows.full_end = uint(full_end) * params.heads_per_kv;
  return rows;
}

// What a workgroup has of a pass: for each chunk as many units as there are tiles of rows or keys.
struct ChunkTile {
  bool valid;
  uint chunk;
  uint batch;
  uint kv_head;
  uint first;  // packed row, or key
};

// `count` rows or keys of each KV head, `size` of them to a tile.
ChunkTile chunk_tile(uint count, uint size) {
  const uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  const uint index = params.first_tile + group;
  const uint tiles_per_head = (count + size - 1u) / size;
  const uint tiles = backward.batch * backward.kv_heads * tiles_per_head;
  ChunkTile tile;
  tile.valid = group < params.tile_count;
  tile.chunk = index / tiles;
  const uint in_chunk = index - tile.chunk * tiles;
  const uint head_index = in_chunk / tiles_per_head;
  tile.batch = head_index / backward.kv_heads;
  tile.kv_head = head_index - tile.batch * backward.kv_heads;
  tile.first = (in_chunk - head_index * tiles_per_head) * size;
  // A folded grid has workgroups beyond the last tile, whose batch entry has no lengths to read.
  if (tile.valid) begin_entry(tile.batch, tile.kv_head);
  return tile;
}

#endif

#endif
