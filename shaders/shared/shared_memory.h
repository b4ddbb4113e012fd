// How large the stages of tile, decode and matrix in shared memory are. Plain macros: GLSL has its array sizes from them,
// C++ adds up their bytes. Names end with 4 where a unit is four 32-bit words, 16 bytes.
#ifndef VKATTN_SHARED_SHARED_MEMORY_H
#define VKATTN_SHARED_SHARED_MEMORY_H

#define VKATTN_LARGER(A, B) ((A) > (B) ? (A) : (B))
#define VKATTN_SMALLER(A, B) ((A) < (B) ? (A) : (B))

// tile. Rows are skewed by 16 bytes so that a column of threads falls into different banks.
// Queries, then probabilities: DIMS of a chunk, KEYS of a block.
#define VKATTN_TILE_ROW_STRIDE4(DIMS, KEYS) (VKATTN_LARGER(DIMS, KEYS) / 4 + 1)
#define VKATTN_TILE_ROW_STAGE4(ROWS, DIMS, KEYS) ((ROWS) * VKATTN_TILE_ROW_STRIDE4(DIMS, KEYS))
// Keys, then values of 4 dims a column.
#define VKATTN_TILE_KV_STAGE4(KEYS, DIMS, COLUMNS) ((KEYS) * (VKATTN_LARGER((DIMS) / 4, COLUMNS) + 1))
// They lie in one of two stages, as QUADS of float32 or, packed, of 16 bits.
#define VKATTN_TILE_FLOAT_STAGE4(QUADS, PACKED) ((PACKED) ? 1 : (QUADS))
#define VKATTN_TILE_PACKED_STAGE2(QUADS, PACKED) ((PACKED) ? (QUADS) : 1)
// What the columns of a row reduce, in words, where they do so through shared memory.
#define VKATTN_TILE_REDUCE_STAGE(ROWS, COLUMNS) ((ROWS) * ((COLUMNS) + 1))

// decode. Queries of ROWS of a thread, ROW_SETS of which neighbouring groups have; after the last key, rows that are
// merged, MERGE_ROWS at a time, of ROW_SUMS4 in each thread.
#define VKATTN_DECODE_QUERY_STAGE4(ROWS, KEY_PARTS, ROW_SETS, COLUMNS) ((ROWS) * (KEY_PARTS) * (ROW_SETS) * (COLUMNS))
#define VKATTN_DECODE_MERGE_STAGE4(MERGE_ROWS, ROW_SUMS4, THREADS) ((MERGE_ROWS) * (ROW_SUMS4) * (THREADS))
// One word of each row and group of threads: there are two such stages.
#define VKATTN_DECODE_GROUP_STAGE(TILE_ROWS, KEY_GROUPS) ((TILE_ROWS) * (KEY_GROUPS))

// The backward pass. Rows or keys that threads own, with dims of a product, pairs with VISITED of each column, or parts of
// sums of each column; and those that they visit, with dims of a product or 4 of each column.
#define VKATTN_BACKWARD_STAGE_DIMS 32
#define VKATTN_BACKWARD_ROW_STAGE4(ROWS, COLUMNS, VISITED) \
  ((ROWS) * (VKATTN_LARGER(VKATTN_BACKWARD_STAGE_DIMS, (COLUMNS) * (VISITED)) / 4 + 1))
#define VKATTN_BACKWARD_KEY_STAGE4(KEYS, COLUMNS) \
  ((KEYS) * (VKATTN_LARGER(VKATTN_BACKWARD_STAGE_DIMS / 4, COLUMNS) + 1))

// matrix. Rows are in units of 8 elements of 16 bits, skewed by one against bank conflicts. HEAD_DIMS are padded to whole
// matrices.
#define VKATTN_MATRIX_STRIDE(ELEMENTS) ((ELEMENTS) / 8 + 1)
#define VKATTN_MATRIX_KEY_STAGE4(KEYS, HEAD_DIMS) ((KEYS) * VKATTN_MATRIX_STRIDE(HEAD_DIMS))
#define VKATTN_MATRIX_VALUE_STAGE4(KEYS, SLICE_DIMS, TRANSPOSED) \
  ((TRANSPOSED) ? (SLICE_DIMS) * VKATTN_MATRIX_STRIDE(KEYS) : (KEYS) * VKATTN_MATRIX_STRIDE(SLICE_DIMS))
