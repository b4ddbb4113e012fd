// Attention of a few query rows over many keys (decode). The memory of K and V bounds its speed: a workgroup computes all
// rows of one KV head over one part of the keys, and reads K and V once, straight into registers.
//
//   kThreads threads are kKeyGroups x kRowSets groups of kColumns threads. In a step of kKeyGroups * kKeys keys:
//
//                         column 0           column 1
//   keys 0, row set 0   | 16 bytes of K, V | the next 16 bytes | ... |  kKeys keys (0, kKeyGroups, ...) x kRows rows;
//   keys 0, row set 1   | the same keys, the next kRows rows   | ... |  a softmax for each group, merged after the
//   keys 1, row set 0   | 16 bytes of K, V | the next 16 bytes | ... |  last key
//   ...
//
// Budget. Example: 128 threads, 16 columns, 4 rows in one set, 4 keys; 128 dims of e = 2 bytes in Q, K and V.
//   registers      4 * kKeys * (kKeyVectors + kValueVectors) in flight + 4 * kRows * kRowSums sums + kRows * kKeys
//                  scores + 4 * kQueryParts where kQueryInRegisters = 32 + 32 + 16 + 32
//   shared memory  16 * max(VKATTN_DECODE_QUERY_STAGE4, VKATTN_DECODE_MERGE_STAGE4) + 8 * VKATTN_DECODE_GROUP_STAGE
//                  bytes = 16 * max(4 * 2 * 16, 2 * 2 * 128) + 8 * 4 * 8 = 8,448, with kMergeRows = 2
//   combining      kRows * kPartsInFlight elements in flight + 3 * kRows = 60 registers, with 12 parts in flight
//   memory         each multiply-add reads e / kTileRows bytes of K and V = 1/2
//   stages         the loop reads none, except queries that are not in registers: 4 / kKeys bytes for each multiply-add
//                  of Q K^T
//
// Lost on an H100 (docs/trials/h100.md), 32768 keys in 66 parts 69 us: in 33, 48 and 108 parts 88, 76 and 84. Lost by compilers:
// every thread of a group adds every score, 498 instructions a step in place of 429; 64 elements of parts in flight, 20 warps in
// place of 24; values read a step ahead too, 256 registers in place of 128 (GCN). Keys read ahead: only where they are asked for.
//
// Each thread of a group reads 16 bytes of a key's row and of its value's row (more for wide heads), and has kKeys keys
// and as many values in flight. Rows that do not fit a thread's registers go to kRowSets neighbouring groups, which read
// the same keys at the same time. Each group has a softmax of its own, so that no group waits for others while it reads.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "decode/own_scores.glsl"
#include "decode/tile.glsl"
#include "lib/dropout.glsl"
#include "lib/grid.glsl"
#include "lib/key_walk.glsl"
#include "lib/online_softmax.glsl"
#include "lib/partials.glsl"
#include "lib/scores.glsl"
#include "lib/softmax_start.glsl"
#include "lib/tensor_bits.glsl"
#include "lib/unrolled.glsl"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_DECODE_QUERY_IN_REGISTERS) const bool kQueryInRegisters = false;
layout(constant_id = VKATTN_SPEC_DECODE_KEY_LOADS8) const bool kKeyLoads8 = false;
layout(constant_id = VKATTN_SPEC_DECODE_VALUE_LOADS8) const bool kValueLoads8 = false;
layout(constant_id = VKATTN_SPEC_DECODE_READS_AHEAD) const bool kReadsAhead = false;

VKATTN_INPUT_BITS(key, kHeadDim, kKeyDimStride, kKeyLoads8, kKeyVectorLoads)
VKATTN_INPUT_BITS(value, kValueDim, kValueDimStride, kValueLoads8, kValueVectorLoads)

// A thread's arrays are globals, as GLSL passes arrays by copying them.
vec4 queries[kQueryInRegisters ? kQueryParts : 1];
uvec4 keys[kKeys * kKeyVectors];  // as they are stored
uvec4 values[kKeys * kValueVectors];
vec4 row_sums[kRows * kRowSums];  // sums of probabilities times values
// Numbers of the rows whose scores this thread owns (decode/own_scores.glsl).
ScoreRow score_rows[kOwnRows];
float row_maximum[kOwnRows];
float row_weight[kOwnRows];  // sum of the thread's own probabilities, in the steps that are its turn

