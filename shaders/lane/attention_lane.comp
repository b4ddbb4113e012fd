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
// Budget. Example: 8 invocations of 4 rows x 32 keys, d dims of e = 4 bytes in Q, K and V.
//   registers      kRows * kKeys scores + 4 * (kRows + 1) of Q and K, or of sums and V = 128 + 20; a CPU keeps most of
//                  them in its cache
//   shared memory  none
//   memory         each multiply-add reads e / (kRows * kWorkgroupSize) bytes of K and V + e / (2 * kKeys) of Q + 2 /
//                  kKeys of sums = 1/8 + 1/16 + 1/16, and writes 2 / kKeys of sums
//
// Made for CPU implementations: there a load at one address is a scalar load and a broadcast. Elsewhere it is the last
// resort.
//
// Measured on lavapipe (Mesa 26.1):
// - Unrolling the head dimension costs seconds of compile time, so it stays a loop.
// - A variable that lives across a loop costs a masked store in each pass. 4 dims x kKeys x kRows multiply-adds share
//   that cost (keep kKeys * kRows at 128 or less).
// - A private array with a variable index costs more than a buffer. So float32 outputs hold their own running sums; the
//   sums of 16-bit outputs are float32 in the workspace, or in a private array if the caller asked for no workspace. Float32
//   rows that share sets of a cache have their sums in the workspace too.
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

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 8;
layout(constant_id = VKATTN_SPEC_LANE_ROWS) const uint kRows = 4;
layout(constant_id = VKATTN_SPEC_LANE_KEYS) const uint kKeys = 32;
layout(constant_id = VKATTN_SPEC_LANE_MASKED_KEYS) const uint kMaskedKeys = 4;

// A row's running sums lie with its partial results, in the workspace, in the output that they become, or in private
// memory.
const bool kSumsInBuffer = kSplitKv || kSumsInWorkspace || kOutputType == VKATTN_TYPE_FLOAT32;

// An invocation's arrays are globals, as GLSL passes arrays by copying them.
uint query_index[kRows], result_index[kRows], sum_index[kRows];  // of the rows' first elements
ScoreRow score_rows[kRows];
int row_key_begin[kRows], row_key_end[kRows];  // a row sees keys begin .. end - 1
float row_maximum[kRows], row_sum[kRows], row_rescale[kRows];
float probability[kKeys * kRows];              // by key: scores, then probabilities; kHiddenProbability of hidden keys
uint kept_keys[kHasDropout ? (kKeys + 31) / 32 * kRows : 1];  // a bit for each key: dropout keeps it
float private_sums[kSumsInBuffer ? 1 : kRows * kValueDim];
// Rows of the step's keys in K and V. Where they need a look-up, it is done once a step, not once for each 4 dims.
uint key_index[kLooksUpKeys ? kKeys : 1], value_index[kLooksUpKeys ? kKeys : 1];

// Quads of dims of quantised K or V for each load of a block's scale. With few rows, many quads are needed so that the
// arithmetic outweighs the decoding; many rows have enough with one quad, and would spill with more.
const uint kQuantisedQuads = kRows < 4 ? 4 / kRows : 1;
const bool kQuantisedKeys =
    kKeyType >= VKATTN_TYPE_Q8_0 && kKeyDimStride == 1 && kHeadDim % (4 * kQuantisedQuads) == 0;
const bool kQuantisedValues =
    kValueType >= VKATTN_TYPE_Q8_0 && kValueDimStride == 1 && kValueDim % (4 * kQuantisedQuads) == 0;

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

// The row of K or V to read for the step's key. The last key stands for hidden keys beyond the end.
uint source_key(int first_key, uint key, bool masked) {
  return uint(masked ? min(first_key + int(key), readable_kv_length() - 1) : first_key + int(key));
}

uint key_row_of(TilePosition tile, int first_key, uint key, bool masked) {
  if (kLooksUpKeys) return key_index[kLooksUpKeys ? key : 0];
  return key_row(tile.batch, tile.kv_head, source_key(first_key, key, masked));
}