#define VKATTN_MATRIX_QUERY_STAGE4(ROWS, HEAD_DIMS, IN_REGISTERS) \
  ((IN_REGISTERS) ? 1 : (ROWS) * VKATTN_MATRIX_STRIDE(HEAD_DIMS))
#define VKATTN_MATRIX_SCORE_STRIDE4(KEYS) ((KEYS) / 4 + 1)
#define VKATTN_MATRIX_SCORE_STAGE4(ROWS, KEYS) ((ROWS) * VKATTN_MATRIX_SCORE_STRIDE4(KEYS))
#define VKATTN_MATRIX_FACTOR_STAGE4(ROWS) ((ROWS) / 4)
// With features: scales of keys and of values, and probabilities times scales.
#define VKATTN_MATRIX_SCALE_STAGE4(KEYS, SCALES, SCALED) ((SCALED) ? (KEYS) / 4 * (SCALES) : 1)
#define VKATTN_MATRIX_PRODUCT_STAGE4(ROWS, KEYS, SCALED) ((SCALED) ? (ROWS) * VKATTN_MATRIX_STRIDE(KEYS) : 1)

// matrix2, staged: first queries, then a tile of keys and of values, at last a block of outputs of each subgroup.
#define VKATTN_MATRIX2_STAGE4(ROWS, KEYS, HEAD_DIMS, VALUE_DIMS, VALUE_BLOCK)                               \
  VKATTN_LARGER((ROWS) * VKATTN_LARGER(VKATTN_MATRIX_STRIDE(HEAD_DIMS), VKATTN_MATRIX_SCORE_STRIDE4(VALUE_BLOCK)), \
                (KEYS) * (VKATTN_MATRIX_STRIDE(HEAD_DIMS) + VKATTN_MATRIX_STRIDE(VALUE_DIMS)))

// The backward pass on matrix units. Dims are padded to whole matrices of each column of the grid of subgroups. Both passes
// have factors and visited rows as operands, rows like VKATTN_MATRIX_KEY_STAGE4, and a float of each row. That of the rows
// has scores, and products of dO and V, likewise by rows. Sums leave by a matrix of each subgroup, in the place of scores.
#define VKATTN_BACKWARD_DIM_UNIT(K, N, COLUMNS) VKATTN_LARGER(K, (N) * (COLUMNS))
#define VKATTN_BACKWARD_PADDED(DIMS, K, N, COLUMNS)                                    \
  (((DIMS) + VKATTN_BACKWARD_DIM_UNIT(K, N, COLUMNS) - 1) / VKATTN_BACKWARD_DIM_UNIT(K, N, COLUMNS) * \
   VKATTN_BACKWARD_DIM_UNIT(K, N, COLUMNS))
#define VKATTN_BACKWARD_SUM_STAGE4(SUBGROUPS, M, N) ((SUBGROUPS) * (M) * (N) / 4)
#define VKATTN_BACKWARD_PART_STAGE4(THREADS) ((THREADS) / 4)

// Matrix multiplication, tile. Words of an operand's block, by rows of the inner dimension, which are 4 words apart against
// bank conflicts.
#define VKATTN_MATMUL_TILE_STAGE(BLOCK, INNER) ((INNER) * ((BLOCK) + 4))
// The same on matrix units, in units of 16 bytes: LINES of NEIGHBOURS elements of 16 bits.
#define VKATTN_MATMUL_MATRIX_STAGE4(LINES, NEIGHBOURS) ((LINES) * VKATTN_MATRIX_STRIDE(NEIGHBOURS))
// Words of the sums on their way out: a matrix of each subgroup.
#define VKATTN_MATMUL_RESULT_STAGE(SUBGROUPS, M, N) ((SUBGROUPS) * (M) * (N))

#endif
