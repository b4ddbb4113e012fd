// Sizes of the stages in shared memory. GLSL takes its array sizes from these plain macros, and C++ adds up their bytes.
// Names that end with 4 count units of four 32-bit words, 16 bytes.
#ifndef VKATTN_SHARED_SHARED_MEMORY_H
#define VKATTN_SHARED_SHARED_MEMORY_H

#define VKATTN_LARGER(A, B) ((A) > (B) ? (A) : (B))
#define VKATTN_SMALLER(A, B) ((A) < (B) ? (A) : (B))

// tile. Rows are skewed by 16 bytes, so that a column of threads uses different banks. The row stage holds queries, then
// probabilities: DIMS of a chunk, KEYS of a block.
#define VKATTN_TILE_ROW_STRIDE4(DIMS, KEYS) (VKATTN_LARGER(DIMS, KEYS) / 4 + 1)
#define VKATTN_TILE_ROW_STAGE4(ROWS, DIMS, KEYS) ((ROWS) * VKATTN_TILE_ROW_STRIDE4(DIMS, KEYS))
// First keys, then values. Each column of values has 4 dims.
#define VKATTN_TILE_KV_STAGE4(KEYS, DIMS, COLUMNS) ((KEYS) * (VKATTN_LARGER((DIMS) / 4, COLUMNS) + 1))
// Keys and values lie in one of two stages: QUADS of float32, or, PACKED, of 16 bits.
#define VKATTN_TILE_FLOAT_STAGE4(QUADS, PACKED) ((PACKED) ? 1 : (QUADS))
#define VKATTN_TILE_PACKED_STAGE2(QUADS, PACKED) ((PACKED) ? (QUADS) : 1)
// Words in which the columns of a row are reduced, without subgroups.
#define VKATTN_TILE_REDUCE_STAGE(ROWS, COLUMNS) ((ROWS) * ((COLUMNS) + 1))

// decode. Queries: a thread has ROWS rows, and ROW_SETS neighbouring groups have different rows. After the last key, the
// stage holds rows to merge: MERGE_ROWS rows at a time, with ROW_SUMS4 sums in each thread.
#define VKATTN_DECODE_QUERY_STAGE4(ROWS, KEY_PARTS, ROW_SETS, COLUMNS) ((ROWS) * (KEY_PARTS) * (ROW_SETS) * (COLUMNS))
#define VKATTN_DECODE_MERGE_STAGE4(MERGE_ROWS, ROW_SUMS4, THREADS) ((MERGE_ROWS) * (ROW_SUMS4) * (THREADS))
// One word for each row and each group of threads. There are two such stages.
#define VKATTN_DECODE_GROUP_STAGE(TILE_ROWS, KEY_GROUPS) ((TILE_ROWS) * (KEY_GROUPS))

// lane_decode, in words: queries by dim, sums of whole passes over THREADS quads of dims, a step's probabilities with one word
// more for each of THREADS lanes, and rows of its keys in K and V (1 word if none is looked up).
#define VKATTN_LANE_DECODE_QUERY_STAGE(ROWS, HEAD_DIM) ((ROWS) * (((HEAD_DIM) + 3) / 4 * 4))
#define VKATTN_LANE_DECODE_SUM_STAGE(ROWS, VALUE_DIM, THREADS) \
  ((ROWS) * 4 * (THREADS) * (((VALUE_DIM) + 4 * (THREADS) - 1) / (4 * (THREADS))))
#define VKATTN_LANE_DECODE_WEIGHT_STAGE(ROWS, LANE_KEYS, THREADS) (((ROWS) * (LANE_KEYS) + 1) * (THREADS))
#define VKATTN_LANE_DECODE_ROW_STAGE(LANE_KEYS, THREADS) (2 * (LANE_KEYS) * (THREADS))

// Sums of the lane_decode kernel for products, one for each lane, and a word more for each lane.
#define VKATTN_MATMUL_LANE_DECODE_STAGE(ROWS, COLUMNS, THREADS) (((ROWS) * (COLUMNS) + 1) * (THREADS))

// The backward pass, tile. The row stage has rows or keys that threads own: dims of a product, pairs (VISITED for each
// column), or a part of a sum for each column. The key stage has those that they visit: dims of a product, or 4 for each
// column.
#define VKATTN_BACKWARD_STAGE_DIMS 32
#define VKATTN_BACKWARD_ROW_STAGE4(ROWS, COLUMNS, VISITED) \
  ((ROWS) * (VKATTN_LARGER(VKATTN_BACKWARD_STAGE_DIMS, (COLUMNS) * (VISITED)) / 4 + 1))
#define VKATTN_BACKWARD_KEY_STAGE4(KEYS, COLUMNS) \
  ((KEYS) * (VKATTN_LARGER(VKATTN_BACKWARD_STAGE_DIMS / 4, COLUMNS) + 1))

// matrix. Rows are in units of 8 elements of 16 bits, with one unit more against bank conflicts. HEAD_DIMS are padded to
// whole matrices.
#define VKATTN_MATRIX_STRIDE(ELEMENTS) ((ELEMENTS) / 8 + 1)
#define VKATTN_MATRIX_KEY_STAGE4(KEYS, HEAD_DIMS) ((KEYS) * VKATTN_MATRIX_STRIDE(HEAD_DIMS))
#define VKATTN_MATRIX_VALUE_STAGE4(KEYS, SLICE_DIMS, TRANSPOSED) \
  ((TRANSPOSED) ? (SLICE_DIMS) * VKATTN_MATRIX_STRIDE(KEYS) : (KEYS) * VKATTN_MATRIX_STRIDE(SLICE_DIMS))
