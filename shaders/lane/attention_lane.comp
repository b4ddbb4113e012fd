// Attention without barriers, shared memory or subgroup operations: an invocation computes kRows neighbouring rows of
// the output, from all keys that these rows see.
//
//                         kKeys keys of a step
//                       +----------------------+
//   invocation 0        | kRows x kKeys scores |  x V =  kRows x kValueDim sums in memory, 4 dims of them at a time
//   invocation 1        | kRows x kKeys scores |
//   ...                 | ...                  |  all invocations read the same addresses of K and V
//                       +----------------------+
//
// Budget. Example: 8 invocations of 4 rows x 64 keys, d dims of e = 4 bytes in Q, K and V.
//   registers      kRows * kKeys scores + 4 * (kRows + 1) of Q and K, or of sums and V = 256 + 20; a CPU keeps most of
//                  them in its cache
//   shared memory  none
//   memory         each multiply-add reads e / (kRows * kWorkgroupSize) bytes of K and V + e / (2 * kScoreKeys) of Q +
//                  2 / kKeys of sums = 1/8 + 1/16 + 1/32, and writes 2 / kKeys of sums
//
// Made for CPU implementations: there a load at one address is a scalar load and a broadcast. Elsewhere it is the last
// resort.
//
// Measured on lavapipe (Mesa 26.1):
// - Unrolling the head dimension costs seconds of compile time, so it stays a loop.
// - A variable that a loop changes costs a masked store in each pass, and so does a number that a loop finds and later code
//   needs. 4 dims x kScoreKeys x kRows multiply-adds share the stores of scores (keep kScoreKeys * kRows at 128 or less).
// - Loads and stores of sums are gathers and scatters of 8 bytes a lane. 4 dims x kKeys x kRows multiply-adds share them.
// - A private array with a variable index costs more than a buffer. So float32 outputs hold their own running sums; the
//   sums of 16-bit outputs are float32 in the workspace, or in a private array if the caller asked for no workspace. Float32
//   rows that share sets of a cache have their sums in the workspace too.
// - By addresses (kByAddress), K and V are loaded without checks of bounds.
// - Lost (docs/trials/lavapipe.md): keys loaded by one lane each and shuffled, 8 dims a pass over keys, 8 rows.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/by_address.glsl"

#define VKATTN_KEYS_BY_ADDRESS kByAddress

#include "lib/dropout.glsl"
#include "lib/grid.glsl"
#include "lib/key_walk.glsl"
#include "lib/online_softmax.glsl"
#include "lib/partials.glsl"
#include "lib/scores.glsl"
#include "lib/softmax_start.glsl"
#include "lib/step_keys.glsl"
#include "lib/tensors.glsl"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 8;
layout(constant_id = VKATTN_SPEC_LANE_ROWS) const uint kRows = 4;
layout(constant_id = VKATTN_SPEC_LANE_MASKED_KEYS) const uint kMaskedKeys = 4;
// One masked step has all keys of a part, so sums stay in registers: they are neither cleared, nor loaded, nor divided later.
layout(constant_id = VKATTN_SPEC_LANE_ONE_STEP) const bool kOneStep = false;
layout(constant_id = VKATTN_SPEC_LANE_OUTPUT_VECTORS) const bool kOutputVectors = false;

// A row's running sums lie with its partial results, in the workspace, in the output that they become, or in private
// memory.
const bool kSumsInBuffer = kSplitKv || kSumsInWorkspace || kOutputType == VKATTN_TYPE_FLOAT32;

const uint kScoreKeys = VKATTN_LANE_SCORE_KEYS;
// Dims that passes over rows clear or divide by kPassDims.
const uint kWholeDims = kValueDim / kPassDims * kPassDims;

