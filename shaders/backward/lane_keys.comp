// The keys' pass of the backward pass without barriers or shared memory: an invocation computes dK and dV of kKeys
// neighbouring keys of a chunk and one KV head, from all rows of the query heads that share this KV head.
//
//                    kRows rows of a step
//                  +------------------------------+
//   invocation 0   | kKeys x kRows pairs: p, dS   |  x dO = dV, x Q = dK; their sums lie in memory,
//   invocation 1   | its own keys, the same rows  |  4 dims at a time are in registers
//   ...            +------------------------------+
//
// Budget. Example: 8 invocations of 4 keys x 64 rows, d dims of e = 4 bytes in Q and dO.
//   registers      2 * kKeys * kRows factors + 2 * kRows places of rows + 4 * (kKeys + 1) sums and a row = 512 + 128 +
//                  20; a CPU keeps most of them in its cache
//   shared memory  none
//   memory         each multiply-add reads e / (kKeys * kWorkgroupSize) bytes of Q and dO + 4 / kRows of sums + 4 / d
//                  of pairs = 1/8 + 1/16 + 1/16 at 64 dims, and writes 4 / kRows of sums
//
// The rows' pass has left probabilities (p) and gradients of scores (dS) in the workspace.
//
// Lost on lavapipe (docs/trials/lavapipe.md): 8 keys an invocation, equal; chunks of 4 MiB of pairs in place of 8, 1.08 of the
// time; dK and dV cleared and scaled by 8 bytes, at most 1 % gained; fma(), which is a multiplication and an addition there.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/by_address.glsl"

#define VKATTN_QUERIES_BY_ADDRESS kByAddress

#include "backward/pairs.glsl"
#include "backward/step_ranges.glsl"
#include "lib/dropout.glsl"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 8;
layout(constant_id = VKATTN_SPEC_STEP_KEYS) const uint kKeys = 4;
layout(constant_id = VKATTN_SPEC_STEP_ROWS) const uint kRows = 32;
layout(constant_id = VKATTN_SPEC_MASKED_STEP) const uint kMaskedRows = 4;
layout(constant_id = VKATTN_SPEC_FULL_STEPS) const bool kHasFullSteps = true;  // else one of masked steps alone

// An invocation's arrays are globals, as GLSL passes arrays by copying them.
uint keys[kKeys], place[kKeys];                            // the invocation's keys, and their pairs' places in a row
uint key_index[kKeys], value_index[kKeys];                 // of the gradients' first elements
uint key_sum_index[kKeys], value_sum_index[kKeys];
uint query_index[kRows], grad_output_index[kRows];         // of the step's rows, equal in the whole workgroup
float weight[kRows * kKeys], gradient[kRows * kKeys];      // by row

// The last row stands for rows beyond it, with weights of 0.
uint source_row(uint first_row, uint r, bool masked) {
  return masked ? min(first_row + r, packed_row_count() - 1u) : first_row + r;
}

void load_pairs(ChunkTile tile, int kv_length, uint first_row, uint rows, uint end_row, bool masked) {
  [[unroll]] for (uint r = 0; r < rows; ++r) {
    const uint packed = source_row(first_row, r, masked);
    const uint head = packed_head(tile.kv_head, packed);
    const uint query = packed_query(packed);
    query_index[r] = query_row(tile.batch, head, query);
    grad_output_index[r] = grad_output_row(tile.batch, head, query);
    const uint pair = pair_row(tile.batch, head, query) - (kPairTile == 0u ? tile.chunk * params.split_keys : 0u);
    [[unroll]] for (uint k = 0; k < kKeys; ++k) {
      const vec2 found = load_pair(pair + place[k]);
      const bool visible = !masked || (first_row + r < end_row && sees_key(int(query), int(keys[k]), kv_length));
      weight[r * kKeys + k] = visible ? found.x : 0.0;
      gradient[r * kKeys + k] = visible ? found.y : 0.0;
    }
  }
}