uint value_row_of(TilePosition tile, int first_key, uint key, bool masked) {
  if (kLooksUpKeys) return value_index[kLooksUpKeys ? key : 0];
  return value_row(tile.batch, tile.kv_head, source_key(first_key, key, masked));
}

void look_up_keys(TilePosition tile, int first_key, uint keys, bool masked) {
  [[unroll]] for (uint k = 0; k < keys; ++k) {
    const uvec2 slot = key_slot(tile.batch, source_key(first_key, k, masked));
    key_index[kLooksUpKeys ? k : 0] = key_row_at(slot, tile.kv_head);
    value_index[kLooksUpKeys ? k : 0] = value_row_at(slot, tile.kv_head);
  }
}

// Adds q . k over 4 dims to the scores of `keys` keys.
void add_scores(TilePosition tile, int first_key, uint keys, bool masked, uint dim, bool full) {
  vec4 query[kRows];
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    query[r] = full ? query_full4(query_index[r], dim) : query_part4(query_index[r], dim);
  }
  [[unroll]] for (uint k = 0; k < keys; ++k) {
    const uint index = key_row_of(tile, first_key, k, masked);
    const vec4 key = full ? key_full4(index, dim) : key_part4(index, dim);
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      float score = probability[k * kRows + r];
      [[unroll]] for (uint d = 0; d < 4; ++d) score += query[r][d] * key[d];
      probability[k * kRows + r] = score;
    }
  }
}

// Adds q . k over kQuantisedQuads x 4 dims of quantised keys, which share one scale.
void add_quantised_scores(TilePosition tile, int first_key, uint keys, bool masked, uint dim) {
  vec4 query[kRows * kQuantisedQuads];
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    [[unroll]] for (uint q = 0; q < kQuantisedQuads; ++q) {
      query[r * kQuantisedQuads + q] = query_full4(query_index[r], dim + 4 * q);
    }
  }
  [[unroll]] for (uint k = 0; k < keys; ++k) {
    const uint index = key_row_of(tile, first_key, k, masked);
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

// Adds p . v for 4 dims (the first `dims` of them) to the rows' sums. Hidden V rows are skipped, not multiplied by 0.
void add_values(TilePosition tile, int first_key, uint keys, bool masked, uint dim, uint dims) {
  vec4 sum[kRows];
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    [[unroll]] for (uint d = 0; d < dims; ++d) sum[r][d] = load_sum(r, dim + d) * row_rescale[r];
  }
  [[unroll]] for (uint k = 0; k < keys; ++k) {
    const uint index = value_row_of(tile, first_key, k, masked);
    const vec4 value = dims == 4 ? value_full4(index, dim) : value_part4(index, dim);
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      const bool hidden = looks_for_hidden(masked) && probability[k * kRows + r] < 0.0;
      [[unroll]] for (uint d = 0; d < dims; ++d) {
        const float product = probability[k * kRows + r] * value[d];
        sum[r][d] += hidden ? 0.0 : product;
      }
    }
  }
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    [[unroll]] for (uint d = 0; d < dims; ++d) store_sum(r, dim + d, sum[r][d]);
  }
}

// Adds p . v for kQuantisedQuads x 4 dims of quantised values, which share one scale.
void add_quantised_values(TilePosition tile, int first_key, uint keys, bool masked, uint dim) {
  vec4 sum[kRows * kQuantisedQuads];
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    [[unroll]] for (uint d = 0; d < 4 * kQuantisedQuads; ++d) {
      sum[r * kQuantisedQuads + d / 4][d % 4] = load_sum(r, dim + d) * row_rescale[r];
    }
  }
  [[unroll]] for (uint k = 0; k < keys; ++k) {
    const uint index = value_row_of(tile, first_key, k, masked);
    const float scale = value_scale_of(index, dim);
    [[unroll]] for (uint q = 0; q < kQuantisedQuads; ++q) {
      const vec4 value = value_unscaled4(index, dim + 4 * q);
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        const bool hidden = looks_for_hidden(masked) && probability[k * kRows + r] < 0.0;
        const float weight = probability[k * kRows + r] * scale;
        [[unroll]] for (uint d = 0; d < 4; ++d) {
          const float product = weight * value[d];
          sum[r * kQuantisedQuads + q][d] += hidden ? 0.0 : product;
        }
      }
    }
  }
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    [[unroll]] for (uint d = 0; d < 4 * kQuantisedQuads; ++d) {
      store_sum(r, dim + d, sum[r * kQuantisedQuads + d / 4][d % 4]);
    }
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
    row_rescale[r] = rescale_factor(row_maximum[r], maximum);
    row_maximum[r] = maximum;
    float total = 0.0;
    [[unroll]] for (uint k = 0; k < keys; ++k) {
      const bool hidden =
          looks_for_hidden(masked) &&
          (kScoresHide ? probability[k * kRows + r] == kHiddenScore : is_hidden(r, first_key + int(k)));
      const float weight = exp2(probability[k * kRows + r] - maximum);
      probability[k * kRows + r] = hidden ? kHiddenProbability : is_kept(kept_keys[k / 32 * kRows + r], k % 32) ? weight : 0.0;
      total += hidden ? 0.0 : weight;
    }
    row_sum[r] = row_sum[r] * row_rescale[r] + total;
  }
}