// An invocation's arrays are globals, as GLSL passes arrays by copying them.
uint query_index[kRows], result_index[kRows], sum_index[kRows];  // of the rows' first elements
ScoreRow score_rows[kRows];
int row_key_begin[kRows], row_key_end[kRows];  // a row sees keys begin .. end - 1
float row_maximum[kRows], row_sum[kRows];
float row_factor[kRows];           // of the sums: before a step, or at the end
float probability[kKeys * kRows];  // by key: scores, then probabilities; of hidden keys hidden_probability()
uint kept_keys[kHasDropout ? (kKeys + 31) / 32 * kRows : 1];  // a bit for each key: dropout keeps it
float private_sums[kSumsInBuffer ? 1 : kRows * kValueDim];
// If all rows see the same keys, V counts as 0 beyond the end, and so do the probabilities there.
bool key_exists[kRowsAlike ? kKeys : 1];
float hidden_probability() { return kRowsAlike ? 0.0 : kHiddenProbability; }

// Quads of dims of quantised K or V for each load of a block's scale. With few rows, many quads are needed so that the
// arithmetic outweighs the decoding; many rows have enough with one quad, and would spill with more.
const uint kQuantisedQuads = kRows < 4 ? 4 / kRows : 1;
const bool kQuantisedKeys =
    kKeyType >= VKATTN_TYPE_Q8_0 && kKeyDimStride == 1 && kHeadDim % (4 * kQuantisedQuads) == 0;
const bool kQuantisedValues =
    kValueType >= VKATTN_TYPE_Q8_0 && kValueDimStride == 1 && kValueDim % (4 * kQuantisedQuads) == 0;

// A CPU moves a vector's lanes one by one, and 8 bytes as fast as 4.
#if VKATTN_WIDE_LOADS
bool has_wide_sums() {
  if (kSumsInWorkspace) return kValueDim % 4 == 0;
  return kOutputVectors && kOutputType == VKATTN_TYPE_FLOAT32 && !kSplitKv;
}
bool has_wide_results() { return kOutputVectors && !kSplitKv; }
layout(set = 0, binding = VKATTN_BINDING_PARTIALS, std430) buffer PartialWides { uint64_t partial_wides[]; };
layout(set = 0, binding = VKATTN_BINDING_OUTPUT, std430) buffer OutputWides { uint64_t output_wides[]; };
vec2 partial_pair(uint index) { return uintBitsToFloat(unpackUint2x32(partial_wides[index])); }
vec2 output_pair(uint index) { return uintBitsToFloat(unpackUint2x32(output_wides[index])); }
void store_partial_pair(uint index, uvec2 words) { partial_wides[index] = packUint2x32(words); }
void store_output_pair(uint index, uvec2 words) { output_wides[index] = packUint2x32(words); }
#else
bool has_wide_sums() { return false; }
bool has_wide_results() { return false; }
vec2 partial_pair(uint index) { return vec2(0.0); }
vec2 output_pair(uint index) { return vec2(0.0); }
void store_partial_pair(uint index, uvec2 words) {}
void store_output_pair(uint index, uvec2 words) {}
#endif

float load_sum(uint row, uint dim) {
  if (kSplitKv || kSumsInWorkspace) return partials[sum_index[row] + dim];
  if (kSumsInBuffer) return uintBitsToFloat(output_words[sum_index[row] + dim * kOutputDimStride]);
  return private_sums[row * kValueDim + dim];
}

void store_sum(uint row, uint dim, float value) {
  if (kSumsInWorkspace) {
    partials[sum_index[row] + dim] = value;
  } else if (kSumsInBuffer) {
    store_result(sum_index[row], dim, value);
  } else {
    private_sums[row * kValueDim + dim] = value;
  }
}

// The sums of `dims` dims, at most 4, from a multiple of 4 on.
vec4 load_sums(uint row, uint dim, uint dims) {
  vec4 sums = vec4(0.0);
  if (has_wide_sums() && dims == 4) {
    const uint wide = (sum_index[row] + dim) >> 1;
    sums = kSumsInWorkspace ? vec4(partial_pair(wide), partial_pair(wide + 1))
                            : vec4(output_pair(wide), output_pair(wide + 1));
  } else {
    [[unroll]] for (uint d = 0; d < dims; ++d) sums[d] = load_sum(row, dim + d);
  }
  return sums;
}

