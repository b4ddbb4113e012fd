// The keys' pass of the backward pass on matrix units: a workgroup computes dK or dV of a block of keys of a chunk and one KV
// head, from blocks of the rows of all query heads that share it, as tile_keys.comp does.
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
//   registers      of a lane: kRowBlocks * kSumBlocks * kM * kN / 32 sums + 4 * kQuads factors + 16 for rows on their
//                  way to the stage = 64 + 16 + 16
//   shared memory  16 * (VKATTN_MATRIX_KEY_STAGE4 of factors, of rows + VKATTN_MATRIX_FACTOR_STAGE4
//                  + VKATTN_BACKWARD_SUM_STAGE4 + VKATTN_BACKWARD_PART_STAGE4) bytes; transposed rows take 128 * 5
//                  = 16 * (64 * 5 + 32 * 17 + 16 + 256 + 32) = 18,688
//   memory         each multiply-add reads 2 / kOwned bytes of Q or dO + 4 / dims of pairs = 1/32 + 1/32
//   stages         each multiply-add reads 2 / (dims of a subgroup) + 2 / (keys of a subgroup) bytes = 1/32 + 1/16
//   barriers       three a step
//
// Lost by compilers (docs/trials/gpu_compilers.md): rows in lines on AMD, 136 loads of the stage in place of 24; a choice between
// p and dS for each pair, latency 17298 in place of 8572.
//
// The rows' pass has left probabilities (p) and gradients of scores (dS) in the workspace. A thread has the factors of one
// key, four rows at a time; neighbouring threads have neighbouring keys.
#version 460
#extension GL_GOOGLE_include_directive : require

#define VKATTN_GRADIENT_DIMS (kHeadDim > kValueDim ? kHeadDim : kValueDim)
#include "backward/matrix_sums.glsl"
#include "backward/pairs.glsl"
#include "lib/dropout.glsl"

VKATTN_PADDED_BITS(query, kHeadDim, kSumDims)
VKATTN_PADDED_BITS(grad_output, kValueDim, kSumDims)

shared uint part_stage[VKATTN_BACKWARD_PART_STAGE4(kThreads) * 4];  // the largest factor of each thread, as bits

// The keys that a workgroup owns.
struct KeyBlock {
  ChunkTile tile;
  bool of_values;  // dV, otherwise dK: one code for both is half as long
  int kv_length;
  uint first_key;
  uint key_count;
};

// The thread's key in the block, and its number among the kOwnerThreads threads that share the key.
uint own_key = gl_LocalInvocationIndex % kOwned;
uint own_part = gl_LocalInvocationIndex / kOwned;

// Dims dim .. dim + 7 of a row of Q, or of dO, in a step that ends before end_row.
uvec4 fetch_query(KeyBlock block, uint row, uint end_row, uint dim) {
  const uint packed = min(row, end_row - 1u);
  return query_padded8(query_row(block.tile.batch, packed_head(block.tile.kv_head, packed), packed_query(packed)), dim);
}

uvec4 fetch_grad_output(KeyBlock block, uint row, uint end_row, uint dim) {
  const uint packed = min(row, end_row - 1u);
  return grad_output_padded8(
      grad_output_row(block.tile.batch, packed_head(block.tile.kv_head, packed), packed_query(packed)), dim);
}

// RADV gains by one branch around all loads, as it waits for each load in a branch of its own. Intel before Xe2 spills so.
void stage_rows(KeyBlock block, uint first_row, uint end_row) {
#define VKATTN_FETCH_QUERY(ROW, DIM) fetch_query(block, first_row + (ROW), end_row, DIM)
#define VKATTN_FETCH_GRAD_OUTPUT(ROW, DIM) fetch_grad_output(block, first_row + (ROW), end_row, DIM)
#define VKATTN_FETCH_ROW(ROW, DIM) block.of_values ? VKATTN_FETCH_GRAD_OUTPUT(ROW, DIM) : VKATTN_FETCH_QUERY(ROW, DIM)
  if (!kVisitedTransposed) {
    VKATTN_FILL_STAGE(visited_stage, kVisited, kSumDims, VKATTN_FETCH_ROW)
  } else if (block.of_values) {
    VKATTN_FILL_TRANSPOSED(VKATTN_FETCH_GRAD_OUTPUT)
  } else {
    VKATTN_FILL_TRANSPOSED(VKATTN_FETCH_QUERY)
  }
}

