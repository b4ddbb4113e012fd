// The rows' pass of the backward pass without barriers or shared memory: an invocation computes dQ of kRows
// neighbouring query rows from the keys of a chunk, and leaves their probabilities and gradients of scores in the
// workspace.
//
//                    kKeys keys of a step
//                  +-----------------------------+
//   invocation 0   | kRows x kKeys of Q K^T and  |  -> pairs, 8 bytes each, in the workspace
//                  | as many of dO V^T           |  -> x K = dQ; its sums lie in memory, 4 dims at a
//   invocation 1   | its own rows, the same keys |     time are in registers
//   ...            +-----------------------------+
//
// Budget. Example: 8 invocations of 4 rows x 32 keys, d dims of e = 4 bytes in Q, K, V and dO.
//   registers      2 * kRows * kKeys scores and products + 4 * (kRows + 1) operands, or sums and K = 256 + 20; a CPU
//                  keeps most of them in its cache
//   shared memory  none
//   memory         each multiply-add reads e / (kRows * kWorkgroupSize) bytes of K and V + (2 * e + 4) / (3 * kKeys) of
//                  Q, dO and sums = 1/8 + 1/8, and writes 4 / (3 * kKeys) of sums + 8 / (3 * d) of pairs
//
// It visits keys as attention_lane.comp does. It also sums the other gradients over keys.
//
// Lost on lavapipe (docs/trials/lavapipe.md): 8 rows an invocation, 1.2 of the time; 8 dims a pass of the score loops, 1.05 to
// 1.08; 64 keys a step in place of 32, 2.1 s to compile in place of 1.63. Lost by compilers (docs/trials/gpu_compilers.md): 4
// rows x 32 keys on Navi 21, 5 KiB of scratch, and on Turing, 98 spills.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/by_address.glsl"

#define VKATTN_KEYS_BY_ADDRESS kByAddress

#include "backward/pairs.glsl"
#include "backward/scores.glsl"
#include "backward/step_ranges.glsl"
#include "lib/key_walk.glsl"
#include "lib/step_keys.glsl"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 8;
layout(constant_id = VKATTN_SPEC_STEP_ROWS) const uint kRows = 4;
layout(constant_id = VKATTN_SPEC_MASKED_STEP) const uint kMaskedKeys = 4;
layout(constant_id = VKATTN_SPEC_FULL_STEPS) const bool kHasFullSteps = true;  // else one of masked steps alone

// Dims that passes over rows clear, sum up or scale by kPassDims.
const uint kWholeHeadDims = kHeadDim / kPassDims * kPassDims;
const uint kWholeValueDims = kValueDim / kPassDims * kPassDims;

// An invocation's arrays are globals, as GLSL passes arrays by copying them.
uint query_index[kRows], grad_output_index[kRows], output_index[kRows];  // of the rows' first elements
uint grad_index[kRows], sum_index[kRows];
uint row_pairs[kRows];
ScoreRow score_rows[kRows];
int row_key_begin[kRows], row_key_end[kRows];  // a row sees keys begin .. end - 1
float row_lse[kRows], row_delta[kRows], row_slope[kRows];
float score[kKeys * kRows];    // by key: <q, k>, then its gradient
float product[kKeys * kRows];  // <dO, v>
uint kept_keys[kRows];         // a bit for each of the step's keys, at most 32: dropout keeps it

// Adds q . k over 4 dims.
void add_scores(ChunkTile tile, int first_key, uint keys, bool masked, uint dim, bool full) {
  vec4 query[kRows];
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    query[r] = full ? query_full4(query_index[r], dim) : query_part4(query_index[r], dim);
  }
  [[unroll]] for (uint k = 0; k < keys; ++k) {
    const uint index = key_row_of(tile.batch, tile.kv_head, first_key, k, masked);
    const vec4 key = full ? key_full4(index, dim) : key_part4(index, dim);
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      float sum = score[k * kRows + r];
      [[unroll]] for (uint d = 0; d < 4; ++d) sum += query[r][d] * key[d];
      score[k * kRows + r] = sum;
    }
  }
}

