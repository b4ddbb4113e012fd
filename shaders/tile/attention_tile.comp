// Attention tiled through shared memory, for GPUs without matrix units: a workgroup computes a block of query rows. It
// stages blocks of keys and values, so that it reads each from memory once.
//
//   kThreads threads are a grid of kColumns columns. Thread (r, c) owns kRows rows, and of these
//
//                      kBlockKeys = kColumns * kKeys keys             chunks of kValueChunk = 4 * kColumns dims
//                    +------------------------------+               +-------------------------------------+
//   rows of thread r | scores of key c of every     |  x V of the   | sums of dims 4 c .. 4 c + 3 of each |
//   (kRows of them)  | kColumns keys: kKeys of them |  block  =     | of kValueChunks chunks              |
//                    +------------------------------+               +-------------------------------------+
//
// Budget. Example: 256 threads, 8 columns, 4 rows x 4 keys, kDimChunk = 32; 64 dims of e = 4 bytes in Q, K and V.
//   registers      4 * kRows * kValueChunks sums + kRows * kKeys scores + 4 * max(kKeys + 1, kQueryFetches +
//                  kKeyFetches) operands + 4 * kRows of the rows' state = 32 + 16 + 20 + 16
//   shared memory  16 * (VKATTN_TILE_ROW_STAGE4 + VKATTN_TILE_KV_STAGE4) bytes = 16 * (128 * 9 + 32 * 9) = 23,040, and
//                  one element of the unused stage; without subgroups, 4 * VKATTN_TILE_REDUCE_STAGE = 4 * 128 * 9 more
//                  to reduce rows
//   memory         each multiply-add reads e / kBlockRows bytes of K and V, and e / (2 * kBlockKeys) of Q, which every
//                  block of keys fetches again = 1/32 + 1/16
//   stages         each multiply-add of Q K^T reads 4 / kRows + 4 / kKeys bytes = 2, of P V 1 + 4 / kRows = 2. Packed
//                  keys and values halve their part (4 / kRows). float16 arithmetic halves all of it, and the row stage
//
// Lost by compilers (docs/trials/gpu_compilers.md): 8 rows of a thread on GCN, 244 to 256 registers; 16 columns at 64 dims, one
// wave in place of two; rows reduced through shared memory, 8 to 57 % more waits on AMD.
//
// The _float16 forms (VKATTN_FLOAT16_ARITHMETIC) multiply in pairs of float16. A few products are summed in float16, and
// that sum is added to a sum of float32. Everything between the two products is float32.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/dropout.glsl"
#include "lib/grid.glsl"
#include "lib/key_walk.glsl"
#include "lib/online_softmax.glsl"
#include "lib/partials.glsl"
#include "lib/scores.glsl"
#include "lib/shares.glsl"
#include "lib/softmax_start.glsl"
#include "lib/tensors.glsl"
#include "lib/unrolled.glsl"
#include "shared/shared_memory.h"
#include "tile/elements.glsl"
#include "tile/rows.glsl"

layout(constant_id = VKATTN_SPEC_TILE_KEYS) const uint kKeys = 2;
layout(constant_id = VKATTN_SPEC_TILE_DIM_CHUNK) const uint kDimChunk = 32;
// K and V stay float16 until they are multiplied; in float16 arithmetic, so does Q. Rows are whole quads, and start at
// multiples of 4 elements.
layout(constant_id = VKATTN_SPEC_TILE_PACKED) const bool kPacked = false;

const uint kBlockKeys = kColumns * kKeys;
const uint kValueChunk = kColumns * 4;                               // dims of the output staged at a time
const uint kValueChunks = (kValueDim + kValueChunk - 1) / kValueChunk;
// Strides of rows in shared memory.
const uint kDimStride4 = kDimChunk / 4 + 1;
const uint kValueStride4 = kColumns + 1;
const uint kRowStride4 = VKATTN_TILE_ROW_STRIDE4(kDimChunk, kBlockKeys);
const uint kDimQuads = kDimChunk / 4;
// A float16 sum of the output is over so many keys; a float16 sum of scores is over half of a chunk's dims.
const uint kSumKeys = VKATTN_SMALLER(VKATTN_TILE_SUM_KEYS, kBlockKeys);
const uint kQueryQuads = kBlockRows * kDimQuads;  // quads that a stage holds
const uint kKeyQuads = kBlockKeys * kDimQuads;
const uint kValueQuads = kBlockKeys * kColumns;
const uint kQueryFetches = (kQueryQuads + kThreads - 1) / kThreads;  // quads that a thread moves
const uint kKeyFetches = (kKeyQuads + kThreads - 1) / kThreads;
const uint kValueFetches = (kValueQuads + kThreads - 1) / kThreads;