void store_sums(uint row, uint dim, uint dims, vec4 sums) {
  if (has_wide_sums() && dims == 4) {
    const uint wide = (sum_index[row] + dim) >> 1;
    if (kSumsInWorkspace) {
      store_partial_pair(wide, floatBitsToUint(sums.xy));
      store_partial_pair(wide + 1, floatBitsToUint(sums.zw));
    } else {
      store_output_pair(wide, floatBitsToUint(sums.xy));
      store_output_pair(wide + 1, floatBitsToUint(sums.zw));
    }
  } else {
    [[unroll]] for (uint d = 0; d < dims; ++d) store_sum(row, dim + d, sums[d]);
  }
}

void store_results(uint row, uint dim, uint dims, vec4 results) {
  if (has_wide_results() && dims == 4) {
    const uint index = result_index[row] + dim;
    if (kOutputType == VKATTN_TYPE_FLOAT32) {
      store_output_pair(index >> 1, floatBitsToUint(results.xy));
      store_output_pair((index >> 1) + 1, floatBitsToUint(results.zw));
    } else {
      uvec4 halves;
      [[unroll]] for (uint d = 0; d < 4; ++d) halves[d] = encode_16bit(results[d], kOutputType);
      store_output_pair(index >> 2, halves.xz | halves.yw << 16);
    }
  } else {
    [[unroll]] for (uint d = 0; d < dims; ++d) store_result(result_index[row], dim + d, results[d]);
  }
}

void find_keys(TilePosition tile, int first_key, uint keys, bool masked) {
  [[unroll]] for (uint k = 0; k < keys; ++k) {
    find_key(tile.batch, tile.kv_head, first_key, k, masked);
    if (kRowsAlike) key_exists[kRowsAlike ? k : 0] = !masked || first_key + int(k) < row_key_end[0];
  }
}

// Adds q . k over 4 dims to the scores of keys begin .. end - 1.
void add_scores(TilePosition tile, int first_key, uint begin, uint end, bool masked, uint dim, bool full) {
  vec4 query[kRows];
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    query[r] = full ? query_full4(query_index[r], dim) : query_part4(query_index[r], dim);
  }
  [[unroll]] for (uint k = begin; k < end; ++k) {
    const uint index = key_row_of(tile.batch, tile.kv_head, first_key, k, masked);
    const vec4 key = full ? key_full4(index, dim) : key_part4(index, dim);
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      float score = probability[k * kRows + r];
      [[unroll]] for (uint d = 0; d < 4; ++d) score += query[r][d] * key[d];
      probability[k * kRows + r] = score;
    }
  }
}

// Adds q . k over kQuantisedQuads x 4 dims of quantised keys, which share one scale.
void add_quantised_scores(TilePosition tile, int first_key, uint begin, uint end, bool masked, uint dim) {
  vec4 query[kRows * kQuantisedQuads];
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    [[unroll]] for (uint q = 0; q < kQuantisedQuads; ++q) {
      query[r * kQuantisedQuads + q] = query_full4(query_index[r], dim + 4 * q);
    }
  }
  [[unroll]] for (uint k = begin; k < end; ++k) {
    const uint index = key_row_of(tile.batch, tile.kv_head, first_key, k, masked);
    float product[kRows];
    [[unroll]] for (uint r = 0; r < kRows; ++r) product[r] = 0.0;
    [[unroll]] for (uint q = 0; q < kQuantisedQuads; ++q) {
      const vec4 key = key_unscaled4(index, dim + 4 * q);
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        [[unroll]] for (uint d = 0; d < 4; ++d) product[r] += query[r * kQuantisedQuads + q][d] * key[d];
      }
    }
    const float scale = key_scale_of(index, dim);
    [[unroll]] for (uint r = 0; r < kRows; ++r) probability[k * kRows + r] += product[r] * scale;
  }
}

