// The rows that a workgroup computes. The query heads that share a KV head are packed into one list of rows, so that they
// share K and V: packed row = query position * heads_per_kv + head of the group. Tiles are runs of packed rows. If the keys
// are split, each tile occurs once for every part of the keys. The grid is a list of tiles, folded over x and y.
#ifndef VKATTN_LIB_GRID
#define VKATTN_LIB_GRID

#include "lib/entries.glsl"
#include "lib/workgroups.glsl"

struct TilePosition {
  bool valid;
  uint batch;
  uint kv_head;
  uint first_row;  // packed
  uint split;      // part of the keys
};

// A row of the window, for passes that go by rows: all queries of a head, then those of the next.
struct WindowRow {
  uint batch;
  uint head;
  uint query;
};

WindowRow window_row(uint number) {
  const uint head_index = number / params.query_length;
  const uint batch = head_index / params.query_heads;
  return WindowRow(batch, head_index - batch * params.query_heads, number - head_index * params.query_length);
}

// The number of rows of the batch entry, and of the longest possible one.
uint packed_row_count() { return visible_query_length() * params.heads_per_kv; }
uint most_packed_rows() { return params.query_length * params.heads_per_kv; }

// The query position and query head of a packed row.
uint packed_query(uint packed_row) { return packed_row / params.heads_per_kv; }
uint packed_head(uint kv_head, uint packed_row) {
  return kv_head * params.heads_per_kv + packed_row % params.heads_per_kv;
}

// Whether tiles come in pairs: the last, the first, the last but one, the second. With a causal mask one of a pair is heavy
// and the other light. lavapipe gives each thread one run of neighbouring tiles, and so runs of one length have equal work.
const bool kPairsTiles = kTilesInPairs && kCausalMode != VKATTN_CAUSAL_NONE;
uint tile_in_pairs(uint tile, uint tiles) { return (tile & 1u) == 0u ? tiles - 1u - (tile >> 1) : tile >> 1; }

// The tile of rows that comes as number `tile` of a head. A GPU hands out tiles one by one: there the heaviest (last) tiles
// come first under a causal mask.
uint row_tile_of(uint tile, uint tiles) {
  if (kPairsTiles) return tile_in_pairs(tile, tiles);
  return kCausalMode == VKATTN_CAUSAL_NONE ? tile : tiles - 1u - tile;
}

// Tile `tile` of the window, for part `split` of the keys. Tiles of one KV head are neighbours, so that they share K and
// V in the caches.
TilePosition position_of(uint tile, uint split, uint rows_per_tile) {
  const uint kv_heads = params.query_heads / params.heads_per_kv;
  const uint tiles_per_head = (most_packed_rows() + rows_per_tile - 1u) / rows_per_tile;
  const uint head_index = tile / tiles_per_head;
  TilePosition position;
  position.valid = workgroup_number() < params.tile_count;
  position.split = split;
  position.batch = head_index / kv_heads;
  position.kv_head = head_index - position.batch * kv_heads;
  position.first_row = row_tile_of(tile - head_index * tiles_per_head, tiles_per_head) * rows_per_tile;
  // A folded grid has workgroups beyond the last tile: their batch entry has no lengths to read.
  if (position.valid) {
    begin_entry(position.batch, position.kv_head);
    position.valid = position.first_row < packed_row_count();
  }
  return position;
}

// The tile of this workgroup.
TilePosition tile_position(uint rows_per_tile) {
  const uint index = params.first_tile + workgroup_number();
  const uint parts = params.window_parts >> 16;
  const uint tile = index / parts;
  return position_of(tile, (params.window_parts & 0xffffu) + index - tile * parts, rows_per_tile);
}

#endif
