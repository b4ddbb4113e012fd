// The rows' pass of the backward pass through shared memory: a workgroup computes dQ of a block of query rows from the keys
// of a chunk, and leaves their probabilities and gradients of scores in the workspace.
//
//   kThreads threads are a grid of kColumns columns. Thread (r, c) owns kRows rows, and of these
//
//                      kBlockKeys = kColumns * kKeys keys             chunks of kChunkDims = 4 * kColumns dims
//                    +------------------------------+               +-------------------------------------+
//   rows of thread r | Q K^T and dO V^T of key c of |  x K of the   | dQ of dims 4 c .. 4 c + 3 of each   |
//   (kRows of them)  | every kColumns keys          |  block  =     | of kChunks chunks                   |
//                    +------------------------------+               +-------------------------------------+
//
// Budget. Example: 128 threads, 16 columns, 4 rows x 2 keys; 64 dims of e = 4 bytes in Q, K, V and dO.
//   registers      4 * kRows * kChunks sums + 2 * kRows * kKeys scores and products + 4 * (kKeys + 1) operands of a
//                  product, or 20 of sums, + 6 * kRows of the rows' state = 16 + 16 + 20 + 24
//   shared memory  16 * (VKATTN_BACKWARD_ROW_STAGE4 + VKATTN_BACKWARD_KEY_STAGE4) bytes = 16 * (32 * 9 + 32 * 17) =
//                  13,312
//   memory         each multiply-add reads e / kBlockRows bytes of K and V + 2 * e / (3 * kBlockKeys) of Q and dO,
//                  which every block of keys fetches again = 1/8 + 1/12, and writes 8 / (3 * dims) of pairs = 1/24
//   stages         each multiply-add of a product reads 4 / kRows + 4 / kKeys bytes = 3, of sums 1 + 4 / kRows = 2
//
// It computes scores and <dO, v>, and stages them as attention_tile.comp does. It also sums the other gradients over keys.
//
// Lost by compilers (docs/trials/gpu_compilers.md): blocks of other families on Mali-G610, 57 spills and 234 fills at 128 dims
// where 2 rows of a thread in 32 columns have none; steps written out at 128 dims on AMD, 0.92 to 1.04 of the inverse throughput.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "backward/rows.glsl"
#include "backward/scores.glsl"
#include "backward/stages.glsl"
#include "lib/key_walk.glsl"
#include "lib/unrolled.glsl"

const uint kBlockRows = kThreads / kColumns * kOwned;
const uint kBlockKeys = kColumns * kVisited;
const uint kRows = kOwned;
const uint kKeys = kVisited;
const uint kChunks = (kHeadDim + kChunkDims - 1) / kChunkDims;  // of the rows' gradients

// Queries or gradients of outputs, then gradients of scores; at the beginning and the end, parts of sums over a row. Scalars,
// as neighbours belong to several threads.
shared float row_stage[4 * VKATTN_BACKWARD_ROW_STAGE4(kBlockRows, kColumns, kVisited)];
shared vec4 key_stage[VKATTN_BACKWARD_KEY_STAGE4(kBlockKeys, kColumns)];  // keys or values

// The thread's column of the grid, and its first row in the block. As functions, compilers would compute them again in each
// loop.
uint column = gl_LocalInvocationIndex % kColumns;
uint block_row = gl_LocalInvocationIndex / kColumns * kRows;

// A thread's arrays are globals, as GLSL passes arrays by copying them.
vec4 accumulator[kRows * kChunks];
float score[kRows * kKeys];    // <q, k>, then its gradient
float product[kRows * kKeys];  // <dO, v>
ScoreRow score_rows[kRows];
uint pair_index[kRows];
int row_key_begin[kRows], row_key_end[kRows];  // a row sees keys begin .. end - 1
float row_lse[kRows], row_delta[kRows], row_slope[kRows];

vec4 staged_quad(uint row, uint stride4, uint quad) {
  const uint i = (row * stride4 + quad) * 4u;
  return vec4(row_stage[i], row_stage[i + 1u], row_stage[i + 2u], row_stage[i + 3u]);
}

