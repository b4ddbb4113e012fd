// Attention tiled through shared memory, for GPUs without matrix units. A workgroup owns a block of query rows;
// it stages blocks of keys and values, so that each is read from memory once per block of rows.
//
// Threads form a grid of kColumns x (workgroup size / kColumns). In the scores a thread owns kRows rows and every
// kColumns-th key of the block; in the output the same rows and 4 dims of every 4 * kColumns.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "lib/tensors.glsl"
#include "lib/mask.glsl"
#include "lib/online_softmax.glsl"
#include "lib/partials.glsl"
#include "lib/grid.glsl"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kThreads = 128;
layout(constant_id = VKATTN_SPEC_TILE_COLUMNS) const uint kColumns = 16;
layout(constant_id = VKATTN_SPEC_TILE_ROWS) const uint kRows = 4;
layout(constant_id = VKATTN_SPEC_TILE_KEYS) const uint kKeys = 2;
layout(constant_id = VKATTN_SPEC_TILE_DIM_CHUNK) const uint kDimChunk = 32;

const uint kBlockRows = kThreads / kColumns * kRows;
const uint kBlockKeys = kColumns * kKeys;
const uint kValueChunk = kColumns * 4;                               // dims of the output staged at a time
const uint kValueChunks = (kValueDim + kValueChunk - 1) / kValueChunk;
// Rows of shared memory are skewed by 16 bytes so that a column of threads falls into different banks.
const uint kDimStride4 = kDimChunk / 4 + 1;
const uint kValueStride4 = kColumns + 1;
const uint kProbabilityStride4 = kBlockKeys / 4 + 1;
const uint kKeyStage4 = kBlockKeys * kDimStride4;
const uint kValueStage4 = kBlockKeys * kValueStride4;

shared vec4 query_stage[kBlockRows * kDimStride4];
shared vec4 kv_stage[kKeyStage4 > kValueStage4 ? kKeyStage4 : kValueStage4];  // first keys, then values
shared vec4 probability_stage[kBlockRows * kProbabilityStride4];
shared float reduce_stage[kBlockRows * (kColumns + 1)];

vec4 accumulator[kRows * kValueChunks];
float scores[kRows * kKeys];
float row_maximum[kRows];
float row_sum[kRows];  // of this thread's keys only, until finish()

TilePosition tile;
uint column;        // 0 .. kColumns - 1
uint block_row;     // the first of this thread's rows in the block
int row_key_end[kRows];  // a row sees keys 0 .. end - 1

void stage_queries(uint dim) {
  for (uint i = gl_LocalInvocationIndex; i < kBlockRows * (kDimChunk / 4); i += kThreads) {
    const uint row = i / (kDimChunk / 4);
    const uint dim4 = i % (kDimChunk / 4);
    // Rows beyond the last repeat it; they are not stored.
    const uint packed = min(tile.first_row + row, packed_row_count() - 1u);
    const uint source = query_row(tile.batch, packed_head(tile.kv_head, packed), packed_query(packed));
    query_stage[row * kDimStride4 + dim4] = query_at4(source, dim + dim4 * 4u);
  }
}

void stage_keys(int first_key, int key_end, uint dim) {
  for (uint i = gl_LocalInvocationIndex; i < kBlockKeys * (kDimChunk / 4); i += kThreads) {
    const uint key = i / (kDimChunk / 4);
    const uint dim4 = i % (kDimChunk / 4);
    vec4 elements = vec4(0.0);
    if (first_key + int(key) < key_end) {
      elements = key_at4(key_row(tile.batch, tile.kv_head, uint(first_key) + key), dim + dim4 * 4u);
    }
    kv_stage[key * kDimStride4 + dim4] = elements;
  }
}

void stage_values(int first_key, int key_end, uint dim) {
  for (uint i = gl_LocalInvocationIndex; i < kBlockKeys * kColumns; i += kThreads) {
    const uint key = i / kColumns;
    const uint dim4 = i % kColumns;
    vec4 elements = vec4(0.0);
    if (first_key + int(key) < key_end && dim + dim4 * 4u < kValueDim) {
      elements = value_at4(value_row(tile.batch, tile.kv_head, uint(first_key) + key), dim + dim4 * 4u);
    }
    kv_stage[key * kValueStride4 + dim4] = elements;
  }
}

// scores = Q K^T for the block, in log2 units.
void compute_scores(int first_key, int key_end) {
  [[unroll]] for (uint i = 0; i < kRows * kKeys; ++i) scores[i] = 0.0;
  for (uint dim = 0; dim < kHeadDim; dim += kDimChunk) {
    barrier();  // the stages are still read: by the previous chunk, or kv_stage by the previous block's values
    stage_queries(dim);
    stage_keys(first_key, key_end, dim);
    barrier();  // the stages are complete
    for (uint dim4 = 0; dim4 < kDimChunk / 4; ++dim4) {
      vec4 keys[kKeys];
      [[unroll]] for (uint k = 0; k < kKeys; ++k) keys[k] = kv_stage[(column + k * kColumns) * kDimStride4 + dim4];
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        const vec4 query = query_stage[(block_row + r) * kDimStride4 + dim4];
        [[unroll]] for (uint k = 0; k < kKeys; ++k) scores[r * kKeys + k] += dot(query, keys[k]);
      }
    }
  }
  [[unroll]] for (uint i = 0; i < kRows * kKeys; ++i) scores[i] *= params.scale_log2;
}

