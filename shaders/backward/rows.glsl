// A tile of rows of the rows' pass, of the forms whose workgroups share one.
#ifndef VKATTN_BACKWARD_ROWS
#define VKATTN_BACKWARD_ROWS

#include "lib/forms.glsl"

#if VKATTN_FEATURES

#include "backward/pairs.glsl"

// A row of the block; those behind the last repeat it, and are not stored.
uint packed_of(ChunkTile tile, uint row) { return min(tile.first + row, packed_row_count() - 1u); }

uint stored_row(ChunkTile tile, uint packed) {
  return workspace_row(tile.batch, packed_head(tile.kv_head, packed), packed_query(packed));
}

uint gradient_row(ChunkTile tile, uint packed) {
  return grad_query_row(tile.batch, packed_head(tile.kv_head, packed), packed_query(packed));
}

// Keys behind the last repeat it: a masked block leaves them out.
uint existing_key(int key, int key_end) { return uint(min(key, key_end - 1)); }

// Rows behind the last of a batch entry have no part in anything, so their gradients are 0; packed ones are others'.
void clear_rows(ChunkTile tile, uint block_rows, uint threads) {
  if (kPackedQueries || !kHasGradQuery) return;
  const uint begin = max(tile.first, packed_row_count());
  const uint end = min(tile.first + block_rows, most_packed_rows());
  for (uint packed = begin; packed < end; ++packed) {
    for (uint dim = gl_LocalInvocationIndex; dim < kHeadDim; dim += threads) {
      store_grad_query(gradient_row(tile, packed), dim, 0.0);
    }
  }
}

#endif

#endif