// The thread's first row in the tile, and its group among those with different keys. As functions, compilers would
// compute them again in each loop; own_scores.glsl has variables for this reason too.
uint first_row = thread_index() / kColumns % kRowSets * kRows;
uint key_group = thread_index() / (kColumns * kRowSets);

// All dims of these vectors exist.
uvec4 full_key_vector(uint row_index, uint dim) {
  if (kKeysAsFloats) return floatBitsToUint(key_full4(row_index, dim));
  return key_full_bits8(row_index, dim);
}

uvec4 full_value_vector(uint row_index, uint dim) {
  if (kValuesAsFloats) return floatBitsToUint(value_full4(row_index, dim));
  return value_full_bits8(row_index, dim);
}

// A key's vector, with zeros beyond the row. A thread without a vector reads the row's first one: with a branch around it,
// each load would wait for the one before.
uvec4 key_vector(uint row_index, uint dim) {
  if (kKeysFill) return full_key_vector(row_index, dim);
  if (kHeadDim % (kKeyParts * 4) == 0) {
    const bool exists = dim < kHeadDim;
    return mix(uvec4(0u), full_key_vector(row_index, exists ? dim : 0u), bvec4(exists));
  }
  return kKeysAsFloats ? floatBitsToUint(key_at4(row_index, dim)) : key_bits8(row_index, dim);
}

// A value's vector. Its elements beyond the row are any numbers, as nothing of them is stored.
uvec4 value_vector(uint row_index, uint dim) {
  if (kValuesFill) return full_value_vector(row_index, dim);
  if (kValueDim % (kValueParts * 4) == 0) return full_value_vector(row_index, dim < kValueDim ? dim : 0u);
  return kValuesAsFloats ? floatBitsToUint(value_at4(row_index, dim))
                                           : value_bits8(row_index, dim);
}

// Part `part` of a vector: four elements.
vec4 decode_part(uvec4 bits, uint part, uint type) {
  if (type == VKATTN_TYPE_FLOAT32 || type >= VKATTN_TYPE_Q8_0) return uintBitsToFloat(bits);
  const uvec2 pair = part == 0 ? bits.xy : bits.zw;
  return vec4(decode_pair(pair.x, type), decode_pair(pair.y, type));
}

// The part of the queries that is multiplied by part `part` of a thread's key vector n.
uint query_part(uint row, uint n, uint part) { return (row * kKeyVectors + n) * kKeyParts + part; }

uint query_stage(uint part) { return (first_row * (kKeyVectors * kKeyParts) + part) * kColumns + column; }

// Stages scaled queries, with zeros beyond the head dimension. The last row stands for rows beyond it; they are not stored.
void load_queries(TilePosition tile) {
  for (uint i = thread_index(); i < kQueryStage4; i += kThreads) {
    const uint part = i / kColumns;
    const uint dim = part / kKeyParts % kKeyVectors * kKeyWidth + (i % kColumns * kKeyParts + part % kKeyParts) * 4u;
    const uint packed = packed_row(tile, part / (kKeyVectors * kKeyParts));
    const uint source = query_row(tile.batch, packed_head(tile.kv_head, packed), packed_query(packed));
    stage[i] = query_at4(source, dim) * params.scale_log2;
  }
  barrier();  // the queries are complete
  if (kQueryInRegisters) {
    [[unroll]] for (uint i = 0; i < kQueryParts; ++i) queries[i] = stage[query_stage(i)];
  }
}

// The group's key u of a step. Neighbouring groups have neighbouring keys, or the same.
int step_key(int first_key, uint u) { return first_key + int(u * kKeyGroups + key_group); }

// Starts the reads of a step's keys. It never reads keys from key_end on: the last key stands for them, and masked steps leave
// them out. What full steps read themselves needs no such test.
void load_keys(TilePosition tile, int first_key, int key_end, bool tested) {
  [[unroll]] for (uint u = 0; u < kKeys; ++u) {
    const int key = tested ? min(step_key(first_key, u), key_end - 1) : step_key(first_key, u);
    const uint row = key_row(tile.batch, tile.kv_head, uint(key));
    [[unroll]] for (uint n = 0; n < kKeyVectors; ++n) {
      keys[u * kKeyVectors + n] = key_vector(row, n * kKeyWidth + column * (kKeyParts * 4));
    }
  }
}