// 4 elements of a row of Q, or of dO.
vec4 row_quad(ChunkTile tile, uint row, uint dim, bool of_output) {
  const uint packed = packed_of(tile, row);
  const uint head = packed_head(tile.kv_head, packed);
  const uint query = packed_query(packed);
  return of_output ? grad_output_at4(grad_output_row(tile.batch, head, query), dim)
                   : query_at4(query_row(tile.batch, head, query), dim);
}

vec4 key_quad(ChunkTile tile, uint key, uint dim, bool of_value) {
  return of_value ? value_at4(value_row(tile.batch, tile.kv_head, key), dim)
                  : key_at4(key_row(tile.batch, tile.kv_head, key), dim);
}

// Computes Q K^T of the block, or dO V^T with of_output, which is a constant once inlined.
void multiply(ChunkTile tile, int first_key, int key_end, bool of_output) {
  const uint dims = of_output ? kValueDim : kHeadDim;
  for (uint dim = 0; dim < dims; dim += kStageDims) {
    barrier();  // the previous chunk of dims, or block of keys, still reads the stages
    for (uint i = gl_LocalInvocationIndex; i < kBlockRows * kStageQuads; i += kThreads) {
      const vec4 elements = row_quad(tile, i / kStageQuads, dim + i % kStageQuads * 4u, of_output);
      const uint place = (i / kStageQuads * kStageStride4 + i % kStageQuads) * 4u;
      [[unroll]] for (uint d = 0; d < 4; ++d) row_stage[place + d] = elements[d];
    }
    for (uint i = gl_LocalInvocationIndex; i < kBlockKeys * kStageQuads; i += kThreads) {
      const uint key = existing_key(first_key + int(i / kStageQuads), key_end);
      key_stage[i / kStageQuads * kStageStride4 + i % kStageQuads] =
          key_quad(tile, key, dim + i % kStageQuads * 4u, of_output);
    }
    barrier();  // the stages are complete
    [[dont_unroll]] for (uint quad = 0; quad < kStageQuads; ++quad) {
      vec4 keys[kKeys];
      [[unroll]] for (uint k = 0; k < kKeys; ++k) keys[k] = key_stage[(column + k * kColumns) * kStageStride4 + quad];
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        const vec4 row = staged_quad(block_row + r, kStageStride4, quad);
        [[unroll]] for (uint k = 0; k < kKeys; ++k) {
          float sum = of_output ? product[r * kKeys + k] : score[r * kKeys + k];
          [[unroll]] for (uint d = 0; d < 4; ++d) sum += row[d] * keys[k][d];
          if (of_output) {
            product[r * kKeys + k] = sum;
          } else {
            score[r * kKeys + k] = sum;
          }
        }
      }
    }
  }
}

// Turns the block's scores into their gradients, and leaves the pairs in the workspace.
void make_pairs(ChunkTile tile, int first_key, int key_end, bool masked) {
  const uint in_chunk = uint(first_key) - tile.chunk * params.split_keys;
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const bool exists = tile.first + block_row + r < packed_row_count();
    [[unroll]] for (uint k = 0; k < kKeys; ++k) {
      const uint in_block = column + k * kColumns;
      const int position = first_key + int(in_block);
      const uint key = existing_key(position, key_end);
      const bool kept = kept_probability(1.0, score_rows[r], key) != 0.0;
      PairGradient pair = pair_gradient(score[r * kKeys + k] * params.scale_log2, product[r * kKeys + k], row_lse[r],
                                        row_delta[r], score_rows[r], key, kept, masked);
      const bool hidden =
          masked && (position >= row_key_end[r] || (kHasKeyBegin && position < row_key_begin[r]));
      if (hidden) pair = PairGradient(0.0, 0.0, 0.0);
      score[r * kKeys + k] = pair.gradient;
      if (kHasGradSlopes) row_slope[r] += slope_gradient(pair.score_gradient, score_rows[r], key);
      if (exists) {
        store_pair(pair_index[r] + in_chunk + in_block, vec2(pair.weight, pair.gradient));
        if (kKeepsScoreGradients) {
          store_score_gradient(pair_index[r] + in_chunk + in_block, pair.score_gradient);
        }
      }
    }
  }
}