// Adds dO . v over 4 dims.
void add_products(ChunkTile tile, int first_key, uint keys, bool masked, uint dim, bool full) {
  vec4 grad[kRows];
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    grad[r] = full ? grad_output_full4(grad_output_index[r], dim) : grad_output_part4(grad_output_index[r], dim);
  }
  [[unroll]] for (uint k = 0; k < keys; ++k) {
    const uint index = value_row_of(tile.batch, tile.kv_head, first_key, k, masked);
    const vec4 value = full ? value_full4(index, dim) : value_part4(index, dim);
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      float sum = product[k * kRows + r];
      [[unroll]] for (uint d = 0; d < 4; ++d) sum += grad[r][d] * value[d];
      product[k * kRows + r] = sum;
    }
  }
}

// Adds the step's keys, times the gradients of their scores, to 4 dims (the first `dims` of them) of the rows' gradients.
// It skips hidden keys, rather than multiply them by 0, unless the last key stands for all of them.
void add_keys(ChunkTile tile, int first_key, uint keys, bool masked, uint dim, uint dims) {
  vec4 sum[kRows];
  [[unroll]] for (uint r = 0; r < kRows; ++r) sum[r] = load_grad_query_sums(grad_index[r], sum_index[r], dim, dims);
  [[unroll]] for (uint k = 0; k < keys; ++k) {
    const uint index = key_row_of(tile.batch, tile.kv_head, first_key, k, masked);
    const vec4 key = scaled_operand(dims == 4 ? key_full4(index, dim) : key_part4(index, dim));
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      const float gradient = score[k * kRows + r];
      [[unroll]] for (uint d = 0; d < dims; ++d) {
        const float term = gradient * key[d];
        sum[r][d] += masked && !kRowsAlike && gradient == 0.0 ? 0.0 : term;
      }
    }
  }
  uint bits = 0;
  [[unroll]] for (uint r = 0; r < kRows; ++r) bits |= bits_of(sum[r]);
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    store_grad_query_sums(grad_index[r], sum_index[r], dim, dims, with_bits(sum[r], bits, params.kv_length));
  }
}

// Turns the step's scores into their gradients, and leaves the pairs in the workspace.
void make_pairs(ChunkTile tile, int first_key, uint keys, bool masked) {
  const uint in_chunk = uint(first_key) - tile.chunk * params.split_keys;
  // A step begins at a multiple of its number of keys, so `neighbours` places follow each other.
  const uint neighbours = kPairTile == 0u ? keys : min(keys, kPairTile);
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    [[unroll]] for (uint k = 0; k < keys; ++k) {
      const int position = first_key + int(k);
      const uint pair_index = row_pairs[r] + pair_place(in_chunk + k - k % neighbours) + k % neighbours;
      const uint key = source_key(first_key, k, masked);
      PairGradient pair = pair_gradient(score[k * kRows + r] * params.scale_log2, product[k * kRows + r], row_lse[r],
                                        row_delta[r], score_rows[r], key, is_kept(kept_keys[r], k), masked);
      const bool hidden =
          masked && (position >= row_key_end[r] || (kHasKeyBegin && position < row_key_begin[r]));
      if (hidden) pair = PairGradient(0.0, 0.0, 0.0);
      score[k * kRows + r] = pair.gradient;
      store_pair(pair_index, vec2(pair.weight, pair.gradient));
      if (kKeepsScoreGradients) {
        store_score_gradient(pair_index, pair.score_gradient);
      }
      if (kHasGradSlopes) row_slope[r] += slope_gradient(pair.score_gradient, score_rows[r], key);
    }
  }
}

