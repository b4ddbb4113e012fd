// The rows' pass of the backward pass on matrix units: a workgroup computes dQ of a block of query rows from the keys of a
// chunk, and leaves probabilities and gradients of scores in the workspace, as tile_rows.comp does.
//
//   kSubgroups subgroups are a grid of kGridColumns columns, over a product and over the sums:
//
//                                 kVisited keys, staged              kHeadPadded dims of K, the same stage
//                               +-------------+-------------+      +-------------+-------------+
//   kOwned rows of Q and dO,    | subgroup 0  | subgroup 1  |  dS  | subgroup 0  | subgroup 1  |
//   staged for the whole walk   +-------------+-------------+  ->  +-------------+-------------+
//                               | subgroup 2  | subgroup 3  |      | subgroup 2  | subgroup 3  |
//                               +-------------+-------------+      +-------------+-------------+
//                                 Q K^T, then dO V^T                 dQ
//
// Budget. Example: 4 subgroups of 32 lanes, matrices of 16x16x16, a grid of 2 columns, 32 rows x 32 keys, 128 dims in
// Q, K, V and dO.
//   registers      of a lane: kRowBlocks * kSumBlocks * kM * kN / 32 sums + kRowBlocks * kKeyBlocks * kM * kN / 32 of a
//                  product + 4 * kQuads factors + 16 for rows on their way to a stage = 32 + 8 + 8 + 16
//   shared memory  16 * (VKATTN_MATRIX_KEY_STAGE4 of rows and keys, of factors + VKATTN_MATRIX_FACTOR_STAGE4
//                  + 2 * VKATTN_MATRIX_SCORE_STAGE4) bytes = 16 * (2 * 64 * 17 + 32 * 5 + 8 + 2 * 32 * 9) = 46,720
//   memory         each multiply-add reads 4 / (3 * kOwned) bytes of K and V = 1/24, and writes 8 / (3 * dims) of pairs
//                  = 1/48
//   stages         each multiply-add of a product reads 2 / (keys of a subgroup) + 2 / (rows of a subgroup) bytes =
//                  1/4, of sums 2 / (dims of a subgroup) + 2 / (rows of a subgroup) = 1/32 + 1/8
//   barriers       four a step. K is staged once, and read by columns and by rows
//
// Lost by compilers (docs/trials/gpu_compilers.md): a transposed copy of K in the place of V on AMD, inverse throughput 16188 ->
// 16386 at 128 dims and 6439 -> 6543 at 64.
//
// Scores and their gradients go through shared memory, as the driver chooses how a matrix lies over the lanes. There
// kOwnerThreads neighbouring threads share a row, and each takes four keys at a time.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require

#define VKATTN_SUM_STAGE4 VKATTN_MATRIX_SCORE_STAGE4(kOwned, kVisited)
#include "backward/matrix_sums.glsl"
#include "backward/rows.glsl"
#include "backward/scores.glsl"
#include "lib/key_walk.glsl"

layout(constant_id = VKATTN_SPEC_MATRIX_KEY_LOADS8) const bool kKeyLoads8 = false;
layout(constant_id = VKATTN_SPEC_MATRIX_VALUE_LOADS8) const bool kValueLoads8 = false;

VKATTN_INPUT_BITS(key, kHeadDim, kKeyDimStride, kKeyLoads8, kKeyVectorLoads)
VKATTN_INPUT_BITS(value, kValueDim, kValueDimStride, kValueLoads8, kValueVectorLoads)

const uint kHeadPadded = kSumDims;
const uint kValuePadded = VKATTN_BACKWARD_PADDED(kValueDim, kK, kN, kGridColumns);
VKATTN_PADDED_BITS(query, kHeadDim, kHeadPadded)
VKATTN_PADDED_BITS(key, kHeadDim, kHeadPadded)
VKATTN_PADDED_BITS(value, kValueDim, kValuePadded)
VKATTN_PADDED_BITS(grad_output, kValueDim, kValuePadded)

const uint kKeyBlocks = kVisited / kGridColumns / kN;  // of a subgroup's scores
const uint kValueStride8 = VKATTN_MATRIX_STRIDE(kValuePadded);
const uint kScoreStride4 = VKATTN_MATRIX_SCORE_STRIDE4(kVisited);

shared uvec4 query_stage[VKATTN_MATRIX_KEY_STAGE4(kOwned, kHeadPadded)];
shared uvec4 grad_output_stage[VKATTN_MATRIX_KEY_STAGE4(kOwned, kValuePadded)];
shared uvec4 value_stage[VKATTN_MATRIX_KEY_STAGE4(kVisited, kValuePadded)];
// product_stage has <dO, v>. sum_stage has <q, k>, at the end sums. visited_stage has keys.
shared vec4 product_stage[VKATTN_MATRIX_SCORE_STAGE4(kOwned, kVisited)];