// Adds the block's keys to chunk n of the dims.
void add_chunk(ChunkTile tile, uint n, int first_key, int key_end, bool masked) {
  barrier();  // multiply() or the previous chunk of dims still reads key_stage; gradients are complete
  for (uint i = gl_LocalInvocationIndex; i < kBlockKeys * kColumns; i += kThreads) {
    const uint key = existing_key(first_key + int(i / kColumns), key_end);
    key_stage[i / kColumns * kChunkStride4 + i % kColumns] =
        scaled_operand(key_quad(tile, key, n * kChunkDims + i % kColumns * 4u, false));
  }
  barrier();  // key_stage is complete
  [[dont_unroll]] for (uint quad = 0; quad < kBlockKeys / 4; ++quad) {
    vec4 keys[4];
    [[unroll]] for (uint k = 0; k < 4; ++k) keys[k] = key_stage[(quad * 4 + k) * kChunkStride4 + column];
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      const vec4 gradient = staged_quad(block_row + r, kPairStride4, quad);
      [[unroll]] for (uint k = 0; k < 4; ++k) {
        if (!masked || gradient[k] != 0.0) accumulator[r * kChunks + n] += gradient[k] * keys[k];
      }
    }
  }
}

// Adds the block's keys, times the gradients of their scores, to the rows' gradients. A masked block skips hidden keys: 0
// times NaN would be NaN.
void add_keys(ChunkTile tile, int first_key, int key_end, bool masked) {
  barrier();  // multiply() still reads row_stage
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    [[unroll]] for (uint k = 0; k < kKeys; ++k) {
      const uint key = column + k * kColumns;
      row_stage[(block_row + r) * kPairStride4 * 4u + key] = score[r * kKeys + k];
    }
  }
#define VKATTN_ADD_CHUNK(N) add_chunk(tile, N, first_key, key_end, masked)
  VKATTN_STEPS(kChunks, VKATTN_ADD_CHUNK)
}

void visit(ChunkTile tile, int first_key, int key_end, bool masked) {
  [[unroll]] for (uint i = 0; i < kRows * kKeys; ++i) score[i] = product[i] = 0.0;
  multiply(tile, first_key, key_end, false);
  multiply(tile, first_key, key_end, true);
  make_pairs(tile, first_key, key_end, masked);
  if (kHasGradQuery) add_keys(tile, first_key, key_end, masked);
}

float staged_sum(uint r) {
  float sum = 0.0;
  for (uint c = 0; c < kColumns; ++c) sum += row_stage[(block_row + r) * kPartStride + c];
  return sum;
}

void add_up_row(inout float number[kRows], uint r) { number[r] = staged_sum(r); }

// Sums a number over a row's threads, for each of their rows.
void sum_of_columns(inout float number[kRows]) {
  barrier();  // row_stage is still read
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    row_stage[(block_row + r) * kPartStride + column] = number[r];
  }
  barrier();  // the parts are complete
#define VKATTN_ADD_UP_ROW(R) add_up_row(number, R)
  VKATTN_STEPS(kRows, VKATTN_ADD_UP_ROW)
}

// 4 elements of the sums of earlier chunks.
vec4 earlier_sums(ChunkTile tile, uint packed, uint first_dim) {
  const uint sum_index = backward.query_sums + stored_row(tile, packed) * kHeadDim;
  vec4 sums4 = vec4(0.0);
  [[unroll]] for (uint d = 0; d < 4; ++d) {
    const uint dim = first_dim + d;
    if (dim < kHeadDim) sums4[d] = load_grad_query_sum(gradient_row(tile, packed), sum_index, dim);
  }
  return sums4;
}

// This thread's part of D of a row.
float part_of_delta(ChunkTile tile, uint head, uint query) {
  const uint grad_index = grad_output_row(tile.batch, head, query);
  const uint output_index = output_row(tile.batch, head, query);
  float delta = 0.0;
  for (uint dim = column; dim < kValueDim; dim += kColumns) {
    delta += grad_output_at(grad_index, dim) * forward_output_at(output_index, dim);
  }
  if (column == 0u) subtract_grad_lse(delta, tile.batch, head, query);
  return delta;
}

