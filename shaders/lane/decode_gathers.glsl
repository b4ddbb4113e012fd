// The two products of lane_decode by gathers: a lane owns keys while scores are computed, then dims of V.
//
// Budget. Example: 8 lanes, 4 rows, 8 keys a lane; 128 dims of e = 4 bytes in Q, K and V.
//   registers      kRows * kLaneKeys scores + 4 * kRows of Q + 4 of K, or 4 * kRows sums + 4 of V + kRows weights = 32 + 20
//   shared memory  4 bytes for each word of VKATTN_LANE_DECODE_*_STAGE: queries, sums, weights and rows of keys = 5,664
//                  bytes, or 5,156 where no key is looked up
//   memory         each multiply-add reads e / kRows bytes of K and V = 1
//   stages         4 / (kThreads * kLaneKeys) bytes of Q and 4 / (4 * kThreads) of weights for each multiply-add; each step
//                  reads and writes the sums
//
// Queries and weights are read at one address for all lanes, which is a scalar load and a broadcast. K and V are gathers of
// 8 bytes a lane.
//
// Measured on lavapipe (Mesa 26.1), docs/trials/lavapipe.md:
// - The lanes' keys are 64 streams of memory, which no prefetcher follows. So each step first reads one word of each cache
//   line of its keys, line after line, and later of its values (kTouches).
// - 8 keys a lane are faster than 4 or 2, and 8 keys a pass over values than 4. 8 dims a pass over keys, or loads of 16
//   bytes, gain nothing.
#ifndef VKATTN_LANE_DECODE_GATHERS
#define VKATTN_LANE_DECODE_GATHERS

#include "lane/decode_rows.glsl"
#include "shared/shared_memory.h"

layout(constant_id = VKATTN_SPEC_LANE_DECODE_TOUCHES) const bool kTouches = false;

const uint kValueQuads = (kValueDim + 3) / 4;
const uint kValuePasses = (kValueQuads + kThreads - 1) / kThreads;

// Quads of dims of a pass over keys: those of quantised K share a load of a block's scale.
const uint kDimQuads = kKeyType < VKATTN_TYPE_Q8_0 ? 1 : kKeyDimStride != 1 ? 1 : kHeadDim % 16 != 0 ? 1 : 4;
const bool kQuantisedKeys = kDimQuads != 1;

shared float query_stage[VKATTN_LANE_DECODE_QUERY_STAGE(kRows, kHeadDim)];  // kRows numbers for each dim
shared float sum_stage[VKATTN_LANE_DECODE_SUM_STAGE(kRows, kValueDim, kThreads)];
// The probabilities of a step, kRows for each key, kHiddenProbability of hidden ones. Behind them lie the words that lanes
// touched: nobody reads these, but a compiler must keep what is stored.
shared float weight_stage[VKATTN_LANE_DECODE_WEIGHT_STAGE(kRows, kLaneKeys, kThreads)];
// Rows of the step's keys in K, then in V, where these need a look-up: it is done once a step.
shared uint row_stage[kLooksUpKeys ? VKATTN_LANE_DECODE_ROW_STAGE(kLaneKeys, kThreads) : 1];

uint key_index[kLaneKeys];  // rows of the lane's own keys in K

// The row in K or V of a step's key.
uint key_row_of(TilePosition tile, int first_key, uint key, int key_end) {
  if (kLooksUpKeys) return row_stage[key];
  return key_row(tile.batch, tile.kv_head, source_key(first_key + int(key), key_end));
}

uint value_row_of(TilePosition tile, int first_key, uint key, int key_end) {
  if (kLooksUpKeys) return row_stage[kStepKeys + key];
  return value_row(tile.batch, tile.kv_head, source_key(first_key + int(key), key_end));
}

// Finds the rows of the lane's own keys.
void find_keys(TilePosition tile, int first_key, int key_end) {
  if (kLooksUpKeys) stage_barrier();  // the last step's rows were read
  [[unroll]] for (uint u = 0; u < kLaneKeys; ++u) {
    const uvec2 slot = key_slot(tile.batch, source_key(lane_key(first_key, u), key_end));
    key_index[u] = key_row_at(slot, tile.kv_head);
    if (kLooksUpKeys) {
      row_stage[u * kThreads + lane()] = key_index[u];
      row_stage[kStepKeys + u * kThreads + lane()] = value_row_at(slot, tile.kv_head);
    }
  }
  if (kLooksUpKeys) stage_barrier();  // the rows are complete
}

