// Chunks of the keys, and the pairs that the rows' pass leaves for later passes, for each row and each key of a chunk:
//   weight          the probability after dropout, without 1 / (1 - dropout)
//   gradient        the gradient of scale * <q, k>, times pair_scale
//   score_gradient  the gradient of the score, kept if it is needed and softcap or pair_scale makes it differ
// Weight and gradient lie side by side, for workgroups that read both, and all score gradients behind all pairs. For workgroups
// that read one of the two (kPairsApart) each row has all of its weights, then all gradients, then all score gradients.
//
// All are 0 if the key is hidden from the row. The rows' pass skips a step that no row of its tile sees; pairs of skipped
// steps hold any numbers, and sees_key() tells which they are.
#ifndef VKATTN_BACKWARD_PAIRS
#define VKATTN_BACKWARD_PAIRS

#include "lib/forms.glsl"

#if VKATTN_FEATURES

#include "backward/gradients.glsl"
#include "backward/row_ranges.glsl"
#include "lib/grid.glsl"
#include "lib/views.glsl"
#include "lib/workgroups.glsl"

layout(constant_id = VKATTN_SPEC_PAIRS_APART) const bool kPairsApart = false;

#if VKATTN_WIDE_LOADS
layout(set = 0, binding = VKATTN_BINDING_PAIRS, std430) buffer Pairs { uint64_t pairs[]; };
uvec2 in_own_width(uvec2 words) { return VKATTN_IN_OWN_WIDTH(words, backward.pair_rows >> 31); }
vec2 load_pair(uint index) { return uintBitsToFloat(in_own_width(unpackUint2x32(pairs[index]))); }
void store_near(uint index, vec2 pair) { pairs[index] = packUint2x32(in_own_width(floatBitsToUint(pair))); }
#else
layout(set = 0, binding = VKATTN_BINDING_PAIRS, std430) buffer Pairs { vec2 pairs[]; };
vec2 load_pair(uint index) { return pairs[index]; }
void store_near(uint index, vec2 pair) { pairs[index] = pair; }
#endif
layout(set = 0, binding = VKATTN_BINDING_PAIRS, std430) buffer PairNumbers { float pair_numbers[]; };

// The places in pair_numbers of the numbers of a pair; of weight and gradient if they lie apart.
uint weight_place(uint index) { return index; }
uint gradient_place(uint index) { return index + params.split_keys; }
uint score_gradient_place(uint index) {
  return index + 2u * params.split_keys * (kPairsApart ? 1u : backward.pair_rows);
}

// load_pair() is for pairs that lie side by side, the other functions are for all.
void store_pair(uint index, vec2 pair) {
  if (kPairsApart) {
    pair_numbers[weight_place(index)] = pair.x;
    pair_numbers[gradient_place(index)] = pair.y;
  } else {
    store_near(index, pair);
  }
}
float load_weight(uint index) { return kPairsApart ? pair_numbers[weight_place(index)] : load_pair(index).x; }
float load_gradient(uint index) { return kPairsApart ? pair_numbers[gradient_place(index)] : load_pair(index).y; }
void store_score_gradient(uint index, float gradient) { pair_numbers[score_gradient_place(index)] = gradient; }
float load_score_gradient(uint index) { return pair_numbers[score_gradient_place(index)]; }

// Where the pairs of a row begin, and how far behind that a key of the chunk lies. The keys' pass reads tiles of kPairTile
// keys: a CPU fetches the next rows ahead if these pairs lie together.
uint pair_row(uint batch, uint head, uint query) {
  const uint numbers = kPairsApart ? (kKeepsScoreGradients ? 3u : 2u) : 1u;
  return workspace_row(batch, head, query) * (kPairTile == 0u ? numbers * params.split_keys : kPairTile);
}
uint pair_place(uint key_in_chunk) {
  if (kPairTile == 0u) return key_in_chunk;
  return key_in_chunk / kPairTile * (backward.pair_rows * kPairTile) + key_in_chunk % kPairTile;
}

// The unit of a workgroup: a tile of rows or keys of one chunk. Each chunk has as many units as there are tiles.
struct ChunkTile {
  bool valid;
  uint chunk;
  uint batch;
  uint kv_head;
  uint first;  // packed row, or key
};

// The tile of this workgroup, if each KV head has `count` rows or keys and a tile has `size` of them.
ChunkTile chunk_tile(uint count, uint size) {
  const uint group = workgroup_number();
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
  const uint in_head = in_chunk - head_index * tiles_per_head;
  tile.first = (kPairsTiles ? tile_in_pairs(in_head, tiles_per_head) : in_head) * size;
  // A folded grid has workgroups beyond the last tile: their batch entry has no lengths to read.
  if (tile.valid) begin_entry(tile.batch, tile.kv_head);
  return tile;
}

#endif

#endif