// Queries, then probabilities; each row keeps its own part. The elements are scalars, as neighbouring probabilities belong
// to several threads.
shared Element row_stage[VKATTN_TILE_ROW_STAGE4(kBlockRows, kDimChunk, kBlockKeys) * 4];
// One of the two stages is used. It holds keys, then values.
const bool kPackedStage = kPacked || kFloat16Arithmetic;
const uint kStageQuads = VKATTN_TILE_KV_STAGE4(kBlockKeys, kDimChunk, kColumns);
shared vec4 float_stage[VKATTN_TILE_FLOAT_STAGE4(kStageQuads, kPackedStage)];
shared uvec2 packed_stage[VKATTN_TILE_PACKED_STAGE2(kStageQuads, kPackedStage)];

// The place of a thread's work.
struct Place {
  TilePosition tile;
  uint column;     // 0 .. kColumns - 1
  uint block_row;  // the first of its rows in the block
};

// A thread's arrays are globals, as GLSL passes arrays by copying them.
vec4 accumulator[kRows * kValueChunks];
float scores[kRows * kKeys];
vec4 fetched_queries[kQueryFetches];
vec4 fetched_keys[kKeyFetches];
vec4 fetched_values[kValueFetches];
uvec2 packed_queries[kQueryFetches];
uvec2 packed_keys[kKeyFetches];
uvec2 packed_values[kValueFetches];
uint query_source[kQueryFetches];  // rows in memory
float row_maximum[kRows];
float row_sum[kRows];  // over this thread's keys only, until store_rows()

ScoreRow score_rows[kRows];
int row_key_begin[kRows], row_key_end[kRows];  // a row sees keys begin .. end - 1

Quad staged_quad(uint row, uint quad) {
  const uint i = (row * kRowStride4 + quad) * 4u;
  return Quad(row_stage[i], row_stage[i + 1u], row_stage[i + 2u], row_stage[i + 3u]);
}

void stage_quad(uint row, uint quad, Quad elements) {
  const uint i = (row * kRowStride4 + quad) * 4u;
  [[unroll]] for (uint d = 0; d < 4; ++d) row_stage[i + d] = elements[d];
}

// Stages a quad that was fetched as elements or as bits.
void stage_kv(uint index, vec4 elements, uvec2 bits) {
  if (kPacked) {
    packed_stage[index] = bits;
  } else if (kPackedStage) {
    packed_stage[index] = packed_quad(elements);
  } else {
    float_stage[index] = elements;
  }
}

Quad staged_kv(uint index) { return kPackedStage ? unpacked_quad(packed_stage[index]) : Quad(float_stage[index]); }

// The last key stands for keys behind it: a masked block leaves them out.
uint existing_key(int key, int key_end) { return uint(min(key, key_end - 1)); }

// `dim`, or the row's last four elements where `dim` is behind the row: with a branch around the load compilers would wait
// for each load. The row has `dims` elements in whole quads.
uint existing_dim(uint dim, uint dims, uint chunk) { return dims % chunk == 0 ? dim : min(dim, dims - 4u); }
bool is_existing_dim(uint dim, uint dims, uint chunk) { return dims % chunk == 0 || dim < dims; }

vec4 query_quad(uint source, uint dim) {
  if (kHeadDim % 4 != 0) return query_at4(source, dim);
  const vec4 quad = query_full4(source, existing_dim(dim, kHeadDim, kDimChunk));
  return is_existing_dim(dim, kHeadDim, kDimChunk) ? quad : vec4(0.0);
}

vec4 key_quad(uint source, uint dim) {
  if (kHeadDim % 4 != 0) return key_at4(source, dim);
  const vec4 quad = key_full4(source, existing_dim(dim, kHeadDim, kDimChunk));
  return is_existing_dim(dim, kHeadDim, kDimChunk) ? quad : vec4(0.0);
}

uvec2 packed_query_quad(uint source, uint dim) {
  const uvec2 quad = VKATTN_LOAD2(query, (source + existing_dim(dim, kHeadDim, kDimChunk)) >> 2);
  return is_existing_dim(dim, kHeadDim, kDimChunk) ? quad : uvec2(0u);
}

uvec2 packed_key_quad(uint source, uint dim) {
  const uvec2 quad = VKATTN_LOAD2(key, (source + existing_dim(dim, kHeadDim, kDimChunk)) >> 2);
  return is_existing_dim(dim, kHeadDim, kDimChunk) ? quad : uvec2(0u);
}

