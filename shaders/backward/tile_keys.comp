// The keys' pass of the backward pass through shared memory: a workgroup computes dK or dV of a block of keys of a chunk and
// one KV head, from blocks of the rows of all query heads that share it.
//
//   kThreads threads are a grid of kColumns columns. Thread (k, c) owns kKeys keys, and of these
//
//                      kBlockRows = kColumns * kVisited rows          chunks of kChunkDims = 4 * kColumns dims
//                    +------------------------------+               +-------------------------------------+
//   keys of thread k | factors: dS, or p            |  x Q, or dO   | dK, or dV, of dims 4 c .. 4 c + 3   |
//   (kKeys of them)  | from the workspace           |        =      | of each of kChunks chunks           |
//                    +------------------------------+               +-------------------------------------+
//
// Budget. Example: 128 threads, 16 columns, 4 keys, kVisited = 2; 64 dims of e = 4 bytes in Q and dO.
//   registers      4 * kKeys * kChunks sums + 16 of rows + 4 factors = 16 + 16 + 4
//   shared memory  16 * (VKATTN_BACKWARD_ROW_STAGE4 + VKATTN_BACKWARD_KEY_STAGE4) bytes = 16 * (32 * 9 + 32 * 17) =
//                  13,312
//   memory         each multiply-add reads e / kBlockKeys bytes of Q or dO + 4 / dims of pairs = 1/8 + 1/16
//   stages         each multiply-add reads 1 + 4 / kKeys bytes = 2
//
// dK and dV are computed apart: they share no factor, and each needs only half of the registers. The rows' pass has left
// probabilities (p) and gradients of scores (dS) in the workspace.
//
// Lost by compilers (docs/trials/gpu_compilers.md): blocks of other families on Mali-G610, 13 spills and 190 fills at 128 dims;
// steps written out at 128 dims on AMD, 0.92 to 1.04 of the inverse throughput, and on Xe2, up to 1.05 of the cycles.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "backward/pairs.glsl"
#include "backward/stages.glsl"
#include "lib/dropout.glsl"
#include "lib/unrolled.glsl"

const uint kBlockKeys = kThreads / kColumns * kOwned;
const uint kBlockRows = kColumns * kVisited;
const uint kKeys = kOwned;
const uint kMostDims = kHeadDim > kValueDim ? kHeadDim : kValueDim;
const uint kChunks = (kMostDims + kChunkDims - 1) / kChunkDims;

// Weights, or gradients of scores, of the block: for each key, all rows. Scalars, as neighbours belong to several threads.
shared float pair_stage[4 * VKATTN_BACKWARD_ROW_STAGE4(kBlockKeys, kColumns, kVisited)];
shared vec4 row_stage[VKATTN_BACKWARD_KEY_STAGE4(kBlockRows, kColumns)];  // queries, or gradients of outputs

// The keys that a workgroup owns.
struct KeyBlock {
  ChunkTile tile;
  int kv_length;
  uint first_key;
};

// The thread's column of the grid, and its first key in the block. As functions, compilers would compute them again in each
// loop.
uint column = gl_LocalInvocationIndex % kColumns;
uint block_key = gl_LocalInvocationIndex / kColumns * kKeys;

// A thread's array is a global, as GLSL passes arrays by copying them.
vec4 accumulator[kKeys * kChunks];

// 4 elements of a row of dO, or of a scaled row of Q.
vec4 row_quad(KeyBlock block, uint packed, uint dim, bool of_values) {
  const uint head = packed_head(block.tile.kv_head, packed);
  const uint query = packed_query(packed);
  return of_values ? grad_output_at4(grad_output_row(block.tile.batch, head, query), dim)
                   : scaled_operand(query_at4(query_row(block.tile.batch, head, query), dim));
}

// The factor of a row in the sum of a key; 0 for rows from end_row on.
float factor_of(KeyBlock block, uint packed, uint end_row, uint key, bool of_values, bool masked) {
  if (packed >= end_row) return 0.0;
  const uint query = packed_query(packed);
  const uint pair = pair_row(block.tile.batch, packed_head(block.tile.kv_head, packed), query) + key -
                    block.tile.chunk * params.split_keys;
  const float factor = of_values ? load_weight(pair) : load_gradient(pair);
  const bool visible = !masked || sees_key(int(query), int(key), block.kv_length);
  return visible ? factor : 0.0;
}

