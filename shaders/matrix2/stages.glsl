// Moves the staged form's tiles to shared memory, and from there into matrices. A workgroup stages a tile of keys and values
// once for all of its subgroups, each of which owns kRows rows. Quantised elements are float8. They are decoded when they are
// placed, so that nothing waits for the loads before that.
//   void load_queries()          the subgroup's queries, through the stage; those of blocks from kHeldBlocks on stay there,
//                                for load_staged_queries(queries, b)
//   void fetch_keys(first_key)   a thread's part of a tile, from memory to registers
//   void place_keys()            from registers to the stage
//   void load_keys(keys, b)      dims of block b of all keys of the tile, from the stage to a matrix
// fetch_values(), place_values() and load_values() do the same for values.
#ifndef VKATTN_MATRIX2_STAGES
#define VKATTN_MATRIX2_STAGES

#include "lib/matrix_barriers.glsl"
#include "lib/matrix_quantised.glsl"
#include "lib/shares.glsl"
#include "lib/tensor_bits.glsl"
#include "matrix2/softmax.glsl"
#include "shared/shared_memory.h"

layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kThreads = 128;
layout(constant_id = VKATTN_SPEC_MATRIX2_SUBGROUPS) const uint kSubgroups = 4;
layout(constant_id = VKATTN_SPEC_MATRIX2_QUERY_LOADS8) const bool kQueryLoads8 = false;

VKATTN_INPUT_BITS(query, kHeadDim, kQueryDimStride, kQueryLoads8, kQueryVectorLoads)
VKATTN_INPUT_BITS(key, kHeadDim, kKeyDimStride, kKeyLoads8, kKeyVectorLoads)
VKATTN_INPUT_BITS(value, kValueDim, kValueDimStride, kValueLoads8, kValueVectorLoads)

const uint kBlockRows = kSubgroups * kRows;
// Strides of rows in shared memory, and their lengths, in vectors of 8 elements.
const uint kHeadVectors = kHeadBlocks * kHeadBlock / 8;
const uint kValueVectors = kValueBlocks * kValueBlock / 8;
const uint kKeyStride8 = VKATTN_MATRIX_STRIDE(kHeadBlocks * kHeadBlock);
const uint kValueStride8 = VKATTN_MATRIX_STRIDE(kValueBlocks * kValueBlock);
const uint kFirstValue = kKeys * kKeyStride8;  // in the stage
// Vectors of a row's queries that go to registers, and strides of rows of both parts.
const uint kHeldVectors = kHeldBlocks * kHeadBlock / 8;
const uint kHeldStride8 = VKATTN_MATRIX_STRIDE(kHeldBlocks * kHeadBlock);
const uint kStagedStride8 = VKATTN_MATRIX_STRIDE((kHeadBlocks - kHeldBlocks) * kHeadBlock);
const uint kFirstStaged = VKATTN_MATRIX2_TILE_STAGE4(kBlockRows, kKeys, kHeadBlocks * kHeadBlock, kHeldBlocks * kHeadBlock,
                                                     kValueBlocks * kValueBlock, kValueBlock);
const uint kKeyFetches = (kKeys * kHeadVectors + kThreads - 1) / kThreads;
const uint kValueFetches = (kKeys * kValueVectors + kThreads - 1) / kThreads;
// The stride of a subgroup's output block on its way to memory, in float32.
const uint kOutputStride4 = VKATTN_MATRIX_SCORE_STRIDE4(kValueBlock);

// Queries for registers; then keys, with values behind them; at the end outputs. Behind it queries that stay.
shared uvec4 stage[VKATTN_MATRIX2_STAGE4(kBlockRows, kKeys, kHeadBlocks * kHeadBlock, kHeldBlocks * kHeadBlock,
                                         kValueBlocks * kValueBlock, kValueBlock)];

uvec4 key_fetch[kKeyFetches];
uvec4 value_fetch[kValueFetches];

// The last key stands for keys from keys.end on, which are never read.
uint existing_key(uint key, int first_key) { return uint(min(first_key + int(key), keys.end - 1)); }

// Returns at once if there is no tile: lavapipe 26.1 runs the body of a loop that is never entered once, under an empty
// mask, and crashes if it looks up pages then. Zeros beyond the row meet zeros of the queries.
void fetch_keys(int first_key) {
  if (first_key >= keys.end) return;
  [[unroll]] for (uint f = 0; f < kKeyFetches; ++f) {
    const uint i = unit_of_share(f, kKeys * kHeadVectors, kThreads);
    const uint row = key_row(tile.batch, tile.kv_head, existing_key(i / kHeadVectors, first_key));
    const uint dim = i % kHeadVectors * 8u;
    if (kKeysQuantised) {
      key_fetch[f].xy = key_float8_bytes8(row, dim);
    } else {
      key_fetch[f] = kHeadDim % kHeadBlock == 0 ? key_full_bits8(row, dim) : key_bits8(row, dim);
    }
  }
}