// Starts the reads of a step's values, in the same way.
void load_values(TilePosition tile, int first_key, int key_end, bool tested) {
  [[unroll]] for (uint u = 0; u < kKeys; ++u) {
    const int key = tested ? min(step_key(first_key, u), key_end - 1) : step_key(first_key, u);
    const uint row = value_row(tile.batch, tile.kv_head, uint(key));
    [[unroll]] for (uint n = 0; n < kValueVectors; ++n) {
      values[u * kValueVectors + n] = value_vector(row, n * kValueWidth + column * (kValueParts * 4));
    }
  }
}

float add_products(vec4 a, vec4 b, float sum) {
  sum += a.x * b.x;
  sum += a.y * b.y;
  sum += a.z * b.z;
  sum += a.w * b.w;
  return sum;
}

// scores = q k, in log2 units.
void compute_scores(int first_key, int key_end, bool masked) {
  [[unroll]] for (uint i = 0; i < kScores; ++i) scores[i] = 0.0;
  [[unroll]] for (uint n = 0; n < kKeyVectors; ++n) {
    [[unroll]] for (uint part = 0; part < kKeyParts; ++part) {
      vec4 elements[kKeys];
      [[unroll]] for (uint u = 0; u < kKeys; ++u) {
        elements[u] = decode_part(keys[u * kKeyVectors + n], part, kKeyType);
      }
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        const uint i = query_part(r, n, part);
        const vec4 query = kQueryInRegisters ? queries[kQueryInRegisters ? i : 0] : stage[query_stage(i)];
        [[unroll]] for (uint u = 0; u < kKeys; ++u) {
          scores[r * kKeys + u] = add_products(query, elements[u], scores[r * kKeys + u]);
        }
      }
    }
  }
  sum_to_own();
  [[unroll]] for (uint i = 0; i < kOwnScores; ++i) {
    const uint key = uint(min(step_key(first_key, own_key(i % kOwnKeys)), key_end - 1));
    scores[i] = finish_score(scores[i], score_rows[i / kOwnKeys], key, masked);
  }
}

// True if a row that sees keys row_begin .. row_end - 1 may see the key of own score i of a masked step.
bool is_visible(uint i, int first_key, int row_begin, int row_end) {
  const int key = step_key(first_key, own_key(i % kOwnKeys));
  return key < row_end && (!kHasKeyBegin || key >= row_begin) && (!kScoresHide || scores[i] != kHiddenScore);
}

void scale_row(uint r, float factor) {
  [[unroll]] for (uint i = 0; i < kRowSums; ++i) row_sums[r * kRowSums + i] *= factor;
}

// Scales all rows by their owners' factors. If a thread owns all of its rows, it has scaled them before.
void scale_told_rows(float factors[kOwnRows]) {
  if (kRowOwners == 1) return;
  [[unroll]] for (uint r = 0; r < kRows; ++r) scale_row(r, told_of_row(factors, r));
}

// Turns own scores into probabilities, tells them to the whole group and rescales its sums. Threads with the same
// probabilities take turns to add them up: one long sum of nearly equal terms would add up its roundings too.
void update_softmax(uint turn, int first_key, int kv_length, int key_end, bool masked) {
  float rescale[kOwnRows];
  [[unroll]] for (uint r = 0; r < kOwnRows; ++r) {
    const int query = int(score_rows[r].query);
    const int row_begin = masked ? visible_key_begin(query, kv_length) : 0;
    const int row_end = masked ? min(visible_key_end(query, kv_length), key_end) : 0;
    float maximum = row_maximum[r];
    [[unroll]] for (uint k = 0; k < kOwnKeys; ++k) {
      const uint i = r * kOwnKeys + k;
      if (!masked || is_visible(i, first_key, row_begin, row_end)) maximum = max(maximum, scores[i]);
    }
    maximum = maximum_of_keys(maximum);
    // Exactly 1 if the maximum stays: exp2(0) may be inexact, and there may be as many steps as keys.
    rescale[r] = maximum == row_maximum[r] ? 1.0 : rescale_factor(row_maximum[r], maximum);
    row_maximum[r] = maximum;
    if (kRowOwners == 1) scale_row(r, rescale[r]);
    float weight = 0.0;
    [[unroll]] for (uint k = 0; k < kOwnKeys; ++k) {
      const uint i = r * kOwnKeys + k;
      float probability = kHiddenProbability;
      if (!masked || is_visible(i, first_key, row_begin, row_end)) {
        probability = exp2(scores[i] - maximum);
        weight += probability;
        probability = kept_probability(probability, score_rows[r], uint(step_key(first_key, own_key(k))));
      }
      scores[i] = probability;
    }
    row_weight[r] = row_weight[r] * rescale[r] + (turn == column / kOwners ? weight : 0.0);
  }
  tell_scores();
  scale_told_rows(rescale);
}

