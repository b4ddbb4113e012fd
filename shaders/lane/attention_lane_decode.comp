// Attention of a few query rows over many keys (decode), for CPU implementations: a workgroup is one vector of a CPU, a
// subgroup of kThreads lanes. It computes kRows rows of one KV head, from all keys of its part that these rows see.
//
//             a step: kThreads * kLaneKeys keys                          its sums, 4 * kThreads dims at a time
//           +-------------------------------------+                    +-----------------------------------------+
//   lane 0  | keys 0, kThreads, ...: kRows scores |  -> stage, x V ->  | dims 0 to 3 of kRows rows, over all keys |
//   lane 1  | keys 1, kThreads + 1, ...           |                    | dims 4 to 7                              |
//   ...     +-------------------------------------+                    +-----------------------------------------+
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
// 8 bytes a lane. A subgroup's lanes exchange through shared memory without a barrier of the workgroup, which would turn the
// shader into coroutines.
//
// Measured on lavapipe (Mesa 26.1), docs/trials/lavapipe.md:
// - The lanes' keys are 64 streams of memory, which no prefetcher follows. So each step first reads one word of each cache
//   line of its keys, line after line, and later of its values (kTouches).
// - 8 keys a lane are faster than 4 or 2, and 8 keys a pass over values than 4. 8 dims a pass over keys, or loads of 16
//   bytes, gain nothing.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/dropout.glsl"
#include "lib/grid.glsl"
#include "lib/key_walk.glsl"
#include "lib/online_softmax.glsl"
#include "lib/partials.glsl"
#include "lib/scores.glsl"
#include "lib/softmax_start.glsl"
#include "lib/tensors.glsl"
#include "lib/unrolled.glsl"
#include "shared/shared_memory.h"

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kThreads = 8;
layout(constant_id = VKATTN_SPEC_LANE_DECODE_ROWS) const uint kRows = 4;
layout(constant_id = VKATTN_SPEC_LANE_DECODE_KEYS) const uint kLaneKeys = 8;
layout(constant_id = VKATTN_SPEC_LANE_DECODE_TOUCHES) const bool kTouches = false;

const uint kStepKeys = kThreads * kLaneKeys;
const uint kValueKeys = 8;  // keys of a pass over values; a step has a multiple of these
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

// A lane's arrays are globals, as GLSL passes arrays by copying them. The rows' numbers are equal in all lanes, except
// row_sum, which has the lane's own keys.
uint result_index[kRows];
ScoreRow score_rows[kRows];
int row_key_begin[kRows], row_key_end[kRows];  // a row sees keys begin .. end - 1
float row_maximum[kRows], row_sum[kRows], row_rescale[kRows];
float scores[kLaneKeys * kRows];
uint key_index[kLaneKeys];  // rows of the lane's own keys in K

uint lane() { return gl_SubgroupInvocationID; }

// The lanes' stores to the stages come before the loads that follow.
void stage_barrier() {
  subgroupMemoryBarrierShared();
  subgroupBarrier();
}

uint packed_row(TilePosition tile, uint r) { return min(tile.first_row + r, packed_row_count() - 1u); }

// The lane's key u of a step.
int lane_key(int first_key, uint u) { return first_key + int(u * kThreads + lane()); }

// The last key stands for those that a step has beyond it.
uint source_key(int key, int key_end) { return uint(min(key, key_end - 1)); }

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
void look_up_keys(TilePosition tile, int first_key, int key_end) {
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
void compute_scores() {
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

float maximum_of_lanes(float maximum) {
#define VKATTN_LARGER_OF_PAIRS(LANES) maximum = max(maximum, subgroupShuffleXor(maximum, LANES))
  VKATTN_LANE_STEPS(1u, kThreads, VKATTN_LARGER_OF_PAIRS)
  return maximum;
}

float sum_of_lanes(float sum) {
#define VKATTN_SUM_OF_LANE_PAIRS(LANES) sum += subgroupShuffleXor(sum, LANES)
  VKATTN_LANE_STEPS(1u, kThreads, VKATTN_SUM_OF_LANE_PAIRS)
  return sum;
}

bool is_hidden(uint row, int key) {
  return key >= row_key_end[row] || (kHasKeyBegin && key < row_key_begin[row]);
}

// Turns the step's scores into probabilities, stages them and raises the rows' maxima.
void update_softmax(int first_key, int key_end, bool masked) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    float maximum = row_maximum[r];
    [[unroll]] for (uint u = 0; u < kLaneKeys; ++u) {
      const int key = lane_key(first_key, u);
      const bool hidden = masked && is_hidden(r, key);
      const float score =
          finish_score(scores[u * kRows + r], score_rows[r], source_key(key, key_end), masked);
      scores[u * kRows + r] = hidden ? kHiddenScore : score;
      maximum = max(maximum, scores[u * kRows + r]);
    }
    maximum = maximum_of_lanes(maximum);
    // Exactly 1 if the maximum stays: exp2(0) may be inexact, and there may be many steps.
    row_rescale[r] = maximum == row_maximum[r] ? 1.0 : rescale_factor(row_maximum[r], maximum);
    row_maximum[r] = maximum;
    float total = 0.0;
    [[unroll]] for (uint u = 0; u < kLaneKeys; ++u) {
      const float score = scores[u * kRows + r];
      const bool hidden = looks_for_hidden(masked) &&
                          (kScoresHide ? score == kHiddenScore : is_hidden(r, lane_key(first_key, u)));
      const float weight = exp2(score - maximum);
      weight_stage[(u * kThreads + lane()) * kRows + r] = hidden ? kHiddenProbability : weight;
      total += hidden ? 0.0 : weight;
    }
    row_sum[r] = row_sum[r] * row_rescale[r] + total;
  }
}