// Weights or gradients of four neighbouring keys in one store: pairs lie apart (backward/pairs.glsl).
layout(set = 0, binding = VKATTN_BINDING_PAIRS, std430) writeonly buffer PairQuads { vec4 pair_quads[]; };

// The thread's row in the block, and its number among the kOwnerThreads threads that share the row.
uint own_row = gl_LocalInvocationIndex / kOwnerThreads;
uint own_part = gl_LocalInvocationIndex % kOwnerThreads;

// Numbers of the thread's row.
struct OwnRow {
  bool exists;
  ScoreRow scores;
  uint pair_index;
  int key_begin;  // it sees keys from here
  int key_end;    // to before here
  float lse;
  float delta;
  float slope;
  uint unit;  // of its factors
};

// Keys that are visited: from `first` on, before `end`.
struct Step {
  int first;
  int end;
};

float sum_of_row(float number) {
  [[unroll]] for (uint lanes = 1; lanes < kOwnerThreads; lanes *= 2) number += subgroupShuffleXor(number, lanes);
  return number;
}

uvec4 fetch_query(ChunkTile tile, uint row, uint dim) {
  const uint packed = packed_of(tile, row);
  return query_padded8(query_row(tile.batch, packed_head(tile.kv_head, packed), packed_query(packed)), dim);
}

uvec4 fetch_grad_output(ChunkTile tile, uint row, uint dim) {
  const uint packed = packed_of(tile, row);
  return grad_output_padded8(grad_output_row(tile.batch, packed_head(tile.kv_head, packed), packed_query(packed)), dim);
}

uvec4 fetch_key(ChunkTile tile, Step step, uint key, uint dim) {
  return key_padded8(key_row(tile.batch, tile.kv_head, existing_key(step.first + int(key), step.end)), dim);
}

uvec4 fetch_value(ChunkTile tile, Step step, uint key, uint dim) {
  return value_padded8(value_row(tile.batch, tile.kv_head, existing_key(step.first + int(key), step.end)), dim);
}

// Loads an operand of the product Q K^T, or with of_outputs dO V^T: block b of the dims of the subgroup's r-th block of rows,
// or of its n-th block of keys.
void load_rows(out MatrixA rows, bool of_outputs, uint r, uint b) {
  const uint row = subgroup_row + r * kM;
  if (of_outputs) {
    coopMatLoad(rows, grad_output_stage, row * kValueStride8 + b * (kK / 8u), kValueStride8,
                gl_CooperativeMatrixLayoutRowMajor);
  } else {
    coopMatLoad(rows, query_stage, row * kSumStride8 + b * (kK / 8u), kSumStride8, gl_CooperativeMatrixLayoutRowMajor);
  }
}

void load_keys(out MatrixB keys, bool of_outputs, uint n, uint b) {
  const uint key = (subgroup_column * kKeyBlocks + n) * kN;
  if (of_outputs) {
    coopMatLoad(keys, value_stage, key * kValueStride8 + b * (kK / 8u), kValueStride8,
                gl_CooperativeMatrixLayoutColumnMajor);
  } else {
    coopMatLoad(keys, visited_stage, key * kSumStride8 + b * (kK / 8u), kSumStride8,
                gl_CooperativeMatrixLayoutColumnMajor);
  }
}

void store_product(MatrixC product, bool of_outputs, uint r, uint n) {
  const uint first = (subgroup_row + r * kM) * kScoreStride4 + (subgroup_column * kKeyBlocks + n) * (kN / 4u);
  if (of_outputs) {
    coopMatStore(product, product_stage, first, kScoreStride4, gl_CooperativeMatrixLayoutRowMajor);
  } else {
    coopMatStore(product, sum_stage, first, kScoreStride4, gl_CooperativeMatrixLayoutRowMajor);
  }
}

// Multiplies the subgroup's rows and its keys of the step. of_outputs is a constant once inlined.
void multiply(bool of_outputs) {
  MatrixC products[kRowBlocks * kKeyBlocks];
  [[unroll]] for (uint i = 0; i < kRowBlocks * kKeyBlocks; ++i) products[i] = MatrixC(0.0);
  [[unroll]] for (uint b = 0; b < (of_outputs ? kValuePadded : kHeadPadded) / kK; ++b) {
    MatrixA rows[kRowBlocks];
    [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) load_rows(rows[r], of_outputs, r, b);
    [[unroll]] for (uint n = 0; n < kKeyBlocks; ++n) {
      MatrixB keys;
      load_keys(keys, of_outputs, n, b);
      [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
        products[r * kKeyBlocks + n] = coopMatMulAdd(rows[r], keys, products[r * kKeyBlocks + n]);
      }
    }
  }
  [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
    [[unroll]] for (uint n = 0; n < kKeyBlocks; ++n) store_product(products[r * kKeyBlocks + n], of_outputs, r, n);
  }
}