// row_sums += p v. Masked steps skip hidden values: 0 times NaN would be NaN.
void accumulate_values(bool masked) {
  [[unroll]] for (uint n = 0; n < kValueVectors; ++n) {
    [[unroll]] for (uint part = 0; part < kValueParts; ++part) {
      [[unroll]] for (uint u = 0; u < kKeys; ++u) {
        const vec4 elements = decode_part(values[u * kValueVectors + n], part, kValueType);
        [[unroll]] for (uint r = 0; r < kRows; ++r) {
          const float probability = scores[r * kKeys + u];
          const uint i = r * kRowSums + n * kValueParts + part;
          if (!masked || !(probability < 0.0)) row_sums[i] += probability * elements;
        }
      }
    }
  }
}

// `turn`: the thread, among those with the same scores, that adds up the step's probabilities. With kReadsAhead the step's keys
// were asked for before, and those of the step at `next` take their registers when the scores are known.
void process_step(TilePosition tile, inout uint turn, int first_key, int next, int kv_length, int key_end, bool masked) {
  if (!kReadsAhead) load_keys(tile, first_key, key_end, masked);
  load_values(tile, first_key, key_end, masked);
  compute_scores(first_key, key_end, masked);
  if (kReadsAhead) load_keys(tile, next, key_end, true);
  update_softmax(turn, first_key, kv_length, key_end, looks_for_hidden(masked));
  accumulate_values(looks_for_hidden(masked));
  turn = (turn + 1) % (kColumns / kOwners);
}

// Processes the steps that some row of the tile sees; steps that all rows see whole need no test. Loops are tested at
// their end, see lib/key_walk.glsl.
void process_steps(TilePosition tile, KeyWalk walk, int kv_length) {
  uint turn = 0;
  const int end = walk.keys.end;
  int key = kHasBlockMask ? first_step(walk) : first_full(walk);
  const bool has_full = key < walk.full_end;
  if (!kHasBlockMask && !has_full) key = first_masked(walk);
  if (key >= end) return;
  if (kReadsAhead) {
    load_keys(tile, key, end, true);
    load_queries(tile);
  }
  if (kHasBlockMask) {
    do {
      const int next = next_step(walk, key);
      process_step(tile, turn, key, next, kv_length, end, is_masked(walk, key));
      key = next;
    } while (key < end);
    return;
  }
  if (has_full) {
    bool more;
    do {
      int next = next_full(walk, key);
      more = next < walk.full_end;
      if (!more) next = first_masked(walk);
      process_step(tile, turn, key, next, kv_length, end, false);
      key = next;
    } while (more);
  }
  if (key < end) {
    do {
      const int next = next_masked(walk, key);
      process_step(tile, turn, key, next, kv_length, end, true);
      key = next;
    } while (key < end);
  }
}

float merged_maximum(uint row) {
  float maximum = kHiddenScore;
  for (uint g = 0; g < kKeyGroups; ++g) maximum = max(maximum, maximum_stage[row * kKeyGroups + g]);
  return maximum;
}

// Rescales the softmax of every group to the largest maximum.
void level_groups() {
  [[unroll]] for (uint r = 0; r < kOwnRows; ++r) {
    if (speaks_for_rows()) maximum_stage[(first_row + own_row(r)) * kKeyGroups + key_group] = row_maximum[r];
  }
  barrier();  // the maxima are complete; the queries were read by all
  float factors[kOwnRows];
  [[unroll]] for (uint r = 0; r < kOwnRows; ++r) {
    factors[r] = rescale_factor(row_maximum[r], merged_maximum(first_row + own_row(r)));
    row_weight[r] *= factors[r];
    if (kRowOwners == 1) scale_row(r, factors[r]);
  }
  scale_told_rows(factors);
  sum_of_rows(row_weight);
  [[unroll]] for (uint r = 0; r < kOwnRows; ++r) {
    if (speaks_for_rows()) weight_stage[(first_row + own_row(r)) * kKeyGroups + key_group] = row_weight[r];
  }
}