// All of a thread's quads are fetched before the first is written, so that their latencies overlap.
void fetch_queries_and_keys(Place place, int first_key, int key_end, uint dim) {
  [[unroll]] for (uint n = 0; n < kQueryFetches; ++n) {
    const uint at = dim + unit_of_share(n, kQueryQuads, kThreads) % kDimQuads * 4u;
    if (kPacked && kFloat16Arithmetic) {
      packed_queries[n] = packed_query_quad(query_source[n], at);
    } else {
      fetched_queries[n] = query_quad(query_source[n], at);
    }
  }
  [[unroll]] for (uint n = 0; n < kKeyFetches; ++n) {
    const uint i = unit_of_share(n, kKeyQuads, kThreads);
    const uint key = existing_key(first_key + int(i / kDimQuads), key_end);
    const uint source = key_row(place.tile.batch, place.tile.kv_head, key);
    const uint at = dim + i % kDimQuads * 4u;
    if (kPacked) {
      packed_keys[n] = packed_key_quad(source, at);
    } else {
      fetched_keys[n] = key_quad(source, at);
    }
  }
}

void stage_queries_and_keys() {
  [[unroll]] for (uint n = 0; n < kQueryFetches; ++n) {
    const uint i = unit_of_share(n, kQueryQuads, kThreads);
    const Quad elements =
        kPacked && kFloat16Arithmetic ? unpacked_quad(packed_queries[n]) : Quad(fetched_queries[n]);
    if (is_own_unit(n, kQueryQuads, kThreads)) stage_quad(i / kDimQuads, i % kDimQuads, elements * query_scale());
  }
  [[unroll]] for (uint n = 0; n < kKeyFetches; ++n) {
    const uint i = unit_of_share(n, kKeyQuads, kThreads);
    if (is_own_unit(n, kKeyQuads, kThreads)) {
      stage_kv(i / kDimQuads * kDimStride4 + i % kDimQuads, fetched_keys[n], packed_keys[n]);
    }
  }
}

// Fetches values. Dims behind the last are not stored in the output.
void fetch_values(Place place, int first_key, int key_end, uint dim) {
  [[unroll]] for (uint n = 0; n < kValueFetches; ++n) {
    const uint i = unit_of_share(n, kValueQuads, kThreads);
    const uint key = existing_key(first_key + int(i / kColumns), key_end);
    const uint source = value_row(place.tile.batch, place.tile.kv_head, key);
    const uint at = dim + i % kColumns * 4u;
    const uint existing = existing_dim(at, kValueDim, kValueChunk);
    if (kPacked) {
      packed_values[n] = VKATTN_LOAD2(value, (source + existing) >> 2);
    } else {
      fetched_values[n] = kValueDim % 4 == 0 ? value_full4(source, existing) : value_at4(source, at);
    }
  }
}

void stage_values() {
  [[unroll]] for (uint n = 0; n < kValueFetches; ++n) {
    const uint i = unit_of_share(n, kValueQuads, kThreads);
    if (is_own_unit(n, kValueQuads, kThreads)) {
      stage_kv(i / kColumns * kValueStride4 + i % kColumns, fetched_values[n], packed_values[n]);
    }
  }
}

#if VKATTN_FLOAT16_ARITHMETIC
// scores += Q K^T for the staged dims, in float16: one sum over even dims, one over odd dims.
void add_products(Place place) {
  f16vec2 sums[kRows * kKeys];
  [[unroll]] for (uint i = 0; i < kRows * kKeys; ++i) sums[i] = f16vec2(0.0);
  [[dont_unroll]] for (uint dim4 = 0; dim4 < kDimQuads; ++dim4) {
    Quad keys[kKeys];
    [[unroll]] for (uint k = 0; k < kKeys; ++k) keys[k] = staged_kv((place.column + k * kColumns) * kDimStride4 + dim4);
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      const Quad query = staged_quad(place.block_row + r, dim4);
      [[unroll]] for (uint k = 0; k < kKeys; ++k) {
        sums[r * kKeys + k] += query.xy * keys[k].xy;
        sums[r * kKeys + k] += query.zw * keys[k].zw;
      }
    }
  }
  [[unroll]] for (uint i = 0; i < kRows * kKeys; ++i) scores[i] += float(sums[i].x) + float(sums[i].y);
}
#else
// scores += Q K^T for the staged dims.
void add_products(Place place) {
  [[dont_unroll]] for (uint dim4 = 0; dim4 < kDimQuads; ++dim4) {
    vec4 keys[kKeys];
    [[unroll]] for (uint k = 0; k < kKeys; ++k) keys[k] = staged_kv((place.column + k * kColumns) * kDimStride4 + dim4);
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      const vec4 query = staged_quad(place.block_row + r, dim4);
      // Four multiply-adds. dot() would take a multiplication, three multiply-adds and an addition.
      [[unroll]] for (uint k = 0; k < kKeys; ++k) {
        [[unroll]] for (uint d = 0; d < 4; ++d) scores[r * kKeys + k] += query[d] * keys[k][d];
      }
    }
  }
}
#endif

