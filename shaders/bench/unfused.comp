// Attention in three passes with the score matrix in memory: scores, softmax, weighted sum. Fused kernels are measured against
// this baseline. It is never selected, since its workspace grows with query_length x kv_length.
//
// An invocation owns kRows rows of a tile. The matrix is stored key by key, so that neighbouring invocations, which own
// neighbouring rows, use neighbouring addresses in every pass. A whole workgroup reads K and V at one address.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/grid.glsl"
#include "lib/key_ranges.glsl"
#include "lib/online_softmax.glsl"
#include "lib/tensors.glsl"
#include "shared/unfused_constants.h"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 64;
layout(constant_id = VKATTN_SPEC_UNFUSED_PASS) const uint kPass = VKATTN_UNFUSED_SCORES;
layout(constant_id = VKATTN_SPEC_UNFUSED_ROWS) const uint kRows = 1;
layout(constant_id = VKATTN_SPEC_UNFUSED_KEYS) const uint kKeys = 16;  // keys of a workgroup of the first pass

const uint kDims = 16;  // dims of the output that are computed at a time

// Scores in log2 units, then probabilities.
layout(set = 0, binding = VKATTN_BINDING_PARTIALS, std430) buffer Scores { float scores[]; };

TilePosition tile;

// The invocation's r-th row, and the row that is read for it: the last row stands for rows beyond it.
uint packed_row(uint r) { return tile.first_row + gl_LocalInvocationIndex + r * kWorkgroupSize; }
uint source_row(uint r) { return min(packed_row(r), packed_row_count() - 1u); }
bool is_row(uint r) { return packed_row(r) < packed_row_count(); }

uint score_index(uint r, uint key) {
  const uint kv_heads = params.query_heads / params.heads_per_kv;
  return ((tile.batch * kv_heads + tile.kv_head) * params.kv_length + key) * packed_row_count() + source_row(r);
}

int row_key_end(uint r, int kv_length) { return visible_key_end(int(packed_query(source_row(r))), kv_length); }

void compute_scores() {
  const uint first_key = tile.split * kKeys;
  uint query_index[kRows];
  float products[kRows * kKeys];
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    query_index[r] =
        query_row(tile.batch, packed_head(tile.kv_head, source_row(r)), packed_query(source_row(r)));
  }
  [[unroll]] for (uint i = 0; i < kRows * kKeys; ++i) products[i] = 0.0;
  uint dim = 0;
  [[dont_unroll]] do {
    vec4 query[kRows];
    [[unroll]] for (uint r = 0; r < kRows; ++r) query[r] = query_at4(query_index[r], dim);
    [[unroll]] for (uint k = 0; k < kKeys; ++k) {
      const uint source_key = min(first_key + k, params.kv_length - 1u);
      const vec4 key = key_at4(key_row(tile.batch, tile.kv_head, source_key), dim);
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        [[unroll]] for (uint d = 0; d < 4; ++d) products[k * kRows + r] += query[r][d] * key[d];
      }
    }
    dim += 4;
  } while (dim < kHeadDim);
  [[unroll]] for (uint k = 0; k < kKeys; ++k) {
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      if (first_key + k < params.kv_length && is_row(r)) {
        scores[score_index(r, first_key + k)] = products[k * kRows + r] * params.scale_log2;
      }
    }
  }
}

void normalize_row(uint r, int kv_length) {
  const int key_end = row_key_end(r, kv_length);
  float maximum = kHiddenScore;
  for (int key = 0; key < key_end; ++key) maximum = max(maximum, scores[score_index(r, uint(key))]);
  float sum = 0.0;
  float block_sum = 0.0;  // added every kKeys keys: a long sum would round each probability just below 1 up
  for (int key = 0; key < key_end; ++key) {
    const float probability = exp2(scores[score_index(r, uint(key))] - maximum);
    scores[score_index(r, uint(key))] = probability;
    block_sum += probability;
    if (uint(key) % kKeys == kKeys - 1u) {
      sum += block_sum;
      block_sum = 0.0;
    }
  }
  sum += block_sum;
  const float inverse = sum == 0.0 ? 0.0 : 1.0 / sum;
  for (int key = 0; key < key_end; ++key) scores[score_index(r, uint(key))] *= inverse;
  store_lse(tile.batch, packed_head(tile.kv_head, packed_row(r)), packed_query(packed_row(r)), maximum, sum);
}

// Computes kDims dims of the output. Keys beyond a row's own end are skipped, not multiplied by 0.
void weigh_values(uint first_dim, int kv_length) {
  vec4 sums[kRows * (kDims / 4)];
  int row_end[kRows];
  [[unroll]] for (uint i = 0; i < kRows * (kDims / 4); ++i) sums[i] = vec4(0.0);
  [[unroll]] for (uint r = 0; r < kRows; ++r) row_end[r] = row_key_end(r, kv_length);
  const uint last_row = min(tile.first_row + kWorkgroupSize * kRows, packed_row_count()) - 1u;
  const int key_end = visible_key_end(int(packed_query(last_row)), kv_length);
  for (int key = 0; key < key_end; ++key) {
    const uint value_index = value_row(tile.batch, tile.kv_head, uint(key));
    float probability[kRows];
    [[unroll]] for (uint r = 0; r < kRows; ++r) probability[r] = scores[score_index(r, uint(key))];
    [[unroll]] for (uint n = 0; n < kDims / 4; ++n) {
      const vec4 value = value_at4(value_index, first_dim + n * 4);
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        [[unroll]] for (uint d = 0; d < 4; ++d) {
          const float product = probability[r] * value[d];
          sums[r * (kDims / 4) + n][d] += key < row_end[r] ? product : 0.0;
        }
      }
    }
  }
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    if (!is_row(r)) continue;
    const uint target = output_row(tile.batch, packed_head(tile.kv_head, packed_row(r)), packed_query(packed_row(r)));
    [[unroll]] for (uint d = 0; d < kDims; ++d) {
      if (first_dim + d < kValueDim) store_output(target, first_dim + d, sums[r * (kDims / 4) + d / 4][d % 4]);
    }
  }
}

// Only the first pass has a workgroup for each block of keys.
TilePosition own_tile() {
  if (kPass == VKATTN_UNFUSED_SCORES) return tile_position(kWorkgroupSize * kRows);
  const uint index = params.first_tile + gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  return position_of(index, 0u, kWorkgroupSize * kRows);
}

void main() {
  tile = own_tile();
  if (!tile.valid) return;
  const int kv_length = visible_kv_length(tile.batch);
  if (kPass == VKATTN_UNFUSED_SCORES) {
    if (params.kv_length != 0) compute_scores();
  } else if (kPass == VKATTN_UNFUSED_SOFTMAX) {
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      if (is_row(r)) normalize_row(r, kv_length);
    }
  } else {
    [[dont_unroll]] for (uint dim = 0; dim < kValueDim; dim += kDims) weigh_values(dim, kv_length);
  }
}