// One step over `keys` keys. `keys` and `masked` are constants once inlined.
void visit(ChunkTile tile, int first_key, uint keys, bool masked) {
  if (kFindsKeys) {
    [[unroll]] for (uint k = 0; k < keys; ++k) find_key(tile.batch, tile.kv_head, first_key, k, masked);
  }
  // This comes before there are scores: a CPU's compiler takes very long over a loop that scores live across.
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    kept_keys[r] = keys_that_are_kept(score_rows[r], uint(first_key), keys);
  }
  [[unroll]] for (uint i = 0; i < keys * kRows; ++i) score[i] = product[i] = 0.0;
  if (kHeadDim >= 4) {
    uint dim = 0;
    [[dont_unroll]] do {
      add_scores(tile, first_key, keys, masked, dim, true);
      dim += 4;
    } while (dim + 4 <= kHeadDim);
  }
  if (kHeadDim % 4 != 0) add_scores(tile, first_key, keys, masked, kHeadDim - kHeadDim % 4, false);
  if (kValueDim >= 4) {
    uint dim = 0;
    [[dont_unroll]] do {
      add_products(tile, first_key, keys, masked, dim, true);
      dim += 4;
    } while (dim + 4 <= kValueDim);
  }
  if (kValueDim % 4 != 0) add_products(tile, first_key, keys, masked, kValueDim - kValueDim % 4, false);

  make_pairs(tile, first_key, keys, masked);

  if (!kHasGradQuery) return;
  if (kHeadDim >= 4) {
    uint dim = 0;
    [[dont_unroll]] do {
      add_keys(tile, first_key, keys, masked, dim, 4);
      dim += 4;
    } while (dim + 4 <= kHeadDim);
  }
  if (kHeadDim % 4 != 0) add_keys(tile, first_key, keys, masked, kHeadDim - kHeadDim % 4, kHeadDim % 4);
}

uint stored_row(ChunkTile tile, uint packed) {
  return workspace_row(tile.batch, packed_head(tile.kv_head, packed), packed_query(packed));
}

// Adds <dO, O> over `dims` dims to D of each row.
void add_deltas(uint dim, uint dims) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    if (dims == 4) {
      const vec4 grad = grad_output_full4(grad_output_index[r], dim);
      const vec4 result = forward_output_full4(output_index[r], dim);
      [[unroll]] for (uint d = 0; d < 4; ++d) row_delta[r] += grad[d] * result[d];
    } else {
      [[unroll]] for (uint d = 0; d < dims; ++d) {
        row_delta[r] += grad_output_at(grad_output_index[r], dim + d) * forward_output_at(output_index[r], dim + d);
      }
    }
  }
}

// The last row stands for rows beyond it. It is this invocation's own, and all loads precede its stores.
uint packed_row_of(uint first_row, uint row) { return min(first_row + row, packed_row_count() - 1u); }

void compute_deltas(ChunkTile tile, uint first_row) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const uint packed = packed_row_of(first_row, r);
    output_index[r] = output_row(tile.batch, packed_head(tile.kv_head, packed), packed_query(packed));
    row_delta[r] = 0.0;
  }
  if (kWholeValueDims != 0) {
    [[dont_unroll]] for (uint dim = 0; dim < kWholeValueDims; dim += kPassDims) add_deltas(dim, kPassDims);
  }
  if (kWholeValueDims != kValueDim) add_deltas(kWholeValueDims, kValueDim - kWholeValueDims);
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const uint packed = packed_row_of(first_row, r);
    subtract_grad_lse(row_delta[r], tile.batch, packed_head(tile.kv_head, packed), packed_query(packed));
  }
}

void clear_sums(uint dim, uint dims) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    store_grad_query_sums(grad_index[r], sum_index[r], dim, dims, vec4(0.0));
  }
}

void begin_rows(ChunkTile tile, uint first_row, int kv_length) {
  const bool has_deltas = kKeepsDeltas && tile.chunk != 0u;
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const uint packed = packed_row_of(first_row, r);
    const uint head = packed_head(tile.kv_head, packed);
    const uint query = packed_query(packed);
    query_index[r] = query_row(tile.batch, head, query);
    grad_output_index[r] = grad_output_row(tile.batch, head, query);
    grad_index[r] = grad_query_row(tile.batch, head, query);
    sum_index[r] = backward.query_sums + stored_row(tile, packed) * kHeadDim;
    row_pairs[r] = pair_row(tile.batch, head, query);
    score_rows[r] = score_row(tile.batch, head, query);
    row_key_begin[r] = visible_key_begin(int(query), kv_length);
    row_key_end[r] = visible_key_end(int(query), kv_length);
    row_lse[r] = kLog2E * uintBitsToFloat(lse_words[lse_index(tile.batch, head, query)]);
    row_slope[r] = 0.0;
    if (kHasGradSlopes && tile.chunk != 0u) row_slope[r] = sums[backward.slope_sums + stored_row(tile, packed)];
    if (has_deltas) row_delta[r] = sums[backward.delta_sums + stored_row(tile, packed)];
  }
  if (!has_deltas) compute_deltas(tile, first_row);
  if (!kHasGradQuery || tile.chunk != 0u) return;
  if (kWholeHeadDims != 0) {
    [[dont_unroll]] for (uint dim = 0; dim < kWholeHeadDims; dim += kPassDims) clear_sums(dim, kPassDims);
  }
  if (kWholeHeadDims != kHeadDim) clear_sums(kWholeHeadDims, kHeadDim - kWholeHeadDims);
}