#define VKATTN_MATRIX_QUERY_STAGE4(ROWS, HEAD_DIMS, IN_REGISTERS) \
  ((IN_REGISTERS) ? 1 : (ROWS) * VKATTN_MATRIX_STRIDE(HEAD_DIMS))
#define VKATTN_MATRIX_SCORE_STRIDE4(KEYS) ((KEYS) / 4 + 1)
#define VKATTN_MATRIX_SCORE_STAGE4(ROWS, KEYS) ((ROWS) * VKATTN_MATRIX_SCORE_STRIDE4(KEYS))
#define VKATTN_MATRIX_FACTOR_STAGE4(ROWS) ((ROWS) / 4)
// With features: scales of keys and values, and probabilities times scales.
#define VKATTN_MATRIX_SCALE_STAGE4(KEYS, SCALES, SCALED) ((SCALED) ? (KEYS) / 4 * (SCALES) : 1)
#define VKATTN_MATRIX_PRODUCT_STAGE4(ROWS, KEYS, SCALED) ((SCALED) ? (ROWS) * VKATTN_MATRIX_STRIDE(KEYS) : 1)

// matrix2, staged: queries of HELD_DIMS on their way to registers, then tiles of keys and values, at the end a block of
// outputs of each subgroup. Behind it queries of the other dims, which stay.
#define VKATTN_MATRIX2_TILE_STAGE4(ROWS, KEYS, HEAD_DIMS, HELD_DIMS, VALUE_DIMS, VALUE_BLOCK)               \
  VKATTN_LARGER((ROWS) * VKATTN_LARGER(VKATTN_MATRIX_STRIDE(HELD_DIMS), VKATTN_MATRIX_SCORE_STRIDE4(VALUE_BLOCK)), \
                (KEYS) * (VKATTN_MATRIX_STRIDE(HEAD_DIMS) + VKATTN_MATRIX_STRIDE(VALUE_DIMS)))
#define VKATTN_MATRIX2_QUERY_STAGE4(ROWS, HEAD_DIMS, HELD_DIMS) \
  ((HELD_DIMS) == (HEAD_DIMS) ? 0 : (ROWS) * VKATTN_MATRIX_STRIDE((HEAD_DIMS) - (HELD_DIMS)))
#define VKATTN_MATRIX2_STAGE4(ROWS, KEYS, HEAD_DIMS, HELD_DIMS, VALUE_DIMS, VALUE_BLOCK)         \
  (VKATTN_MATRIX2_TILE_STAGE4(ROWS, KEYS, HEAD_DIMS, HELD_DIMS, VALUE_DIMS, VALUE_BLOCK) +       \
   VKATTN_MATRIX2_QUERY_STAGE4(ROWS, HEAD_DIMS, HELD_DIMS))

// The backward pass on matrix units. Dims are padded to whole matrices of each column of the grid of subgroups. Both passes
// stage factors and visited rows as operands, in rows like those of VKATTN_MATRIX_KEY_STAGE4, and one float for each row.
// The rows' pass also stages scores and products of dO and V. Sums leave through one matrix of each subgroup, in the place
// of scores.
#define VKATTN_BACKWARD_DIM_UNIT(K, N, COLUMNS) VKATTN_LARGER(K, (N) * (COLUMNS))
#define VKATTN_BACKWARD_PADDED(DIMS, K, N, COLUMNS)                                    \
  (((DIMS) + VKATTN_BACKWARD_DIM_UNIT(K, N, COLUMNS) - 1) / VKATTN_BACKWARD_DIM_UNIT(K, N, COLUMNS) * \
   VKATTN_BACKWARD_DIM_UNIT(K, N, COLUMNS))
// Rows that a product of sums visits, or their transpose.
#define VKATTN_BACKWARD_VISITED_STAGE4(VISITED, DIMS, TRANSPOSED) \
  ((TRANSPOSED) ? (DIMS) * VKATTN_MATRIX_STRIDE(VISITED) : (VISITED) * VKATTN_MATRIX_STRIDE(DIMS))
// matrix2, staged: visited rows of both inputs, and owned rows of V or dO if these stay there.
#define VKATTN_PAIR_VISITED_STAGE4(VISITED, HEAD_DIMS, VALUE_DIMS) \
  ((VISITED) * (VKATTN_MATRIX_STRIDE(HEAD_DIMS) + VKATTN_MATRIX_STRIDE(VALUE_DIMS)))
#define VKATTN_PAIR_OWNED_STAGE4(OWNED, VALUE_DIMS, STAGED) ((STAGED) ? (OWNED) * VKATTN_MATRIX_STRIDE(VALUE_DIMS) : 1)
#define VKATTN_BACKWARD_SUM_STAGE4(SUBGROUPS, M, N) ((SUBGROUPS) * (M) * (N) / 4)
#define VKATTN_BACKWARD_PART_STAGE4(THREADS) ((THREADS) / 4)

// Matrix multiplication, tile: words of an operand's block. Rows of the inner dimension are 4 words longer against bank
// conflicts.
#define VKATTN_MATMUL_TILE_STAGE(BLOCK, INNER) ((INNER) * ((BLOCK) + 4))
// Matrix multiplication on matrix units, in units of 16 bytes: LINES lines of NEIGHBOURS elements of 16 bits.
#define VKATTN_MATMUL_MATRIX_STAGE4(LINES, NEIGHBOURS) ((LINES) * VKATTN_MATRIX_STRIDE(NEIGHBOURS))
// Words through which sums leave: one matrix of each subgroup.
#define VKATTN_MATMUL_RESULT_STAGE(SUBGROUPS, M, N) ((SUBGROUPS) * (M) * (N))

#endif
