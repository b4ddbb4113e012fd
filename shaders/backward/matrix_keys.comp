// The keys' pass of the backward pass on matrix units: a workgroup computes dK or dV of a block of keys of a chunk and
// one KV head, from blocks of the rows of all query heads that share it, as tile_keys.comp does.
//
//   kSubgroups subgroups are a grid of kGridColumns columns over the sums:
//
//                   kVisited rows                  kSumDims dims of Q or dO, staged
//                 +---------------------+        +-------------+-------------+
//   kOwned keys   | factors: dS, or p,  |  x  =  | subgroup 0  | subgroup 1  |
//                 | as operands in the  |        +-------------+-------------+
//                 | stage               |        | subgroup 2  | subgroup 3  |
//                 +---------------------+        +-------------+-------------+
//                                                  dK, or dV
//
// Budget. Example: 4 subgroups of 32 lanes, matrices of 16x16x16, a grid of 2 columns, 64 keys x 32 rows, 128 dims.
//   registers      of a lane: kRowBlocks * kSumBlocks * kM * kN / 32 sums + 4 * kQuads factors + 16 of rows on their
//                  way to the stage = 64 + 16 + 16
//   shared memory  16 * (VKATTN_MATRIX_KEY_STAGE4 of factors, of rows + VKATTN_MATRIX_FACTOR_STAGE4
//                  + VKATTN_BACKWARD_SUM_STAGE4 + VKATTN_BACKWARD_PART_STAGE4) bytes
//                  = 16 * (64 * 5 + 32 * 17 + 16 + 256 + 32) = 18,688
//   memory         each multiply-add reads 2 / kOwned bytes of Q or dO + 8 / dims of pairs = 1/32 + 1/16
//   stages         each multiply-add reads 2 / (dims of a subgroup) + 2 / (keys of a subgroup) bytes = 1/32 + 1/16
//
// Probabilities (p) and gradients of scores (dS) are what the rows' pass has left in the workspace. Of factors a thread
// has one key, whose neighbours are its neighbours', and four rows at a time.
#version 460
#extension GL_GOOGLE_include_directive : require

#define VKATTN_GRADIENT_DIMS (kHeadDim > kValueDim ? kHeadDim : kValueDim)
#include "backward/matrix_sums.glsl"
#include "backward/pairs.glsl"
#include "lib/dropout.glsl"

VKATTN_PADDED_BITS(query, kHeadDim, kSumDims)
VKATTN_PADDED_BITS(grad_output, kValueDim, kSumDims)

shared uint part_stage[VKATTN_BACKWARD_PART_STAGE4(kThreads) * 4];  // the largest factor of each thread, as bits

ChunkTile tile;
bool of_values;  // the workgroup's gradient; one code for both, which is half as long
int kv_length;
uint first_key;  // of the block
uint key_count;
uint own_key;    // of the thread, in the block
uint own_part;   // which of the kOwnerThreads that share the key this is
// Of the step.
uint step_first, step_end;

uvec4 fetch_row(uint row, uint dim) {
  const uint packed = min(step_first + row, step_end - 1u);
  const uint head = packed_head(tile.kv_head, packed);
  const uint query = packed_query(packed);
  return of_values ? grad_output_padded8(grad_output_row(tile.batch, head, query), dim)
                   : query_padded8(query_row(tile.batch, head, query), dim);
}

// What stands before a row in the sum of the thread's key; 0 for rows from step_end on, and for those that do not see it.
float factor_of(uint packed, bool masked) {
  const uint existing = min(packed, step_end - 1u);
  const uint query = packed_query(existing);
  const uint key = first_key + own_key;
  const vec2 pair = load_pair(pair_row(tile.batch, packed_head(tile.kv_head, existing), query) + key -
                              tile.chunk * params.split_keys);
  const bool visible = packed < step_end && (!masked || sees_key(int(query), int(key), kv_length));
  return visible ? (of_values ? pair.x : pair.y) : 0.0;
}

// One block of rows.
void visit(uint first_row, uint end_row, bool masked) {
  step_first = first_row;
  step_end = end_row;
  vec4 factors[kQuads];
  uint largest = 0u;
  [[unroll]] for (uint q = 0; q < kQuads; ++q) {
    [[unroll]] for (uint r = 0; r < 4; ++r) {
      factors[q][r] = factor_of(first_row + (own_part + q * kOwnerThreads) * 4u + r, masked);
    }
    largest = larger_magnitude(largest, factors[q]);
  }
  workgroup_barrier();  // rows and factors are still read by the previous step
  part_stage[own_part * kOwned + own_key] = largest;
  VKATTN_FILL_STAGE(visited_stage, kVisited, kSumDims, fetch_row)
  workgroup_barrier();  // rows and the largest factors are complete
  for (uint part = 0; part < kOwnerThreads; ++part) largest = max(largest, part_stage[part * kOwned + own_key]);
  const float factor = raise_unit(largest);
  if (own_part == 0u) factor_stage[own_key] = factor;
  [[unroll]] for (uint q = 0; q < kQuads; ++q) {
    place_factors(own_key, (own_part + q * kOwnerThreads) * 4u, factors[q]);
  }
  workgroup_barrier();  // the factors of rows and sums are complete
  add_products();
}

void visit_rows() {
  const RowRange rows = rows_of_keys(int(first_key), int(first_key + kOwned), kv_length);
  uint row = rows.begin;
  while (row < rows.end) {  // tested at both ends, see lib/key_walk.glsl
    const bool full = row >= rows.full_begin && row + kVisited <= rows.full_end;
    visit(row, rows.end, !full);
    row += kVisited;
    if (row >= rows.end) break;
  }
}

void store_sum(uint owned, uint dim, float sum) {
  const uint key = first_key + owned;
  if (key >= key_count || dim >= (of_values ? kValueDim : kHeadDim)) return;
  if (of_values) {
    store_grad_value(grad_value_row(tile.batch, tile.kv_head, key), dim, sum * drop_scale());
  } else {
    store_grad_key(grad_key_row(tile.batch, tile.kv_head, key), dim, sum * backward.sum_scale);
  }
}

void store_keys() {
  workgroup_barrier();  // the last step's factors were read
  if (own_part == 0u) factor_stage[own_key] = last_factor(!of_values);
  workgroup_barrier();  // the units are complete
  store_sums();
}

void main() {
  // The blocks of a head come twice: for values and for keys.
  tile = chunk_tile(2u * params.split_keys, kOwned);
  if (!tile.valid) return;  // uniform over the workgroup, as all returns, so no barrier is missed
  const uint number = tile.first / kOwned;
  of_values = (number & 1u) == 0u;
  if (of_values ? !kHasGradValue : !kHasGradKey) return;
  first_key = tile.chunk * params.split_keys + number / 2u * kOwned;
  kv_length = visible_kv_length(tile.batch);
  // Keys behind the last of a batch entry have gradients of 0; packed ones are others'.
  key_count = kKeyMapping == VKATTN_KEYS_PACKED ? uint(kv_length) : params.kv_length;
  if (first_key >= key_count) return;
  own_key = gl_LocalInvocationIndex % kOwned;
  own_part = gl_LocalInvocationIndex / kOwned;
  begin_sums();
  visit_rows();
  store_keys();
}