// scores = Q K^T for the block, in log2 units.
void compute_scores(Place place, int first_key, int key_end, bool masked) {
  [[unroll]] for (uint i = 0; i < kRows * kKeys; ++i) scores[i] = 0.0;
  for (uint dim = 0; dim < kHeadDim; dim += kDimChunk) {
    fetch_queries_and_keys(place, first_key, key_end, dim);
    barrier();  // the previous chunk still reads the stages, or the previous block its values
    stage_queries_and_keys();
    barrier();  // the stages are complete
    add_products(place);
  }
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    [[unroll]] for (uint k = 0; k < kKeys; ++k) {
      const uint key = existing_key(first_key + int(place.column + k * kColumns), key_end);
      scores[r * kKeys + k] = finish_score(scores[r * kKeys + k] * score_scale(), score_rows[r], key, masked);
    }
  }
}

// True if the row's position and its score let it see the k-th of this thread's keys.
bool is_visible(Place place, uint r, uint k, int first_key) {
  const int key = first_key + int(place.column + k * kColumns);
  return key < row_key_end[r] && (!kHasKeyBegin || key >= row_key_begin[r]) &&
         (!kScoresHide || scores[r * kKeys + k] != kHiddenScore);
}

// Raises each row's maximum, rescales its sums, and writes probabilities to shared memory.
void update_softmax(Place place, int first_key, bool masked) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    float maximum = kHiddenScore;
    [[unroll]] for (uint k = 0; k < kKeys; ++k) {
      if (!masked || is_visible(place, r, k, first_key)) {
        maximum = max(maximum, scores[r * kKeys + k]);
      }
    }
    row_value[r] = maximum;
  }
  maximum_of_columns(place.block_row, place.column);
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const float maximum = max(row_maximum[r], row_value[r]);
    const float rescale = rescale_factor(row_maximum[r], maximum);
    row_maximum[r] = maximum;
    row_sum[r] *= rescale;
    [[unroll]] for (uint n = 0; n < kValueChunks; ++n) accumulator[r * kValueChunks + n] *= rescale;
    [[unroll]] for (uint k = 0; k < kKeys; ++k) {
      const uint key = place.column + k * kColumns;
      float probability = kHiddenProbability;
      if (!masked || is_visible(place, r, k, first_key)) {
        probability = exp2(scores[r * kKeys + k] - maximum);
        row_sum[r] += probability;
        probability = kept_probability(probability, score_rows[r], uint(first_key) + key);
      }
      row_stage[(place.block_row + r) * kRowStride4 * 4u + key] = Element(probability);
    }
  }
}

// accumulator += P V for one chunk of dims. A masked block skips hidden V rows: 0 times NaN would be NaN.
#if VKATTN_FLOAT16_ARITHMETIC
void accumulate_values(Place place, uint n, bool masked) {
  [[dont_unroll]] for (uint key = 0; key < kBlockKeys; key += kSumKeys) {
    Quad values[kSumKeys];
    [[unroll]] for (uint k = 0; k < kSumKeys; ++k) values[k] = staged_kv((key + k) * kValueStride4 + place.column);
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      Quad sum = Quad(0.0);
      [[unroll]] for (uint key4 = 0; key4 < kSumKeys; key4 += 4) {
        const Quad probability = staged_quad(place.block_row + r, (key + key4) / 4);
        [[unroll]] for (uint k = 0; k < 4; ++k) {
          if (!masked || !(probability[k] < float16_t(0.0))) sum += probability[k] * values[key4 + k];
        }
      }
      accumulator[r * kValueChunks + n] += vec4(sum);
    }
  }
}
#else
void accumulate_values(Place place, uint n, bool masked) {
  [[dont_unroll]] for (uint key4 = 0; key4 < kBlockKeys / 4; ++key4) {
    vec4 values[4];
    [[unroll]] for (uint k = 0; k < 4; ++k) values[k] = staged_kv((key4 * 4 + k) * kValueStride4 + place.column);
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      const vec4 probability = staged_quad(place.block_row + r, key4);
      vec4 sum = accumulator[r * kValueChunks + n];
      [[unroll]] for (uint k = 0; k < 4; ++k) {
        if (!masked || !(probability[k] < 0.0)) sum += probability[k] * values[k];
      }
      accumulator[r * kValueChunks + n] = sum;
    }
  }
}
#endif