// Scores of keys begin .. begin + keys - 1 of the step.
void compute_scores(TilePosition tile, int first_key, uint begin, uint keys, bool masked) {
  [[unroll]] for (uint i = begin * kRows; i < (begin + keys) * kRows; ++i) probability[i] = 0.0;
  if (kQuantisedKeys) {
    uint dim = 0;
    [[dont_unroll]] do {
      add_quantised_scores(tile, first_key, begin, begin + keys, masked, dim);
      dim += 4 * kQuantisedQuads;
    } while (dim < kHeadDim);
  } else if (kHeadDim >= 4) {
    uint dim = 0;
    [[dont_unroll]] do {
      add_scores(tile, first_key, begin, begin + keys, masked, dim, true);
      dim += 4;
    } while (dim + 4 <= kHeadDim);
  }
  if (kHeadDim % 4 != 0) {
    add_scores(tile, first_key, begin, begin + keys, masked, kHeadDim - kHeadDim % 4, false);
  }
}

vec4 sums_before(uint row, uint dim, uint dims) {
  return kOneStep ? vec4(0.0) : load_sums(row, dim, dims) * row_factor[row];
}

void store_sums_after(uint row, uint dim, uint dims, vec4 sums) {
  if (kOneStep) {
    store_results(row, dim, dims, sums * row_factor[row]);
  } else {
    store_sums(row, dim, dims, sums);
  }
}

// Adds p . v of a key to the sums of `dims` dims. A hidden V row is skipped, not multiplied by 0.
void add_value(inout vec4 sum, float weight, float scale, vec4 value, bool masked, uint dims) {
  const bool hidden = looks_for_hidden(masked) && !kRowsAlike && weight < 0.0;
  [[unroll]] for (uint d = 0; d < dims; ++d) {
    const float product = weight * scale * value[d];
    sum[d] += hidden ? 0.0 : product;
  }
}

vec4 existing(vec4 value, uint key, bool masked) {
  return masked && kRowsAlike ? (key_exists[kRowsAlike ? key : 0] ? value : vec4(0.0)) : value;
}

// Adds p . v for 4 dims (the first `dims` of them) to the rows' sums.
void add_values(TilePosition tile, int first_key, uint keys, bool masked, uint dim, uint dims) {
  vec4 sum[kRows];
  [[unroll]] for (uint r = 0; r < kRows; ++r) sum[r] = sums_before(r, dim, dims);
  [[unroll]] for (uint k = 0; k < keys; ++k) {
    const uint index = value_row_of(tile.batch, tile.kv_head, first_key, k, masked);
    const vec4 stored = dims == 4 ? value_full4(index, dim) : value_part4(index, dim);
    const vec4 value = existing(stored, k, masked);
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      add_value(sum[r], probability[k * kRows + r], 1.0, value, masked, dims);
    }
  }
  uint bits = 0;
  [[unroll]] for (uint r = 0; r < kRows; ++r) bits |= bits_of(sum[r]);
  [[unroll]] for (uint r = 0; r < kRows; ++r) store_sums_after(r, dim, dims, with_bits(sum[r], bits, params.kv_length));
}

// Adds p . v for kQuantisedQuads x 4 dims of quantised values, which share one scale.
void add_quantised_values(TilePosition tile, int first_key, uint keys, bool masked, uint dim) {
  vec4 sum[kRows * kQuantisedQuads];
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    [[unroll]] for (uint q = 0; q < kQuantisedQuads; ++q) sum[r * kQuantisedQuads + q] = sums_before(r, dim + 4 * q, 4);
  }
  [[unroll]] for (uint k = 0; k < keys; ++k) {
    const uint index = value_row_of(tile.batch, tile.kv_head, first_key, k, masked);
    const float scale = existing(vec4(value_scale_of(index, dim)), k, masked).x;
    [[unroll]] for (uint q = 0; q < kQuantisedQuads; ++q) {
      const vec4 value = existing(value_unscaled4(index, dim + 4 * q), k, masked);
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        add_value(sum[r * kQuantisedQuads + q], probability[k * kRows + r], scale, value, masked, 4);
      }
    }
  }
  uint bits = 0;
  [[unroll]] for (uint i = 0; i < kRows * kQuantisedQuads; ++i) bits |= bits_of(sum[i]);
  [[unroll]] for (uint i = 0; i < kRows * kQuantisedQuads; ++i) {
    store_sums_after(i / kQuantisedQuads, dim + i % kQuantisedQuads * 4, 4, with_bits(sum[i], bits, params.kv_length));
  }
}