// Takes dropped probabilities out of the stage. Each lane has its own keys there.
void drop_weights(int first_key) {
  uint u = 0;
  [[dont_unroll]] do {
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      const uint place = (u * kThreads + lane()) * kRows + r;
      const float weight = weight_stage[place];
      const float kept = kept_probability(weight, score_rows[r], uint(lane_key(first_key, u)));
      weight_stage[place] = weight < 0.0 ? weight : kept;
    }
    u += 1;
  } while (u < kLaneKeys);
}

// The place of the lane's sum of a row, in its quad `quad` of dims.
uint sum_place(uint pass, uint r, uint d) { return ((pass * kRows + r) * 4 + d) * kThreads + lane(); }

// sums += p v, over 4 * kThreads dims at a time. Hidden V rows are skipped, not multiplied by 0.
void add_values(TilePosition tile, int first_key, int key_end, bool masked) {
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

// One step. `masked` is a constant once inlined.
void attend(TilePosition tile, int first_key, int key_end, bool masked) {
  look_up_keys(tile, first_key, key_end);
  if (kTouches) touch(tile, first_key, key_end, false);
  compute_scores();
  stage_barrier();  // the last step's weights were read
  update_softmax(first_key, key_end, masked);
  if (kHasDropout) drop_weights(first_key);
  stage_barrier();  // the weights are complete
  if (kTouches) touch(tile, first_key, key_end, true);
  add_values(tile, first_key, key_end, masked);
}

void begin_rows(TilePosition tile, int kv_length, int part_end) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    // The last row stands for rows beyond it; they are not stored.
    const uint row = packed_row(tile, r);
    const uint head = packed_head(tile.kv_head, row);
    const uint query = packed_query(row);
    result_index[r] = result_row(tile.batch, head, query, tile.split);
    score_rows[r] = score_row(tile.batch, head, query);
    row_key_begin[r] = visible_key_begin(int(query), kv_length);
    row_key_end[r] = min(visible_key_end(int(query), kv_length), part_end);
    row_maximum[r] = start_score(head, tile.split);
    row_sum[r] = lane() == 0u ? start_weight(head, tile.split) : 0.0;
  }
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
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    row_sum[r] = sum_of_lanes(row_sum[r]);
    inverse[r] = row_sum[r] == 0.0 ? 0.0 : drop_scale() / row_sum[r];
  }
  uint pass = 0;
  [[dont_unroll]] do {
    const uint dim = 4 * (pass * kThreads + lane());
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      [[unroll]] for (uint d = 0; d < 4; ++d) {
        const float result = sum_stage[sum_place(pass, r, d)] * inverse[r];
        if (tile.first_row + r < packed_row_count() && dim + d < kValueDim) store_result(result_index[r], dim + d, result);
      }
    }
    pass += 1;
  } while (pass < kValuePasses);
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const uint row = tile.first_row + r;
    if (row < packed_row_count() && lane() == 0u) {
      store_result_lse(result_index[r], tile.batch, packed_head(tile.kv_head, row), packed_query(row), row_maximum[r],
                       row_sum[r]);
    }
  }
}

void main() {
  const TilePosition tile = tile_position(kRows);
  if (!tile.valid) return;  // uniform over the workgroup, so no barrier is missed
  const int kv_length = visible_kv_length(tile.batch);
  const KeyWalk walk = walk_keys(tile, kRows, kv_length, int(kStepKeys), int(kStepKeys));
  begin_rows(tile, kv_length, walk.keys.part_end);
  begin_stages(tile);
  int full = first_full(walk);
  if (full < walk.full_end) {  // loops are tested at their end, see lib/key_walk.glsl
    [[dont_unroll]] do {
      attend(tile, full, walk.keys.end, false);
      full = next_full(walk, full);
    } while (full < walk.full_end);
  }
  int key = first_masked(walk);
  if (key < walk.keys.end) {
    [[dont_unroll]] do {
      attend(tile, key, walk.keys.end, true);
      key = next_masked(walk, key);
    } while (key < walk.keys.end);
  }
  store_rows(tile);
}