// Leaves the pairs of the thread's row and four neighbouring keys, from the step's first_key-th on, in the workspace. Returns
// the gradients of <q, k>.
vec4 make_pairs(ChunkTile tile, inout OwnRow own, Step step, uint first_key, vec4 scores, vec4 products, bool masked) {
  const int position = step.first + int(first_key);
  const uint kept = keys_that_are_kept(own.scores, uint(position), 4u);
  vec4 weights, gradients, score_gradient;
  [[unroll]] for (uint k = 0; k < 4; ++k) {
    const uint key = existing_key(position + int(k), step.end);
    PairGradient pair = pair_gradient(scores[k] * params.scale_log2, products[k], own.lse, own.delta, own.scores, key,
                                      is_kept(kept, k), masked);
    const bool hidden = masked && (position + int(k) >= own.key_end ||
                                   (kHasKeyBegin && position + int(k) < own.key_begin));
    if (hidden) pair = PairGradient(0.0, 0.0, 0.0);
    if (kHasGradSlopes) own.slope += slope_gradient(pair.score_gradient, own.scores, key);
    weights[k] = pair.weight;
    gradients[k] = pair.gradient;
    score_gradient[k] = pair.score_gradient;
  }
  if (!own.exists) return gradients;
  const uint index = own.pair_index + uint(position) - tile.chunk * params.split_keys;
  const uint quad = index / 4u;
  pair_quads[quad] = weights;
  pair_quads[quad + gradient_place(0u) / 4u] = gradients;
  if (kKeepsScoreGradients) {
    [[unroll]] for (uint k = 0; k < 4; ++k) store_score_gradient(index + k, score_gradient[k]);
  }
  return gradients;
}

void make_factors(ChunkTile tile, inout OwnRow own, Step step, bool masked) {
  vec4 factors[kQuads];
  uint largest = 0u;
  [[unroll]] for (uint q = 0; q < kQuads; ++q) {
    const uint quad = own_part + q * kOwnerThreads;
    const uint place = own_row * kScoreStride4 + quad;
    factors[q] = make_pairs(tile, own, step, quad * 4u, sum_stage[place], product_stage[place], masked);
    largest = larger_magnitude(largest, factors[q]);
  }
  if (!kHasGradQuery) return;
  [[unroll]] for (uint lanes = 1; lanes < kOwnerThreads; lanes *= 2) {
    largest = max(largest, subgroupShuffleXor(largest, lanes));
  }
  const float factor = raise_unit(own.unit, largest);
  if (own_part == 0u) factor_stage[own_row] = factor;
  [[unroll]] for (uint q = 0; q < kQuads; ++q) {
    place_factors(own.unit, own_row, (own_part + q * kOwnerThreads) * 4u, factors[q]);
  }
}

void visit(ChunkTile tile, inout OwnRow own, Step step, bool masked) {
  workgroup_barrier();  // the previous step still reads keys and factors
#define VKATTN_FETCH_KEY(KEY, DIM) fetch_key(tile, step, KEY, DIM)
#define VKATTN_FETCH_VALUE(KEY, DIM) fetch_value(tile, step, KEY, DIM)
  VKATTN_FILL_STAGE(visited_stage, kVisited, kHeadPadded, VKATTN_FETCH_KEY)
  VKATTN_FILL_STAGE(value_stage, kVisited, kValuePadded, VKATTN_FETCH_VALUE)
  workgroup_barrier();  // keys, values and the block's rows are complete
  multiply(false);
  multiply(true);
  workgroup_barrier();  // scores and products are complete
  if (masked) {
    make_factors(tile, own, step, true);
  } else {
    make_factors(tile, own, step, false);
  }
  if (!kHasGradQuery) return;
  workgroup_barrier();  // the factors of keys and sums are complete
  add_products();
}