// Adds dO times the weights to 4 dims (the first `dims` of them) of the values' gradients. It skips rows that do not see a
// key, rather than multiply them by 0.
void add_grad_outputs(uint rows, bool masked, uint dim, uint dims) {
  vec4 sum[kKeys];
  [[unroll]] for (uint k = 0; k < kKeys; ++k) {
    sum[k] = load_grad_value_sums(value_index[k], value_sum_index[k], dim, dims);
  }
  [[unroll]] for (uint r = 0; r < rows; ++r) {
    const vec4 grad = dims == 4 ? grad_output_full4(grad_output_index[r], dim) : grad_output_part4(grad_output_index[r], dim);
    [[unroll]] for (uint k = 0; k < kKeys; ++k) {
      const float factor = weight[r * kKeys + k];
      [[unroll]] for (uint d = 0; d < dims; ++d) {
        const float term = factor * grad[d];
        sum[k][d] += masked && factor == 0.0 ? 0.0 : term;
      }
    }
  }
  uint bits = 0;
  [[unroll]] for (uint k = 0; k < kKeys; ++k) bits |= bits_of(sum[k]);
  [[unroll]] for (uint k = 0; k < kKeys; ++k) {
    store_grad_value_sums(value_index[k], value_sum_index[k], dim, dims, with_bits(sum[k], bits, params.kv_length));
  }
}

// Adds q times the gradients of the scores to 4 dims (the first `dims` of them) of the keys' gradients, in the same way.
void add_queries(uint rows, bool masked, uint dim, uint dims) {
  vec4 sum[kKeys];
  [[unroll]] for (uint k = 0; k < kKeys; ++k) {
    sum[k] = load_grad_key_sums(key_index[k], key_sum_index[k], dim, dims);
  }
  [[unroll]] for (uint r = 0; r < rows; ++r) {
    const vec4 query =
        scaled_operand(dims == 4 ? query_full4(query_index[r], dim) : query_part4(query_index[r], dim));
    [[unroll]] for (uint k = 0; k < kKeys; ++k) {
      const float factor = gradient[r * kKeys + k];
      [[unroll]] for (uint d = 0; d < dims; ++d) {
        const float term = factor * query[d];
        sum[k][d] += masked && factor == 0.0 ? 0.0 : term;
      }
    }
  }
  uint bits = 0;
  [[unroll]] for (uint k = 0; k < kKeys; ++k) bits |= bits_of(sum[k]);
  [[unroll]] for (uint k = 0; k < kKeys; ++k) {
    store_grad_key_sums(key_index[k], key_sum_index[k], dim, dims, with_bits(sum[k], bits, params.kv_length));
  }
}

// One step over `rows` rows, of which those before end_row count. `rows` and `masked` are constants once inlined.
void visit(ChunkTile tile, int kv_length, uint first_row, uint rows, uint end_row, bool masked) {
  load_pairs(tile, kv_length, first_row, rows, end_row, masked);
  if (kHasGradValue) {
    if (kValueDim >= 4) {
      uint dim = 0;
      [[dont_unroll]] do {
        add_grad_outputs(rows, masked, dim, 4);
        dim += 4;
      } while (dim + 4 <= kValueDim);
    }
    if (kValueDim % 4 != 0) add_grad_outputs(rows, masked, kValueDim - kValueDim % 4, kValueDim % 4);
  }
  if (!kHasGradKey) return;
  if (kHeadDim >= 4) {
    uint dim = 0;
    [[dont_unroll]] do {
      add_queries(rows, masked, dim, 4);
      dim += 4;
    } while (dim + 4 <= kHeadDim);
  }
  if (kHeadDim % 4 != 0) add_queries(rows, masked, kHeadDim - kHeadDim % 4, kHeadDim % 4);
}