bool is_visible(uint r, uint key_in_block, int first_key) { return first_key + int(key_in_block) < row_key_end[r]; }

// Raises each row's maximum, rescales what was accumulated, and turns scores into probabilities in shared memory.
void update_softmax(int first_key, bool masked) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    float maximum = kHiddenScore;
    [[unroll]] for (uint k = 0; k < kKeys; ++k) {
      if (!masked || is_visible(r, column + k * kColumns, first_key)) {
        maximum = max(maximum, scores[r * kKeys + k]);
      }
    }
    reduce_stage[(block_row + r) * (kColumns + 1) + column] = maximum;
  }
  barrier();  // reduce_stage is complete; probability_stage was last read before a barrier of compute_scores()
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    float maximum = row_maximum[r];
    for (uint c = 0; c < kColumns; ++c) {
      maximum = max(maximum, reduce_stage[(block_row + r) * (kColumns + 1) + c]);
    }
    const float rescale = rescale_factor(row_maximum[r], maximum);
    row_maximum[r] = maximum;
    row_sum[r] *= rescale;
    [[unroll]] for (uint n = 0; n < kValueChunks; ++n) accumulator[r * kValueChunks + n] *= rescale;
    [[unroll]] for (uint k = 0; k < kKeys; ++k) {
      const uint key = column + k * kColumns;
      float probability = kHiddenProbability;
      if (!masked || is_visible(r, key, first_key)) {
        probability = exp2(scores[r * kKeys + k] - maximum);
        row_sum[r] += probability;
      }
      probability_stage[(block_row + r) * kProbabilityStride4 + key / 4][key % 4] = probability;
    }
  }
}

// accumulator += P V for one chunk of dims. A masked block leaves hidden V rows out: 0 times NaN would be NaN.
void accumulate_values(uint n, bool masked) {
  for (uint key4 = 0; key4 < kBlockKeys / 4; ++key4) {
    vec4 values[4];
    [[unroll]] for (uint k = 0; k < 4; ++k) values[k] = kv_stage[(key4 * 4 + k) * kValueStride4 + column];
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      const vec4 probability = probability_stage[(block_row + r) * kProbabilityStride4 + key4];
      vec4 sum = accumulator[r * kValueChunks + n];
      if (masked) {
        [[unroll]] for (uint k = 0; k < 4; ++k) {
          if (!(probability[k] < 0.0)) sum += probability[k] * values[k];
        }
      } else {
        [[unroll]] for (uint k = 0; k < 4; ++k) sum += probability[k] * values[k];
      }
      accumulator[r * kValueChunks + n] = sum;
    }
  }
}

void process_block(int first_key, int key_end, bool masked) {
  compute_scores(first_key, key_end);
  update_softmax(first_key, masked);
  [[unroll]] for (uint n = 0; n < kValueChunks; ++n) {
    barrier();  // kv_stage is still read: keys by compute_scores(), or the previous chunk; probabilities complete
    stage_values(first_key, key_end, n * kValueChunk);
    barrier();  // kv_stage is complete
    accumulate_values(n, masked);
  }
}

void store_rows() {
  barrier();  // reduce_stage is still read by the last block
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    reduce_stage[(block_row + r) * (kColumns + 1) + column] = row_sum[r];
  }
  barrier();  // reduce_stage is complete
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    float sum = 0.0;
    for (uint c = 0; c < kColumns; ++c) sum += reduce_stage[(block_row + r) * (kColumns + 1) + c];
    const uint packed = tile.first_row + block_row + r;
    if (packed >= packed_row_count()) continue;
    const float inverse = sum == 0.0 ? 0.0 : 1.0 / sum;
    const uint head = packed_head(tile.kv_head, packed);
    const uint query = packed_query(packed);
    const uint target = result_row(tile.batch, head, query, tile.split);
    [[unroll]] for (uint n = 0; n < kValueChunks; ++n) {
      [[unroll]] for (uint d = 0; d < 4; ++d) {
        const uint dim = n * kValueChunk + column * 4 + d;
        if (dim < kValueDim) store_result(target, dim, accumulator[r * kValueChunks + n][d] * inverse);
      }
    }
    if (column == 0) store_result_lse(target, tile.batch, head, query, row_maximum[r], sum);
  }
}

void main() {
  tile = tile_position(kBlockRows);
  if (!tile.valid) return;  // uniform over the workgroup, so no barrier is missed
  column = gl_LocalInvocationIndex % kColumns;
  block_row = gl_LocalInvocationIndex / kColumns * kRows;
  const int kv_length = visible_kv_length(tile.batch);
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const uint query = packed_query(tile.first_row + block_row + r);
    row_key_end[r] = min(visible_key_end(int(query), kv_length), split_end(tile.split));
    row_maximum[r] = kHiddenScore;
    row_sum[r] = 0.0;
  }
  [[unroll]] for (uint i = 0; i < kRows * kValueChunks; ++i) accumulator[i] = vec4(0.0);

  const uint last_row = min(tile.first_row + kBlockRows, packed_row_count()) - 1u;
  // Of this part of the keys, some row sees those before key_end, and every row those before full_end.
  const int key_end = min(visible_key_end(int(packed_query(last_row)), kv_length), split_end(tile.split));
  const int full_end = visible_key_end(int(packed_query(tile.first_row)), kv_length);
  for (int first_key = split_begin(tile.split); first_key < key_end; first_key += int(kBlockKeys)) {
    process_block(first_key, key_end, first_key + int(kBlockKeys) > min(full_end, key_end));
  }
  store_rows();
}