// One step over `keys` keys. `keys` and `masked` are constants once inlined.
void attend(TilePosition tile, int first_key, uint keys, bool masked) {
  if (kLooksUpKeys) look_up_keys(tile, first_key, keys, masked);
  if (kHasDropout) look_up_kept(first_key, keys);
  [[unroll]] for (uint i = 0; i < keys * kRows; ++i) probability[i] = 0.0;
  if (kQuantisedKeys) {
    uint dim = 0;
    [[dont_unroll]] do {
      add_quantised_scores(tile, first_key, keys, masked, dim);
      dim += 4 * kQuantisedQuads;
    } while (dim < kHeadDim);
  } else if (kHeadDim >= 4) {
    uint dim = 0;
    [[dont_unroll]] do {
      add_scores(tile, first_key, keys, masked, dim, true);
      dim += 4;
    } while (dim + 4 <= kHeadDim);
  }
  if (kHeadDim % 4 != 0) add_scores(tile, first_key, keys, masked, kHeadDim - kHeadDim % 4, false);

  update_softmax(first_key, keys, masked);

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

void begin_rows(TilePosition tile, uint first_row, int kv_length, int part_end) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    // The last row stands for rows beyond it. It is this invocation's own, and all loads of a chunk precede its stores.
    const uint row = min(first_row + r, packed_row_count() - 1u);
    const uint head = packed_head(tile.kv_head, row);
    const uint query = packed_query(row);
    query_index[r] = query_row(tile.batch, head, query);
    result_index[r] = result_row(tile.batch, head, query, tile.split);
    sum_index[r] = kSumsInWorkspace ? partial_row(tile.batch, head, query, tile.split) : result_index[r];
    score_rows[r] = score_row(tile.batch, head, query);
    row_key_begin[r] = visible_key_begin(int(query), kv_length);
    row_key_end[r] = min(visible_key_end(int(query), kv_length), part_end);
    row_maximum[r] = start_score(head, tile.split);
    row_sum[r] = start_weight(head, tile.split);
  }
  [[dont_unroll]] for (uint dim = 0; dim < kValueDim; ++dim) {
    [[unroll]] for (uint r = 0; r < kRows; ++r) store_sum(r, dim, 0.0);
  }
}

void store_rows(TilePosition tile, uint first_row) {
  float inverse[kRows];
  [[unroll]] for (uint r = 0; r < kRows; ++r) inverse[r] = row_sum[r] == 0.0 ? 0.0 : drop_scale() / row_sum[r];
  [[dont_unroll]] for (uint dim = 0; dim < kValueDim; ++dim) {
    float result[kRows];
    [[unroll]] for (uint r = 0; r < kRows; ++r) result[r] = load_sum(r, dim) * inverse[r];
    [[unroll]] for (uint r = 0; r < kRows; ++r) store_result(result_index[r], dim, result[r]);
  }
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const uint row = first_row + r;
    if (row < packed_row_count()) {
      store_result_lse(result_index[r], tile.batch, packed_head(tile.kv_head, row), packed_query(row), row_maximum[r],
                       row_sum[r]);
    }
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
  store_rows(tile, first_row);
}