// The last key with memory stands for keys beyond it. It is this invocation's own, and all loads precede its stores.
void begin_keys(ChunkTile tile, uint first_key, uint last_key) {
  [[unroll]] for (uint k = 0; k < kKeys; ++k) {
    keys[k] = min(first_key + k, last_key);
    place[k] = kPairTile == 0u ? keys[k] : pair_place(keys[k] - tile.chunk * params.split_keys);
    key_index[k] = grad_key_row(tile.batch, tile.kv_head, keys[k]);
    value_index[k] = grad_value_row(tile.batch, tile.kv_head, keys[k]);
    const uint in_chunk = first_key + k - tile.chunk * params.split_keys;
    const uint number = (tile.batch * backward.kv_heads + tile.kv_head) * params.split_keys + in_chunk;
    key_sum_index[k] = backward.key_sums + number * kHeadDim;
    value_sum_index[k] = backward.value_sums + number * kValueDim;
  }
  if (kHasGradKey) {
    [[dont_unroll]] for (uint dim = 0; dim < kHeadDim; ++dim) {
      [[unroll]] for (uint k = 0; k < kKeys; ++k) store_grad_key_sum(key_index[k], key_sum_index[k], dim, 0.0);
    }
  }
  if (kHasGradValue) {
    [[dont_unroll]] for (uint dim = 0; dim < kValueDim; ++dim) {
      [[unroll]] for (uint k = 0; k < kKeys; ++k) store_grad_value_sum(value_index[k], value_sum_index[k], dim, 0.0);
    }
  }
}

void visit_rows(ChunkTile tile, int kv_length, RowRange rows) {
  const StepRange steps = step_range(int(rows.begin), int(rows.end), int(kHasFullSteps ? rows.full_begin : rows.begin),
                                     int(kHasFullSteps ? rows.full_end : rows.begin), int(kMaskedRows), int(kRows));
  int full = steps.full_begin;
  if (kHasFullSteps && full < steps.full_end) {  // loops are tested at their end, see lib/key_walk.glsl
    [[dont_unroll]] do {
      visit(tile, kv_length, uint(full), kRows, uint(steps.full_end), false);
      full += int(kRows);
    } while (full < steps.full_end);
  }
  int row = first_masked(steps);
  if (row < steps.end) {
    [[dont_unroll]] do {
      visit(tile, kv_length, uint(row), kMaskedRows, uint(steps.end), true);
      row = next_masked(steps, row, int(kMaskedRows));
    } while (row < steps.end);
  }
}

void store_keys() {
  if (kHasGradKey) {
    [[dont_unroll]] for (uint dim = 0; dim < kHeadDim; ++dim) {
      float result[kKeys];
      [[unroll]] for (uint k = 0; k < kKeys; ++k) {
        result[k] = load_grad_key_sum(key_index[k], key_sum_index[k], dim) * backward.sum_scale;
      }
      [[unroll]] for (uint k = 0; k < kKeys; ++k) store_grad_key(key_index[k], dim, result[k]);
    }
  }
  if (kHasGradValue) {
    [[dont_unroll]] for (uint dim = 0; dim < kValueDim; ++dim) {
      float result[kKeys];
      [[unroll]] for (uint k = 0; k < kKeys; ++k) result[k] = load_grad_value_sum(value_index[k], value_sum_index[k], dim) * drop_scale();
      [[unroll]] for (uint k = 0; k < kKeys; ++k) store_grad_value(value_index[k], dim, result[k]);
    }
  }
}

void main() {
  const uint tile_keys = kWorkgroupSize * kKeys;
  const ChunkTile tile = chunk_tile(params.split_keys, tile_keys);
  if (!tile.valid) return;
  const int kv_length = visible_kv_length(tile.batch);
  // Keys behind a batch entry's last key get gradients of 0. If keys are packed, they belong to other entries.
  const uint key_count = kKeyMapping == VKATTN_KEYS_PACKED ? uint(kv_length) : params.kv_length;
  const uint tile_begin = tile.chunk * params.split_keys + tile.first;
  const uint first_key = tile_begin + gl_LocalInvocationIndex * kKeys;
  if (first_key >= key_count) return;
  begin_keys(tile, first_key, key_count - 1u);
  // The rows are the same for the whole workgroup. Keys beyond the last are not visited, so they make no step a masked one.
  const uint tile_end = min(tile_begin + tile_keys, key_count);
  visit_rows(tile, kv_length, rows_of_keys(int(tile_begin), int(tile_end), kv_length));
  store_keys();
}