OwnRow begin_row(ChunkTile tile, int kv_length) {
  const uint packed = packed_of(tile, own_row);
  const uint head = packed_head(tile.kv_head, packed);
  const uint query = packed_query(packed);
  OwnRow own;
  own.exists = tile.first + own_row < packed_row_count();
  own.pair_index = pair_row(tile.batch, head, query);
  own.scores = score_row(tile.batch, head, query);
  own.key_begin = visible_key_begin(int(query), kv_length);
  own.key_end = visible_key_end(int(query), kv_length);
  own.lse = kLog2E * uintBitsToFloat(lse_words[lse_index(tile.batch, head, query)]);
  own.slope = 0.0;
  own.unit = kLeastUnit;
  float delta = 0.0;
  const uint grad_index = grad_output_row(tile.batch, head, query);
  const uint output_index = output_row(tile.batch, head, query);
  for (uint dim = own_part * 4u; dim < kValueDim; dim += kOwnerThreads * 4u) {
    delta += dot(grad_output_at4(grad_index, dim), forward_output_at4(output_index, dim));
  }
  own.delta = sum_of_row(delta);
  subtract_grad_lse(own.delta, tile.batch, head, query);
  return own;
}

void stage_rows(ChunkTile tile) {
#define VKATTN_FETCH_QUERY(ROW, DIM) fetch_query(tile, ROW, DIM)
#define VKATTN_FETCH_GRAD_OUTPUT(ROW, DIM) fetch_grad_output(tile, ROW, DIM)
  VKATTN_FILL_STAGE(query_stage, kOwned, kHeadPadded, VKATTN_FETCH_QUERY)
  VKATTN_FILL_STAGE(grad_output_stage, kOwned, kValuePadded, VKATTN_FETCH_GRAD_OUTPUT)
}

// Stores a sum: for later chunks to go on with, or, after the last chunk, as a gradient.
void store_sum(ChunkTile tile, StagedSum staged) {
  const uint packed = tile.first + staged.owned;
  const uint dim = staged.dim;  // a variable: glslang makes a branch of '||' before a member
  if (packed >= packed_row_count() || dim >= kHeadDim) return;
  const uint row_index = gradient_row(tile, packed);
  const uint sum_index = backward.query_sums + stored_row(tile, packed) * kHeadDim;
  float sum = staged.sum;
  if (tile.chunk != 0u) sum += load_grad_query_sum(row_index, sum_index, dim);
  if (tile.chunk + 1u == params.kv_splits) {
    store_grad_query(row_index, dim, sum * backward.sum_scale);
  } else {
    store_grad_query_sum(row_index, sum_index, dim, sum);
  }
}

void store_rows(ChunkTile tile, uint unit) {
  workgroup_barrier();  // the factors and scores of the last step were read
  if (own_part == 0u) factor_stage[own_row] = last_factor(unit, true);
  workgroup_barrier();  // the units are complete
  scale_sums();
  [[dont_unroll]] for (uint matrix = 0; matrix < kRowBlocks * kSumBlocks; ++matrix) {
    stage_sums(matrix);
    for (uint i = gl_SubgroupInvocationID; i < kM * kN; i += kSubgroupSize) store_sum(tile, staged_sum(matrix, i));
    subgroup_barrier();  // the next matrix overwrites this one
  }
}

void keep_numbers(ChunkTile tile, OwnRow own) {
  const float slope = kHasGradSlopes ? sum_of_row(own.slope) : 0.0;
  if (own_part != 0u || !own.exists) return;
  const uint row = stored_row(tile, tile.first + own_row);
  if (kHasGradSlopes) {
    const float before = tile.chunk == 0u ? 0.0 : sums[backward.slope_sums + row];
    sums[backward.slope_sums + row] = before + slope;
  }
  if (kWritesDeltas) sums[backward.delta_sums + row] = own.delta;
}

void main() {
  const ChunkTile tile = chunk_tile(most_packed_rows(), kOwned);
  if (!tile.valid) return;  // like all returns, uniform over the workgroup, so no barrier is missed
  if (tile.chunk + 1u == params.kv_splits) clear_rows(tile, kOwned, kThreads);
  if (tile.first >= packed_row_count()) return;
  const int kv_length = visible_kv_length(tile.batch);
  const KeyRange keys =
      keys_of_rows(tile.first, kOwned, kv_length, int(tile.chunk * params.split_keys), int(kVisited));
  begin_sums();
  OwnRow own = begin_row(tile, kv_length);
  stage_rows(tile);
  int key = keys.begin;
  while (key < keys.end) {  // tested at both ends, see lib/key_walk.glsl
    visit(tile, own, Step(key, keys.end), !is_full_step(keys, key, kVisited));
    key += int(kVisited);
    if (key >= keys.end) break;
  }
  keep_numbers(tile, own);
  if (kHasGradQuery) store_rows(tile, own.unit);
}