// Stores the numbers of rows that later chunks and passes read.
void keep_rows(ChunkTile tile, uint first_row) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const uint packed = first_row + r;
    if (packed >= packed_row_count()) continue;
    if (kHasGradSlopes) sums[backward.slope_sums + stored_row(tile, packed)] = row_slope[r];
    if (kWritesDeltas) sums[backward.delta_sums + stored_row(tile, packed)] = row_delta[r];
  }
}

void scale_sums(uint dim, uint dims) {
  vec4 result[kRows];
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    result[r] = load_grad_query_sums(grad_index[r], sum_index[r], dim, dims) * backward.sum_scale;
  }
  [[unroll]] for (uint r = 0; r < kRows; ++r) store_grad_query_dims(grad_index[r], dim, dims, result[r]);
}

void store_rows() {
  if (kWholeHeadDims != 0) {
    [[dont_unroll]] for (uint dim = 0; dim < kWholeHeadDims; dim += kPassDims) scale_sums(dim, kPassDims);
  }
  if (kWholeHeadDims != kHeadDim) scale_sums(kWholeHeadDims, kHeadDim - kWholeHeadDims);
}

// Rows behind a batch entry's last row get gradients of 0. If rows are packed, they belong to other entries.
void clear_rows(ChunkTile tile, uint first_row) {
  if (kPackedQueries || !kHasGradQuery) return;
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const uint packed = first_row + r;
    if (packed < packed_row_count() || packed >= most_packed_rows()) continue;
    const uint index = grad_query_row(tile.batch, packed_head(tile.kv_head, packed), packed_query(packed));
    [[dont_unroll]] for (uint dim = 0; dim < kHeadDim; ++dim) store_grad_query(index, dim, 0.0);
  }
}

void visit_keys(ChunkTile tile, KeyRange keys) {
  int full_begin = keys.full_begin;
  // Full steps begin at multiples of kKeys, so that the pairs of a step follow each other.
  if (kPairTile != 0u && kHasKeyBegin) {
    full_begin = (first_full_step(keys, int(kMaskedKeys)) + int(kKeys) - 1) / int(kKeys) * int(kKeys);
  }
  const StepRange steps = step_range(keys.begin, keys.end, kHasFullSteps ? full_begin : keys.begin,
                                     kHasFullSteps ? keys.full_end : keys.begin, int(kMaskedKeys), int(kKeys));
  int full = steps.full_begin;
  if (kHasFullSteps && full < steps.full_end) {  // loops are tested at their end, see lib/key_walk.glsl
    [[dont_unroll]] do {
      visit(tile, full, kKeys, false);
      full += int(kKeys);
    } while (full < steps.full_end);
  }
  int key = first_masked(steps);
  if (key < steps.end) {
    [[dont_unroll]] do {
      visit(tile, key, kMaskedKeys, true);
      key = next_masked(steps, key, int(kMaskedKeys));
    } while (key < steps.end);
  }
}

void main() {
  const uint tile_rows = kWorkgroupSize * kRows;
  const ChunkTile tile = chunk_tile(most_packed_rows(), tile_rows);
  if (!tile.valid) return;
  const uint first_row = tile.first + gl_LocalInvocationIndex * kRows;
  const bool last = tile.chunk + 1u == params.kv_splits;
  if (last) clear_rows(tile, first_row);
  if (first_row >= packed_row_count()) return;
  const int kv_length = visible_kv_length(tile.batch);
  // The keys are the same for the whole workgroup.
  const KeyRange keys = keys_of_rows(tile.first, tile_rows, kv_length, int(tile.chunk * params.split_keys),
                                     int(kMaskedKeys));
  begin_rows(tile, first_row, kv_length);
  visit_keys(tile, keys);
  keep_rows(tile, first_row);
  if (last && kHasGradQuery) store_rows();
}