// Adds a block of rows, times their factors, to chunk n of the dims.
void add_rows(KeyBlock block, uint n, uint first_row, uint end_row, bool of_values, bool masked) {
  barrier();  // the previous chunk of dims, or block, still reads row_stage; pair_stage is complete
  for (uint i = gl_LocalInvocationIndex; i < kBlockRows * kColumns; i += kThreads) {
    const uint packed = min(first_row + i / kColumns, end_row - 1u);
    const uint dim = n * kChunkDims + i % kColumns * 4u;
    row_stage[i / kColumns * kChunkStride4 + i % kColumns] = row_quad(block, packed, dim, of_values);
  }
  barrier();  // row_stage is complete
  [[dont_unroll]] for (uint quad = 0; quad < kBlockRows / 4; ++quad) {
    vec4 rows[4];
    [[unroll]] for (uint r = 0; r < 4; ++r) rows[r] = row_stage[(quad * 4 + r) * kChunkStride4 + column];
    [[unroll]] for (uint k = 0; k < kKeys; ++k) {
      const uint i = ((block_key + k) * kPairStride4 + quad) * 4u;
      [[unroll]] for (uint r = 0; r < 4; ++r) {
        const float factor = pair_stage[i + r];
        if (!masked || factor != 0.0) accumulator[k * kChunks + n] += factor * rows[r];
      }
    }
  }
}

// Visits one block of rows. of_values is a constant once inlined. A masked block skips hidden pairs: 0 times NaN would be NaN.
void visit(KeyBlock block, uint first_row, uint end_row, bool of_values, bool masked) {
  barrier();  // the previous block still reads pair_stage
  for (uint i = gl_LocalInvocationIndex; i < kBlockKeys * kBlockRows; i += kThreads) {
    // Neighbouring threads read neighbouring keys of a row.
    const uint key = i % kBlockKeys;
    const uint row = i / kBlockKeys;
    pair_stage[key * kPairStride4 * 4u + row] =
        factor_of(block, first_row + row, end_row, block.first_key + key, of_values, masked);
  }
  const uint dims = of_values ? kValueDim : kHeadDim;
#define VKATTN_ADD_ROWS(N) if ((N) * kChunkDims < dims) add_rows(block, N, first_row, end_row, of_values, masked)
  VKATTN_STEPS(kChunks, VKATTN_ADD_ROWS)
}

void visit_rows(KeyBlock block, bool of_values) {
  const RowRange rows = rows_of_keys(int(block.first_key), int(block.first_key + kBlockKeys), block.kv_length);
  uint row = rows.begin;
  while (row < rows.end) {  // tested at both ends, see lib/key_walk.glsl
    const bool full = row >= rows.full_begin && row + kBlockRows <= rows.full_end;
    visit(block, row, rows.end, of_values, !full);
    row += kBlockRows;
    if (row >= rows.end) break;
  }
}

void store_keys(KeyBlock block, bool of_values, uint key_count) {
  [[unroll]] for (uint k = 0; k < kKeys; ++k) {
    const uint key = block.first_key + block_key + k;
    if (key >= key_count) continue;
    [[unroll]] for (uint n = 0; n < kChunks; ++n) {
      [[unroll]] for (uint d = 0; d < 4; ++d) {
        const uint dim = n * kChunkDims + column * 4u + d;
        const float sum = accumulator[k * kChunks + n][d];
        if (of_values) {
          const uint row = grad_value_row(block.tile.batch, block.tile.kv_head, key);
          if (dim < kValueDim) store_grad_value(row, dim, sum * drop_scale());
        } else {
          const uint row = grad_key_row(block.tile.batch, block.tile.kv_head, key);
          if (dim < kHeadDim) store_grad_key(row, dim, sum * backward.sum_scale);
        }
      }
    }
  }
}

void main() {
  // Each block of a head comes twice: for values and for keys.
  KeyBlock block;
  block.tile = chunk_tile(2u * params.split_keys, kBlockKeys);
  if (!block.tile.valid) return;  // like all returns, uniform over the workgroup, so no barrier is missed
  const uint number = block.tile.first / kBlockKeys;
  const bool of_values = (number & 1u) == 0u;
  if (of_values ? !kHasGradValue : !kHasGradKey) return;
  block.first_key = block.tile.chunk * params.split_keys + number / 2u * kBlockKeys;
  block.kv_length = visible_kv_length(block.tile.batch);
  // Keys behind a batch entry's last key get gradients of 0. If keys are packed, they belong to other entries.
  const uint key_count = kKeyMapping == VKATTN_KEYS_PACKED ? uint(block.kv_length) : params.kv_length;
  if (block.first_key >= key_count) return;
  [[unroll]] for (uint i = 0; i < kKeys * kChunks; ++i) accumulator[i] = vec4(0.0);
  if (of_values) {
    visit_rows(block, true);
    store_keys(block, true, key_count);
  } else {
    visit_rows(block, false);
    store_keys(block, false, key_count);
  }
}