// Reads the cache line that holds a row's element `dim`, a multiple of 16.
#define VKATTN_LINE_OF(NAME, TYPE, DIMS, VECTOR_LOADS)                                             \
  uint NAME##_line(uint row_index, uint dim) {                                                     \
    if (VECTOR_LOADS) {                                                                            \
      if (TYPE == VKATTN_TYPE_FLOAT32) return NAME##_words[row_index + dim];                       \
      if (TYPE < VKATTN_TYPE_Q8_0 && DIMS % 2u == 0u) return NAME##_words[(row_index + dim) / 2u]; \
    }                                                                                              \
    return floatBitsToUint(NAME##_at(row_index, dim));                                             \
  }
VKATTN_LINE_OF(key, kKeyType, kHeadDim, kKeyVectorLoads)
VKATTN_LINE_OF(value, kValueType, kValueDim, kValueVectorLoads)

// Elements of a row in 64 bytes, or a few less.
uint line_elements(uint type) {
  if (type == VKATTN_TYPE_FLOAT32) return 16;
  return type == VKATTN_TYPE_Q4_0 || type == VKATTN_TYPE_FLOAT8_E4M3 ? 64 : 32;
}

// Brings the step's rows of K (or V) into the caches in the order in which they lie in memory.
void touch(TilePosition tile, int first_key, int key_end, bool of_values) {
  const uint elements = line_elements(of_values ? kValueType : kKeyType);
  const uint lines = ((of_values ? kValueDim : kHeadDim) + elements - 1) / elements;  // of a row
  uint bits = 0, n = 0;
  [[dont_unroll]] do {
    [[unroll]] for (uint i = 0; i < kLaneKeys; ++i) {
      const uint line = (n + i) * kThreads + lane();
      const uint dim = line % lines * elements;
      bits |= of_values ? value_line(value_row_of(tile, first_key, line / lines, key_end), dim)
                        : key_line(key_row_of(tile, first_key, line / lines, key_end), dim);
    }
    n += kLaneKeys;
  } while (n < kLaneKeys * lines);
  weight_stage[kStepKeys * kRows + lane()] = uintBitsToFloat(bits);
}

// Adds q . k over kDimQuads quads of dims to the scores of the lane's keys. Quantised keys have one scale there. The products of
// a quad are added apart: with many equal dims, one sum of all would round in one direction.
void add_scores(uint dim, bool full) {
  float query[kDimQuads * 4 * kRows];
  [[unroll]] for (uint i = 0; i < kDimQuads * 4 * kRows; ++i) query[i] = query_stage[dim * kRows + i];
  [[unroll]] for (uint u = 0; u < kLaneKeys; ++u) {
    float product[kRows];
    [[unroll]] for (uint r = 0; r < kRows; ++r) product[r] = 0.0;
    [[unroll]] for (uint q = 0; q < kDimQuads; ++q) {
      vec4 key;
      if (kQuantisedKeys) {
        key = key_unscaled4(key_index[u], dim + 4 * q);
      } else {
        key = full ? key_full4(key_index[u], dim) : key_part4(key_index[u], dim);
      }
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        [[unroll]] for (uint d = 0; d < 4; ++d) product[r] += query[(q * 4 + d) * kRows + r] * key[d];
      }
    }
    const float scale = kQuantisedKeys ? key_scale_of(key_index[u], dim) : 1.0;
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      scores[u * kRows + r] += kQuantisedKeys ? product[r] * scale : product[r];
    }
  }
}

// scores = q k, in log2 units.
void compute_scores(TilePosition tile, int first_key, int key_end, bool masked) {
  if (kTouches) touch(tile, first_key, key_end, false);
  [[unroll]] for (uint i = 0; i < kLaneKeys * kRows; ++i) scores[i] = 0.0;
  if (kHeadDim >= 4) {
    uint dim = 0;
    [[dont_unroll]] do {
      add_scores(dim, true);
      dim += 4 * kDimQuads;
    } while (dim + 4 <= kHeadDim);
  }
  if (kHeadDim % 4 != 0) add_scores(kHeadDim - kHeadDim % 4, false);
}