// Adds P V for chunk n of the output's dims.
void process_values(Place place, uint n, int first_key, int key_end, bool masked) {
  barrier();  // compute_scores() or the previous chunk still reads the stage; probabilities are complete
  stage_values();
  barrier();  // the stage is complete
  if (n + 1u < kValueChunks) fetch_values(place, first_key, key_end, (n + 1u) * kValueChunk);
  // The branch on `masked` is outside of the loop over keys.
  if (looks_for_hidden(masked)) {
    accumulate_values(place, n, true);
  } else {
    accumulate_values(place, n, false);
  }
}

void process_block(Place place, int first_key, int key_end, bool masked) {
  compute_scores(place, first_key, key_end, masked);
  fetch_values(place, first_key, key_end, 0u);
  update_softmax(place, first_key, looks_for_hidden(masked));
#define VKATTN_PROCESS_VALUES(N) process_values(place, N, first_key, key_end, masked)
  VKATTN_STEPS(kValueChunks, VKATTN_PROCESS_VALUES)
}

void store_rows(Place place) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) row_value[r] = row_sum[r];
  sum_of_columns(place.block_row, place.column);
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const float sum = row_value[r];
    const uint packed = place.tile.first_row + place.block_row + r;
    if (packed >= packed_row_count()) continue;
    const float inverse = sum == 0.0 ? 0.0 : drop_scale() / sum;
    const uint head = packed_head(place.tile.kv_head, packed);
    const uint query = packed_query(packed);
    const uint target = result_row(place.tile.batch, head, query, place.tile.split);
    [[unroll]] for (uint n = 0; n < kValueChunks; ++n) {
      [[unroll]] for (uint d = 0; d < 4; ++d) {
        const uint dim = n * kValueChunk + place.column * 4 + d;
        if (dim < kValueDim) store_result(target, dim, accumulator[r * kValueChunks + n][d] * inverse);
      }
    }
    if (place.column == 0) store_result_lse(target, place.tile.batch, head, query, row_maximum[r], sum);
  }
}

void main() {
  Place place;
  place.tile = tile_position(kBlockRows);
  if (!place.tile.valid) return;  // uniform over the workgroup, so no barrier is missed
  place.column = grid_index() % kColumns;
  place.block_row = grid_index() / kColumns * kRows;
  [[unroll]] for (uint n = 0; n < kQueryFetches; ++n) {
    // The last row stands for rows behind it; they are not stored.
    const uint row = place.tile.first_row + unit_of_share(n, kQueryQuads, kThreads) / kDimQuads;
    const uint packed = min(row, packed_row_count() - 1u);
    query_source[n] = query_row(place.tile.batch, packed_head(place.tile.kv_head, packed), packed_query(packed));
  }
  const int kv_length = visible_kv_length(place.tile.batch);
  const KeyWalk walk = walk_keys(place.tile, kBlockRows, kv_length, int(kBlockKeys), int(kBlockKeys));
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const uint packed = min(place.tile.first_row + place.block_row + r, packed_row_count() - 1u);
    const uint query = packed_query(packed);
    const uint head = packed_head(place.tile.kv_head, packed);
    score_rows[r] = score_row(place.tile.batch, head, query);
    row_key_begin[r] = visible_key_begin(int(query), kv_length);
    row_key_end[r] = min(visible_key_end(int(query), kv_length), walk.keys.part_end);
    row_maximum[r] = start_score(head, place.tile.split);
    row_sum[r] = place.column == 0u ? start_weight(head, place.tile.split) : 0.0;
  }
  [[unroll]] for (uint i = 0; i < kRows * kValueChunks; ++i) accumulator[i] = vec4(0.0);

  int first_key = first_step(walk);
  if (first_key < walk.keys.end) {
    while (first_key < walk.keys.end) {  // tested at both ends, see lib/key_walk.glsl
      process_block(place, first_key, walk.keys.end, is_masked(walk, first_key));
      first_key = next_step(walk, first_key);
      if (first_key >= walk.keys.end) break;
    }
  }
  store_rows(place);
}