// Called before there are scores: a CPU's compiler takes very long over a loop that scores live across.
void look_up_kept(int first_key, uint keys) {
  [[unroll]] for (uint k = 0; k < keys; k += 32) {
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      kept_keys[k / 32 * kRows + r] = keys_that_are_kept(score_rows[r], uint(first_key) + k, min(keys - k, 32));
    }
  }
}

bool is_hidden(uint row, int key) {
  return key >= row_key_end[row] || (kHasKeyBegin && key < row_key_begin[row]);
}

// Turns the step's scores into probabilities and raises the rows' maxima.
void update_softmax(int first_key, uint keys, bool masked) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    float maximum = row_maximum[r];
    [[unroll]] for (uint k = 0; k < keys; ++k) {
      const bool hidden = masked && is_hidden(r, first_key + int(k));
      const float score = finish_score(probability[k * kRows + r] * params.scale_log2, score_rows[r],
                                       source_key(first_key, k, masked), masked);
      probability[k * kRows + r] = hidden ? kHiddenScore : score;
      maximum = max(maximum, probability[k * kRows + r]);
    }
    row_factor[r] = rescale_factor(row_maximum[r], maximum);
    row_maximum[r] = maximum;
    float total = 0.0;
    [[unroll]] for (uint k = 0; k < keys; ++k) {
      const bool hidden =
          looks_for_hidden(masked) &&
          (kScoresHide ? probability[k * kRows + r] == kHiddenScore : is_hidden(r, first_key + int(k)));
      const float weight = exp2(probability[k * kRows + r] - maximum);
      const float kept_weight = is_kept(kept_keys[k / 32 * kRows + r], k % 32) ? weight : 0.0;
      probability[k * kRows + r] = hidden ? hidden_probability() : kept_weight;
      total += hidden ? 0.0 : weight;
    }
    row_sum[r] = row_sum[r] * row_factor[r] + total;
  }
}

void find_inverses() {
  [[unroll]] for (uint r = 0; r < kRows; ++r) row_factor[r] = row_sum[r] == 0.0 ? 0.0 : drop_scale() / row_sum[r];
}

// One step over `keys` keys. `keys` and `masked` are constants once inlined.
void attend(TilePosition tile, int first_key, uint keys, bool masked) {
  if (kFindsKeys) find_keys(tile, first_key, keys, masked);
  if (kHasDropout) look_up_kept(first_key, keys);
  compute_scores(tile, first_key, 0, min(keys, kScoreKeys), masked);
  if (keys > kScoreKeys) compute_scores(tile, first_key, kScoreKeys, min(keys - kScoreKeys, kScoreKeys), masked);
  if (keys > 2 * kScoreKeys) compute_scores(tile, first_key, 2 * kScoreKeys, keys - 2 * kScoreKeys, masked);
  update_softmax(first_key, keys, masked);
  if (kOneStep) find_inverses();
  if (kQuantisedValues) {
    uint dim = 0;
    [[dont_unroll]] do {
      add_quantised_values(tile, first_key, keys, masked, dim);
      dim += 4 * kQuantisedQuads;
    } while (dim < kValueDim);
  } else if (kValueDim >= 4) {
    uint dim = 0;
    [[dont_unroll]] do {
      add_values(tile, first_key, keys, masked, dim, 4);
      dim += 4;
    } while (dim + 4 <= kValueDim);
  }
  if (kValueDim % 4 != 0) add_values(tile, first_key, keys, masked, kValueDim - kValueDim % 4, kValueDim % 4);
}

