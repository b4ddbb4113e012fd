// What the workgroup of the matrix kernel holds: the shape of its tile, the stages in shared memory, the matrices in
// registers, and the loads and stores between stages and matrices.
#ifndef VKATTN_MATRIX_STAGES
#define VKATTN_MATRIX_STAGES

#include "lib/grid.glsl"
#include "lib/matrix_barriers.glsl"
#include "matrix/operands.glsl"
#include "shared/shared_memory.h"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;

const uint kSubgroups = kThreads / kSubgroupSize;
const uint kSubgroupRows = kRowBlocks * kM;
const uint kBlockRows = kSubgroups * kSubgroupRows;
const uint kHeadBlocks = (kHeadDim + kK - 1) / kK;      // blocks along the head dimension, the last padded with zeros
const uint kKeyBlocks = kBlockKeys / kN;                // blocks of a tile's scores
const uint kProductBlocks = kBlockKeys / kK;            // blocks of these keys as operands of P V
const uint kValueBlocks = kSliceDims / kN;              // blocks of the slice of value dims
const uint kSlices = (kValueDim + kSliceDims - 1) / kSliceDims;

// Strides of rows in shared memory, in units of 16 bytes: 8 elements, or 4 of float32.
const uint kKeyStride8 = VKATTN_MATRIX_STRIDE(kHeadBlocks * kK);
const uint kValueStride8 = VKATTN_MATRIX_STRIDE(kValuesTransposed ? kBlockKeys : kSliceDims);
const uint kScoreStride4 = VKATTN_MATRIX_SCORE_STRIDE4(kBlockKeys);
const uint kStageDims = kBlockKeys * 2;                 // 16-bit elements in a row of a subgroup's stage
const uint kStageOperands = kStageDims / kK;            // blocks of queries in a row of it
const uint kStageBlocks = kBlockKeys / kN;              // output blocks in a row of it

// A lane owns kLaneRows rows of its subgroup, or shares one with kRowLanes - 1 others.
const uint kRowLanes = kSubgroupSize > kSubgroupRows ? kSubgroupSize / kSubgroupRows : 1;
const uint kLaneRows = kSubgroupSize > kSubgroupRows ? 1 : kSubgroupRows / kSubgroupSize;
const uint kLaneKeys8 = kBlockKeys / kRowLanes / 8;

// Vectors that a thread moves from memory to shared memory for a tile. A vector is 8 elements; values come in pairs of
// vectors.
const uint kKeyVectors = kBlockKeys * (kKeyStride8 - 1);
const uint kValueVectors = kBlockKeys / 2 * (kSliceDims / 8);
const uint kKeyFetches = (kKeyVectors + kThreads - 1) / kThreads;
const uint kValueFetches = (kValueVectors + kThreads - 1) / kThreads;
// Vectors in flight without prefetch: 16 registers of keys, 16 of values.
const uint kKeyBatch = kKeyFetches < 4 ? kKeyFetches : 4;
const uint kValueBatch = kValueFetches < 2 ? kValueFetches : 2;

// Each stage takes whole units of 16 bytes, so each begins at a multiple of 16 bytes, as loads of matrices require.
shared uvec4 key_stage[VKATTN_MATRIX_KEY_STAGE4(kBlockKeys, kHeadBlocks * kK)];
shared uvec4 value_stage[VKATTN_MATRIX_VALUE_STAGE4(kBlockKeys, kSliceDims, kValuesTransposed)];
shared uvec4 query_stage[VKATTN_MATRIX_QUERY_STAGE4(kBlockRows, kHeadBlocks * kK, kQueryInRegisters)];
// For each subgroup: scores, then probabilities, at the end outputs.
shared uvec4 score_stage[VKATTN_MATRIX_SCORE_STAGE4(kBlockRows, kBlockKeys)];
shared float factor_stage[VKATTN_MATRIX_FACTOR_STAGE4(kBlockRows) * 4];  // for each subgroup: a factor of each row

// A lane's arrays are globals, as GLSL passes arrays by copying them.
MatrixA query_blocks[kQueryInRegisters ? kRowBlocks * kHeadBlocks : 1];
MatrixC sums[kRowBlocks * kValueBlocks];
uvec4 key_fetch[kPrefetch ? kKeyFetches : 1];
uvec4 value_fetch[kPrefetch ? kValueFetches * 2 : 1];

// A lane's place: the subgroup's first row in the block, the lane's first row in the subgroup, and the lane's part of the
// kRowLanes parts of a row. As functions, compilers would compute them again in each loop.
uint subgroup_row = gl_SubgroupID * kSubgroupRows;
uint lane_row = kRowLanes > 1 ? gl_SubgroupInvocationID % kSubgroupRows : gl_SubgroupInvocationID;
uint lane_part = kRowLanes > 1 ? gl_SubgroupInvocationID / kSubgroupRows : 0;

// Loads of operands from their stages or registers: queries of rows r * kM on and block b of the head dims; keys of block b
// of the head dims and block n of the tile's keys; values of block b of the keys and block n of the value dims. These are
// macros, as functions that return matrices cost 1 % of the kernel's instructions on RADV (Mesa 25.0).
#define VKATTN_LOAD_QUERIES(TARGET, R, B)                                                                             \
  if (kQueryInRegisters) {                                                                                            \
    TARGET = query_blocks[(R) * kHeadBlocks + (B)];                                                                   \
  } else {                                                                                                            \
    coopMatLoad(TARGET, query_stage, (subgroup_row + (R) * kM) * kKeyStride8 + (B) * (kK / 8), kKeyStride8,           \
                gl_CooperativeMatrixLayoutRowMajor);                                                                  \
  }
#define VKATTN_LOAD_KEYS(TARGET, B, N)                                                                                \
  coopMatLoad(TARGET, key_stage, (N) * kN * kKeyStride8 + (B) * (kK / 8), kKeyStride8,                                \
              gl_CooperativeMatrixLayoutColumnMajor);
#define VKATTN_LOAD_VALUES(TARGET, B, N)                                                                              \
  if (kValuesTransposed) {                                                                                            \
    coopMatLoad(TARGET, value_stage, (N) * kN * kValueStride8 + (B) * (kK / 8), kValueStride8,                        \
                gl_CooperativeMatrixLayoutColumnMajor);                                                               \
  } else {                                                                                                            \
    coopMatLoad(TARGET, value_stage, (B) * kK * kValueStride8 + (N) * (kN / 8), kValueStride8,                        \
                gl_CooperativeMatrixLayoutRowMajor);                                                                  \
  }

void store_scores(MatrixC scores, uint r, uint n) {
  coopMatStore(scores, score_stage, (subgroup_row + r * kM) * kScoreStride4 + n * (kN / 4), kScoreStride4,
               gl_CooperativeMatrixLayoutRowMajor);
}

#endif
