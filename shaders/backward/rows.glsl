// A tile of rows in the rows' pass, for forms whose workgroups share a tile.
#ifndef VKATTN_BACKWARD_ROWS
#define VKATTN_BACKWARD_ROWS

#include "lib/forms.glsl"

#if VKATTN_FEATURES

#include "backward/pairs.glsl"

// The packed row of a row of the block. The last row stands for rows behind it, which are not stored.
uint packed_of(ChunkTile tile, uint row) { return min(tile.first + row, packed_row_count() - 1u); }

uint stored_row(ChunkTile tile, uint packed) {
  return workspace_row(tile.batch, packed_head(tile.kv_head, packed), packed_query(packed));
}

uint gradient_row(ChunkTile tile, uint packed) {
  return grad_query_row(tile.batch, packed_head(tile.kv_head, packed), packed_query(packed));
}

// The last key stands for keys behind it: a masked block leaves them out.
uint existing_key(int key, int key_end) { return uint(min(key, key_end - 1)); }

// Rows behind a batch entry's last row get gradients of 0. If rows are packed, they belong to other entries.
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