// Hands the step's probabilities to all lanes. Each lane has its own keys in the stage, also where dropout takes them out.
void stage_weights(int first_key) {
  stage_barrier();  // the last step's weights were read
  [[unroll]] for (uint i = 0; i < kLaneKeys * kRows; ++i) {
    weight_stage[(i / kRows * kThreads + lane()) * kRows + i % kRows] = scores[i];
  }
  if (kHasDropout) {
    uint u = 0;
    [[dont_unroll]] do {
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        const uint place = (u * kThreads + lane()) * kRows + r;
        weight_stage[place] = kept_weight(weight_stage[place], r, lane_key(first_key, u));
      }
      u += 1;
    } while (u < kLaneKeys);
  }
  stage_barrier();  // the weights are complete
}

// The place of the lane's sum of a row, in its quad `quad` of dims.
uint sum_place(uint pass, uint r, uint d) { return ((pass * kRows + r) * 4 + d) * kThreads + lane(); }

// sums += p v, over 4 * kThreads dims at a time. Hidden V rows are skipped, not multiplied by 0.
void add_values(TilePosition tile, int first_key, int key_end, bool masked) {
  if (kTouches) touch(tile, first_key, key_end, true);
  const uint keys = masked ? min(kStepKeys, uint(key_end - first_key)) : kStepKeys;
  uint pass = 0;
  [[dont_unroll]] do {
    // A lane without dims repeats the last ones; its sums are not stored.
    const uint dim = 4 * min(pass * kThreads + lane(), kValueQuads - 1);
    vec4 sum[kRows];
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      [[unroll]] for (uint d = 0; d < 4; ++d) sum[r][d] = sum_stage[sum_place(pass, r, d)] * row_rescale[r];
    }
    uint key = 0;
    [[dont_unroll]] do {
      [[unroll]] for (uint i = 0; i < kValueKeys; ++i) {
        const uint index = value_row_of(tile, first_key, key + i, key_end);
        const vec4 value = kValueDim % 4 == 0 ? value_full4(index, dim) : value_at4(index, dim);
        [[unroll]] for (uint r = 0; r < kRows; ++r) {
          const float weight = weight_stage[(key + i) * kRows + r];
          const bool hidden = looks_for_hidden(masked) && weight < 0.0;
          [[unroll]] for (uint d = 0; d < 4; ++d) {
            const float product = weight * value[d];
            sum[r][d] += hidden ? 0.0 : product;
          }
        }
      }
      key += kValueKeys;
    } while (key < keys);
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      [[unroll]] for (uint d = 0; d < 4; ++d) sum_stage[sum_place(pass, r, d)] = sum[r][d];
    }
    pass += 1;
  } while (pass < kValuePasses);
}

// Stages scaled queries, with zeros beyond the head dimension, and sums of 0.
void begin_stages(TilePosition tile) {
  uint base = 0;
  [[dont_unroll]] do {
    const uint quad = min(base + lane(), (kHeadDim + 3) / 4 - 1);
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      const uint row = packed_row(tile, r);
      const uint source = query_row(tile.batch, packed_head(tile.kv_head, row), packed_query(row));
      const vec4 query = query_at4(source, quad * 4) * params.scale_log2;
      [[unroll]] for (uint d = 0; d < 4; ++d) query_stage[(quad * 4 + d) * kRows + r] = query[d];
    }
    base += kThreads;
  } while (base * 4 < kHeadDim);
  uint place = 0;
  [[dont_unroll]] do {
    sum_stage[place + lane()] = 0.0;
    place += kThreads;
  } while (place < kValuePasses * 4 * kRows * kThreads);
  stage_barrier();  // the queries are complete
}

void store_rows(TilePosition tile) {
  float inverse[kRows];
  [[unroll]] for (uint r = 0; r < kRows; ++r) inverse[r] = finish_row(r);
  uint pass = 0;
  [[dont_unroll]] do {
    const uint dim = 4 * (pass * kThreads + lane());
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      [[unroll]] for (uint d = 0; d < 4; ++d) {
        const float result = sum_stage[sum_place(pass, r, d)] * inverse[r];
        if (has_row(tile, r) && dim + d < kValueDim) store_result(result_index[r], dim + d, result);
      }
    }
    pass += 1;
  } while (pass < kValuePasses);
}

#endif
