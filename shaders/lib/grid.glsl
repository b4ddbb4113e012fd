// Which row tile a workgroup computes. The grid is a list of tiles, folded over x and y.
#ifndef VKATTN_LIB_GRID
#define VKATTN_LIB_GRID

#include "lib/specialization.glsl"

struct TilePosition {
  bool valid;
  uint batch;
  uint head;
  uint first_row;
};

// Row tiles of one head are neighbours, so that they share K and V in the caches; with a causal mask the
// heaviest (last) come first.
TilePosition tile_position(uint rows_per_tile) {
  const uint index = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  const uint tiles_per_head = (params.query_length + rows_per_tile - 1u) / rows_per_tile;
  const uint tile = params.first_tile + index;
  const uint head_index = tile / tiles_per_head;
  const uint row_tile = tile - head_index * tiles_per_head;
  TilePosition position;
  position.valid = index < params.tile_count;
  position.batch = head_index / params.query_heads;
  position.head = head_index - position.batch * params.query_heads;
  position.first_row =
      (kCausalMode == VKATTN_CAUSAL_NONE ? row_tile : tiles_per_head - 1u - row_tile) * rows_per_tile;
  return position;
}

#endif