void clear_sums(uint dim, uint dims) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    if (kOneStep) {
      store_results(r, dim, dims, vec4(0.0));
    } else {
      store_sums(r, dim, dims, vec4(0.0));
    }
  }
}

void divide_sums(uint dim, uint dims) {
  vec4 results[kRows];
  [[unroll]] for (uint r = 0; r < kRows; ++r) results[r] = load_sums(r, dim, dims) * row_factor[r];
  [[unroll]] for (uint r = 0; r < kRows; ++r) store_results(r, dim, dims, results[r]);
}

void begin_rows(TilePosition tile, uint first_row, int kv_length, int part_end) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    // The last row stands for rows beyond it. It is this invocation's own, and all loads of a chunk precede its stores.
    const uint row = min(first_row + r, packed_row_count() - 1u);
    const uint head = packed_head(tile.kv_head, row);
    const uint query = packed_query(row);
    query_index[r] = query_row(tile.batch, head, query);
    result_index[r] = result_row(tile.batch, head, query, tile.split);
    sum_index[r] = kSumsInWorkspace ? workspace_row(tile.batch, head, query) * kValueDim : result_index[r];
    score_rows[r] = score_row(tile.batch, head, query);
    row_key_begin[r] = visible_key_begin(int(query), kv_length);
    row_key_end[r] = min(visible_key_end(int(query), kv_length), part_end);
    row_maximum[r] = start_score(head, tile.split);
    row_sum[r] = start_weight(head, tile.split);
  }
}

void clear_rows() {
  if (kWholeDims != 0) {
    [[dont_unroll]] for (uint dim = 0; dim < kWholeDims; dim += kPassDims) clear_sums(dim, kPassDims);
  }
  if (kWholeDims != kValueDim) clear_sums(kWholeDims, kValueDim - kWholeDims);
}

void divide_rows() {
  find_inverses();
  if (kWholeDims != 0) {
    [[dont_unroll]] for (uint dim = 0; dim < kWholeDims; dim += kPassDims) divide_sums(dim, kPassDims);
  }
  if (kWholeDims != kValueDim) divide_sums(kWholeDims, kValueDim - kWholeDims);
}

void store_lse_of_rows(TilePosition tile, uint first_row) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const uint row = first_row + r;
    if (row < packed_row_count()) {
      store_result_lse(result_index[r], tile.batch, packed_head(tile.kv_head, row), packed_query(row), row_maximum[r],
                       row_sum[r]);
    }
  }
}

void attend_in_steps(TilePosition tile, KeyWalk walk) {
  int full = first_full(walk);
  if (full < walk.full_end) {  // loops are tested at their end, see lib/key_walk.glsl
    [[dont_unroll]] do {
      attend(tile, full, kKeys, false);
      full = next_full(walk, full);
    } while (full < walk.full_end);
  }
  int key = first_masked(walk);
  if (key < walk.keys.end) {
    [[dont_unroll]] do {
      attend(tile, key, kMaskedKeys, true);
      key = next_masked(walk, key);
    } while (key < walk.keys.end);
  }
}

void main() {
  const uint tile_rows = kWorkgroupSize * kRows;
  const TilePosition tile = tile_position(tile_rows);
  const uint first_row = tile.first_row + gl_LocalInvocationIndex * kRows;
  if (!tile.valid || first_row >= packed_row_count()) return;
  const int kv_length = visible_kv_length(tile.batch);

  // The walk is the same for the whole workgroup.
  const KeyWalk walk = walk_keys(tile, tile_rows, kv_length, int(kMaskedKeys), int(kKeys));
  begin_rows(tile, first_row, kv_length, walk.keys.part_end);
  if (kOneStep) {
    const int key = first_step(walk);
    if (key < walk.keys.end) {
      attend(tile, key, kKeys, true);
    } else {
      clear_rows();
    }
  } else {
    clear_rows();
    attend_in_steps(tile, walk);
    divide_rows();
  }
  store_lse_of_rows(tile, first_row);
}