void place_keys() {
  [[unroll]] for (uint f = 0; f < kKeyFetches; ++f) {
    const uint i = unit_of_share(f, kKeys * kHeadVectors, kThreads);
    if (is_own_unit(f, kKeys * kHeadVectors, kThreads)) {
      stage[i / kHeadVectors * kKeyStride8 + i % kHeadVectors] =
          kKeysQuantised ? float8_operands8(key_fetch[f].xy) : key_fetch[f];
    }
  }
}

// Zeros for values from keys.end on: an infinity times a probability of 0 would be NaN.
void fetch_values(int first_key) {
  if (first_key >= keys.end) return;
  [[unroll]] for (uint f = 0; f < kValueFetches; ++f) {
    const uint i = unit_of_share(f, kKeys * kValueVectors, kThreads);
    const uint key = i / kValueVectors;
    const uint row = value_row(tile.batch, tile.kv_head, existing_key(key, first_key));
    const uint dim = i % kValueVectors * 8u;
    uvec4 elements = uvec4(0u);
    if (kValuesQuantised) {
      elements.xy = value_float8_bytes8(row, dim);
    } else {
      elements = kValueDim % kValueBlock == 0 ? value_full_bits8(row, dim) : value_bits8(row, dim);
    }
    value_fetch[f] = mix(uvec4(0u), elements, bvec4(first_key + int(key) < keys.end));
  }
}

void place_values() {
  [[unroll]] for (uint f = 0; f < kValueFetches; ++f) {
    const uint i = unit_of_share(f, kKeys * kValueVectors, kThreads);
    if (is_own_unit(f, kKeys * kValueVectors, kThreads)) {
      stage[kFirstValue + i / kValueVectors * kValueStride8 + i % kValueVectors] =
          kValuesQuantised ? float8_operands8(value_fetch[f].xy) : value_fetch[f];
    }
  }
}

void load_keys(out KeyMatrix matrix, uint block) {
  coopMatLoad(matrix, stage, block * (kHeadBlock / 8), kKeyStride8, gl_CooperativeMatrixLayoutColumnMajor);
}

void load_values(out ValueMatrix matrix, uint block) {
  coopMatLoad(matrix, stage, kFirstValue + block * (kValueBlock / 8), kValueStride8,
              gl_CooperativeMatrixLayoutRowMajor);
}

// The place in the stage of a vector of a row of queries.
uint query_place(uint row, uint vector) {
  return vector < kHeldVectors ? row * kHeldStride8 + vector
                               : kFirstStaged + row * kStagedStride8 + vector - kHeldVectors;
}

void load_staged_queries(out QueryMatrix matrix, uint block) {
  coopMatLoad(matrix, stage, kFirstStaged + gl_SubgroupID * kRows * kStagedStride8 + (block - kHeldBlocks) * (kHeadBlock / 8),
              kStagedStride8, gl_CooperativeMatrixLayoutRowMajor);
}

// The last row stands for rows beyond it; they are not stored. The whole workgroup calls this; the stage is free afterwards.
void load_queries() {
  for (uint i = gl_LocalInvocationIndex; i < kBlockRows * kHeadVectors; i += kThreads) {
    const uint packed = min(tile.first_row + i / kHeadVectors, packed_row_count() - 1u);
    const uint row = query_row(tile.batch, packed_head(tile.kv_head, packed), packed_query(packed));
    stage[query_place(i / kHeadVectors, i % kHeadVectors)] = query_bits8(row, i % kHeadVectors * 8u);
  }
  workgroup_barrier();  // the queries are complete
  [[unroll]] for (uint b = 0; b < kHeldBlocks; ++b) {
    coopMatLoad(queries[b], stage, gl_SubgroupID * kRows * kHeldStride8 + b * (kHeadBlock / 8), kHeldStride8,
                gl_CooperativeMatrixLayoutRowMajor);
  }
  workgroup_barrier();  // the queries were read before keys overwrite them
}

// Stores one block of value dims from the subgroup's part of the stage: sums that are divided already.
void store_outputs(uint block) {
  const uint first = gl_SubgroupID * kRows * kOutputStride4;
  for (uint i = gl_SubgroupInvocationID; i < kRows * kValueBlock; i += gl_SubgroupSize) {
    const uint row = i / kValueBlock;
    const uint column = i % kValueBlock;
    const uint dim = block * kValueBlock + column;
    const uint packed = first_row + row;
    if (packed >= packed_row_count() || dim >= kValueDim) continue;
    const uint target = result_row(tile.batch, packed_head(tile.kv_head, packed), packed_query(packed), tile.split);
    store_result(target, dim, uintBitsToFloat(stage[first + row * kOutputStride4 + column / 4][column % 4]));
  }
}

// Stores a matrix of sums. The whole subgroup calls this.
void store_block(uint block) {
  subgroup_barrier();  // the block before was read
  coopMatStore(sums[block], stage, gl_SubgroupID * kRows * kOutputStride4, kOutputStride4,
               gl_CooperativeMatrixLayoutRowMajor);
  subgroup_barrier();  // this block is complete
  store_outputs(block);
}

#endif