void begin_row(ChunkTile tile, uint r, int kv_length) {
  const uint packed = packed_of(tile, block_row + r);
  const uint head = packed_head(tile.kv_head, packed);
  const uint query = packed_query(packed);
  pair_index[r] = pair_row(tile.batch, head, query);
  score_rows[r] = score_row(tile.batch, head, query);
  row_key_begin[r] = visible_key_begin(int(query), kv_length);
  row_key_end[r] = visible_key_end(int(query), kv_length);
  row_lse[r] = kLog2E * uintBitsToFloat(lse_words[lse_index(tile.batch, head, query)]);
  row_slope[r] = 0.0;
  row_delta[r] = part_of_delta(tile, head, query);
  [[unroll]] for (uint n = 0; n < kChunks; ++n) {
    vec4 earlier = vec4(0.0);
    if (kHasGradQuery && tile.chunk != 0u) earlier = earlier_sums(tile, packed, n * kChunkDims + column * 4u);
    accumulator[r * kChunks + n] = earlier;
  }
}

void begin_rows(ChunkTile tile, int kv_length) {
#define VKATTN_BEGIN_ROW(R) begin_row(tile, R, kv_length)
  VKATTN_STEPS(kRows, VKATTN_BEGIN_ROW)
  sum_of_columns(row_delta);
}

// Stores 4 sums: for later chunks to go on with, or, after the last chunk, as gradients.
void store_quad(ChunkTile tile, uint packed, uint first_dim, vec4 sums4, bool last) {
  const uint row_index = gradient_row(tile, packed);
  const uint sum_index = backward.query_sums + stored_row(tile, packed) * kHeadDim;
  [[unroll]] for (uint d = 0; d < 4; ++d) {
    const uint dim = first_dim + d;
    if (dim < kHeadDim) {
      if (last) {
        store_grad_query(row_index, dim, sums4[d] * backward.sum_scale);
      } else {
        store_grad_query_sum(row_index, sum_index, dim, sums4[d]);
      }
    }
  }
}

void store_rows(ChunkTile tile, bool last) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const uint packed = tile.first + block_row + r;
    if (packed < packed_row_count()) {
      [[unroll]] for (uint n = 0; n < kChunks; ++n) {
        store_quad(tile, packed, n * kChunkDims + column * 4u, accumulator[r * kChunks + n], last);
      }
    }
  }
}

void keep_numbers(ChunkTile tile) {
  if (kHasGradSlopes) sum_of_columns(row_slope);
  if (column != 0u) return;
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const uint packed = tile.first + block_row + r;
    if (packed >= packed_row_count()) continue;
    const uint row = stored_row(tile, packed);
    if (kHasGradSlopes) {
      const float before = tile.chunk == 0u ? 0.0 : sums[backward.slope_sums + row];
      sums[backward.slope_sums + row] = before + row_slope[r];
    }
    if (kWritesDeltas) sums[backward.delta_sums + row] = row_delta[r];
  }
}

void main() {
  const ChunkTile tile = chunk_tile(most_packed_rows(), kBlockRows);
  if (!tile.valid) return;  // like all returns, uniform over the workgroup, so no barrier is missed
  const bool last = tile.chunk + 1u == params.kv_splits;
  if (last) clear_rows(tile, kBlockRows, kThreads);
  if (tile.first >= packed_row_count()) return;
  const int kv_length = visible_kv_length(tile.batch);
  const KeyRange keys =
      keys_of_rows(tile.first, kBlockRows, kv_length, int(tile.chunk * params.split_keys), int(kBlockKeys));
  begin_rows(tile, kv_length);
  int key = keys.begin;
  while (key < keys.end) {  // tested at both ends, see lib/key_walk.glsl
    visit(tile, key, keys.end, !is_full_step(keys, key, kBlockKeys));
    key += int(kBlockKeys);
    if (key >= keys.end) break;
  }
  keep_numbers(tile);
  if (kHasGradQuery) store_rows(tile, last);
}