// The factor of a row in the sum of the thread's key: 0 for rows from end_row on, and for rows that do not see the key.
float factor_of(KeyBlock block, uint packed, uint end_row, bool masked) {
  const uint existing = min(packed, end_row - 1u);
  const uint query = packed_query(existing);
  const uint key = block.first_key + own_key;
  const uint pair = pair_row(block.tile.batch, packed_head(block.tile.kv_head, existing), query) + key -
                    block.tile.chunk * params.split_keys;
  const float factor = pair_numbers[pair + uint(!block.of_values) * gradient_place(0u)];  // a choice would be a branch
  const bool visible = packed < end_row && (!masked || sees_key(int(query), int(key), block.kv_length));
  return visible ? factor : 0.0;
}

// Visits one block of rows. `unit` belongs to the thread's key.
void visit(KeyBlock block, inout uint unit, uint first_row, uint end_row, bool masked) {
  vec4 factors[kQuads];
  uint largest = 0u;
  [[unroll]] for (uint q = 0; q < kQuads; ++q) {
    [[unroll]] for (uint r = 0; r < 4; ++r) {
      factors[q][r] = factor_of(block, first_row + (own_part + q * kOwnerThreads) * 4u + r, end_row, masked);
    }
    largest = larger_magnitude(largest, factors[q]);
  }
  workgroup_barrier();  // the previous step still reads rows and factors
  part_stage[own_part * kOwned + own_key] = largest;
  stage_rows(block, first_row, end_row);
  workgroup_barrier();  // rows and the largest factors are complete
  for (uint part = 0; part < kOwnerThreads; ++part) largest = max(largest, part_stage[part * kOwned + own_key]);
  const float factor = raise_unit(unit, largest);
  if (own_part == 0u) factor_stage[own_key] = factor;
  [[unroll]] for (uint q = 0; q < kQuads; ++q) {
    place_factors(unit, own_key, (own_part + q * kOwnerThreads) * 4u, factors[q]);
  }
  workgroup_barrier();  // the factors of rows and sums are complete
  add_products();
}

void visit_rows(KeyBlock block, inout uint unit) {
  const RowRange rows = rows_of_keys(int(block.first_key), int(block.first_key + kOwned), block.kv_length);
  uint row = rows.begin;
  while (row < rows.end) {  // tested at both ends, see lib/key_walk.glsl
    const bool full = row >= rows.full_begin && row + kVisited <= rows.full_end;
    visit(block, unit, row, rows.end, !full);
    row += kVisited;
    if (row >= rows.end) break;
  }
}

void store_sum(KeyBlock block, StagedSum staged) {
  const uint key = block.first_key + staged.owned;
  const uint dim = staged.dim;
  const uint dims = block.of_values ? kValueDim : kHeadDim;
  if (key >= block.key_count || dim >= dims) return;
  if (block.of_values) {
    const uint row = grad_value_row(block.tile.batch, block.tile.kv_head, key);
    store_grad_value(row, dim, staged.sum * drop_scale());
  } else {
    const uint row = grad_key_row(block.tile.batch, block.tile.kv_head, key);
    store_grad_key(row, dim, staged.sum * backward.sum_scale);
  }
}

void store_keys(KeyBlock block, uint unit) {
  workgroup_barrier();  // the factors of the last step were read
  if (own_part == 0u) factor_stage[own_key] = last_factor(unit, !block.of_values);
  workgroup_barrier();  // the units are complete
  scale_sums();
  [[dont_unroll]] for (uint matrix = 0; matrix < kRowBlocks * kSumBlocks; ++matrix) {
    stage_sums(matrix);
    for (uint i = gl_SubgroupInvocationID; i < kM * kN; i += kSubgroupSize) store_sum(block, staged_sum(matrix, i));
    subgroup_barrier();  // the next matrix overwrites this one
  }
}

void main() {
  KeyBlock block;
  // Each block of a head comes twice: for values and for keys.
  block.tile = chunk_tile(2u * params.split_keys, kOwned);
  if (!block.tile.valid) return;  // like all returns, uniform over the workgroup, so no barrier is missed
  const uint number = block.tile.first / kOwned;
  block.of_values = (number & 1u) == 0u;
  if (block.of_values ? !kHasGradValue : !kHasGradKey) return;
  block.first_key = block.tile.chunk * params.split_keys + number / 2u * kOwned;
  block.kv_length = visible_kv_length(block.tile.batch);
  // Keys behind a batch entry's last key get gradients of 0. If keys are packed, they belong to other entries.
  block.key_count = kKeyMapping == VKATTN_KEYS_PACKED ? uint(block.kv_length) : params.kv_length;
  if (block.first_key >= block.key_count) return;
  uint unit = kLeastUnit;
  begin_sums();
  visit_rows(block, unit);
  store_keys(block, unit);
}