// Stores 4 dims of row r of a set; the stage holds it as row `merge_row`.
void store_dims(TilePosition tile, uint set, uint r, uint merge_row, uint dim) {
  const uint row = set * kRows + r;
  const uint packed = tile.first_row + row;
  if (packed >= packed_row_count()) return;
  float weight = 0.0;
  for (uint g = 0; g < kKeyGroups; ++g) weight += weight_stage[row * kKeyGroups + g];
  const uint i = merge_row * kRowSums + dim / kValueWidth * kValueParts + dim / 4 % kValueParts;
  const uint source = i * kThreads + set * kColumns + dim % kValueWidth / (kValueParts * 4);
  vec4 sum = vec4(0.0);
  for (uint g = 0; g < kKeyGroups; ++g) sum += stage[source + g * (kRowSets * kColumns)];
  sum *= weight == 0.0 ? 0.0 : drop_scale() / weight;
  const uint head = packed_head(tile.kv_head, packed);
  const uint query = packed_query(packed);
  const uint target = result_row(tile.batch, head, query, tile.split);
  [[unroll]] for (uint d = 0; d < 4; ++d) {
    if (kValueDim % 4 == 0 || dim + d < kValueDim) store_result(target, dim + d, sum[d]);
  }
  if (dim == 0) store_result_lse(target, tile.batch, head, query, merged_maximum(row), weight);
}

// Merges the n-th kMergeRows rows of each set.
void merge_rows(TilePosition tile, uint n) {
  const uint row_dims4 = (kValueDim + 3) / 4;
  const uint first = n * kMergeRows;
  if (first > 0) barrier();  // the stage was read before the next rows overwrite it
  [[unroll]] for (uint i = 0; i < kMergeRows * kRowSums; ++i) {
    if (first * kRowSums + i < kRows * kRowSums) stage[i * kThreads + thread_index()] = row_sums[first * kRowSums + i];
  }
  barrier();  // the stage is complete, and with the first rows the weights
  for (uint i = thread_index(); i < kMergeRows * kRowSets * row_dims4; i += kThreads) {
    const uint merge_row = i / row_dims4 % kMergeRows;
    const uint set = i / (row_dims4 * kMergeRows);
    if (first + merge_row < kRows) store_dims(tile, set, first + merge_row, merge_row, i % row_dims4 * 4u);
  }
}

void store_rows(TilePosition tile) {
#define VKATTN_MERGE_ROWS(N) merge_rows(tile, N)
  VKATTN_STEPS((kRows + kMergeRows - 1) / kMergeRows, VKATTN_MERGE_ROWS)
}

#include "decode/combine_parts.glsl"

void main() {
  const TilePosition tile = tile_position(kTileRows);
  if (!tile.valid) return;  // uniform over the workgroup, so no barrier is missed
  [[unroll]] for (uint r = 0; r < kOwnRows; ++r) {
    const uint packed = packed_row(tile, first_row + own_row(r));
    const uint head = packed_head(tile.kv_head, packed);
    score_rows[r] = score_row(tile.batch, head, packed_query(packed));
    // Each owner of a row knows its maximum; the owners' weights are added up.
    row_maximum[r] = key_group == 0u ? start_score(head, tile.split) : kHiddenScore;
    row_weight[r] = key_group == 0u && speaks_for_rows() ? start_weight(head, tile.split) : 0.0;
  }
  [[unroll]] for (uint i = 0; i < kRows * kRowSums; ++i) row_sums[i] = vec4(0.0);
  if (!kReadsAhead) load_queries(tile);

  const int kv_length = visible_kv_length(tile.batch);
  process_steps(tile, walk_keys(tile, kTileRows, kv_length, int(kStepKeys), int(kStepKeys)), kv_length);
  level_groups();
  store_rows(tile);
  if (kCombinesParts) combine_parts(tile);
}
