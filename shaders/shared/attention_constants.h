// Constants that shaders and host share. GLSL and C++ read these plain macros.
#ifndef VKATTN_SHARED_ATTENTION_CONSTANTS_H
#define VKATTN_SHARED_ATTENTION_CONSTANTS_H

// Bindings of set 0.
#define VKATTN_BINDING_QUERY 0
#define VKATTN_BINDING_KEY 1
#define VKATTN_BINDING_VALUE 2
#define VKATTN_BINDING_OUTPUT 3
#define VKATTN_BINDING_LSE 4
#define VKATTN_BINDING_KV_LENGTHS 5
#define VKATTN_BINDING_PARTIALS 6  // of a split over the keys, in the workspace
#define VKATTN_BINDING_FEATURE_PARAMS 7  // FeatureParams, with features; then the counts of finished parts, if any
#define VKATTN_BINDING_COUNT 8
// Shaders with features have these too.
#define VKATTN_BINDING_MASK 8
#define VKATTN_BINDING_QUERY_LENGTHS 9  // cumulative if queries are packed, as kv_lengths are if keys are
#define VKATTN_BINDING_PAGE_TABLE 10
#define VKATTN_BINDING_ALIBI_SLOPES 11
#define VKATTN_BINDING_SINKS 12
#define VKATTN_BINDING_KEY_SCALES 13
#define VKATTN_BINDING_VALUE_SCALES 14
#define VKATTN_BINDING_WEIGHTS 15
#define VKATTN_BINDING_BLOCK_MASK 16  // in the workspace
#define VKATTN_BINDING_USER 17        // the first binding of a user's score function
#define VKATTN_USER_BINDINGS 4
#define VKATTN_FEATURE_BINDING_COUNT 21
// Only attention_gather.comp has these.
#define VKATTN_BINDING_GATHER_SOURCE 21
#define VKATTN_BINDING_GATHER_TARGET 22
#define VKATTN_GATHER_BINDING_COUNT 23

// Storage types.
#define VKATTN_TYPE_FLOAT32 0
#define VKATTN_TYPE_FLOAT16 1
#define VKATTN_TYPE_BFLOAT16 2
#define VKATTN_TYPE_Q8_0 3  // this and the following: K and V only
#define VKATTN_TYPE_Q4_0 4
#define VKATTN_TYPE_FLOAT8_E4M3 5

// Storage of masks.
#define VKATTN_MASK_NONE 0
#define VKATTN_MASK_FLOAT32 1
#define VKATTN_MASK_FLOAT16 2
#define VKATTN_MASK_BYTES 3
#define VKATTN_MASK_BITS 4

// How the rows of keys lie in memory.
#define VKATTN_KEYS_CONTIGUOUS 0
#define VKATTN_KEYS_RING 1
#define VKATTN_KEYS_PAGED 2
#define VKATTN_KEYS_PACKED 3

// Classes of blocks of the block mask: what a block's rows see of its keys.
#define VKATTN_BLOCK_HIDDEN 0
#define VKATTN_BLOCK_MIXED 1
#define VKATTN_BLOCK_VISIBLE 2  // the mask hides nothing and adds nothing

// Stages of the attention weights.
#define VKATTN_WEIGHTS_SCORES 1
#define VKATTN_WEIGHTS_SOFTCAP 2
#define VKATTN_WEIGHTS_MASKED 3
#define VKATTN_WEIGHTS_PROBABILITIES 4

// Sources of ALiBi's slopes.
#define VKATTN_ALIBI_NONE 0
#define VKATTN_ALIBI_STANDARD 1
#define VKATTN_ALIBI_GIVEN 2
#define VKATTN_ALIBI_TIMES_MASK 3  // given slopes, which multiply an additive mask in place of the distance

// Causal modes: where a row's keys end. The right limit of a window is a causal mask with another offset.
#define VKATTN_CAUSAL_NONE 0
#define VKATTN_CAUSAL_OFFSET 1        // AttentionParams.causal_offset
#define VKATTN_CAUSAL_BOTTOM_RIGHT 2  // the batch entry's key length + AttentionParams.causal_offset

// Specialization constants of every attention kernel.
#define VKATTN_SPEC_WORKGROUP_SIZE 0
#define VKATTN_SPEC_HEAD_DIM 1
#define VKATTN_SPEC_VALUE_DIM 2
#define VKATTN_SPEC_QUERY_TYPE 3
#define VKATTN_SPEC_KEY_TYPE 4
#define VKATTN_SPEC_VALUE_TYPE 5
#define VKATTN_SPEC_OUTPUT_TYPE 6
#define VKATTN_SPEC_QUERY_DIM_STRIDE 7
#define VKATTN_SPEC_KEY_DIM_STRIDE 8
#define VKATTN_SPEC_VALUE_DIM_STRIDE 9
#define VKATTN_SPEC_OUTPUT_DIM_STRIDE 10
#define VKATTN_SPEC_QUERY_VECTOR_LOADS 11  // rows are dense and start at multiples of 4 elements
#define VKATTN_SPEC_KEY_VECTOR_LOADS 12
#define VKATTN_SPEC_VALUE_VECTOR_LOADS 13
#define VKATTN_SPEC_CAUSAL_MODE 14
#define VKATTN_SPEC_HAS_KV_LENGTHS 15
#define VKATTN_SPEC_HAS_LSE 16
#define VKATTN_SPEC_SPLIT_KV 17  // partial results go to the workspace, for attention_combine.comp
#define VKATTN_SPEC_SUMS_IN_WORKSPACE 18  // running sums lie in the workspace; results go to the output

// Specialization constants of features.
#define VKATTN_SPEC_MASK_TYPE 19
#define VKATTN_SPEC_HAS_LEFT_LIMIT 20
#define VKATTN_SPEC_ALIGN_BOTTOM_RIGHT 21  // left limit and ALiBi: the batch entry's key length is added
#define VKATTN_SPEC_HAS_SOFTCAP 22
#define VKATTN_SPEC_ALIBI 23
#define VKATTN_SPEC_HAS_SINKS 24
#define VKATTN_SPEC_HAS_QUERY_LENGTHS 25
#define VKATTN_SPEC_KEY_MAPPING 26
#define VKATTN_SPEC_CACHE_ROWS 27  // rows of a page, or of the ring
#define VKATTN_SPEC_HAS_DROPOUT 28
#define VKATTN_SPEC_BLOCK_ROWS 29  // rows of a block of the block mask; 0: no block mask
#define VKATTN_SPEC_BLOCK_KEYS 30
#define VKATTN_SPEC_STRICT_NONFINITE 31  // PlanOptions::strict_nonfinite; also without features
#define VKATTN_SPEC_PACKED_QUERIES 32  // query lengths are cumulative; Q, O and lse are one batch entry
#define VKATTN_SPEC_FIRST_PARTIAL 33  // of the partial results in their binding, which begins with FeatureParams if not 0
#define VKATTN_SPEC_TILES_IN_PAIRS 34  // with a causal mask, the order of tiles
#define VKATTN_SPEC_COMBINES_PARTS 35  // with VKATTN_SPEC_SPLIT_KV: the kernel combines the parts itself
#define VKATTN_SPEC_MASK_HEADS_REPEAT 36  // query head h reads mask head h % FeatureParams.mask_heads

// Specialization constants of single kernels start here.
#define VKATTN_SPEC_LANE_ROWS 48
#define VKATTN_SPEC_LANE_KEYS 49
#define VKATTN_SPEC_LANE_MASKED_KEYS 50
#define VKATTN_SPEC_LANE_ONE_STEP 51  // it has all keys of a part
#define VKATTN_SPEC_LANE_OUTPUT_VECTORS 52  // rows are dense and start at multiples of 4 elements
#define VKATTN_SPEC_LANE_KEYS_FIRST 53  // rows of keys are found before the loops over dims: for CPUs
#define VKATTN_SPEC_LANE_BY_ADDRESS 54  // K and V are read by their addresses, which check no bounds
#define VKATTN_LANE_SCORE_KEYS 32  // keys whose scores one loop over dims computes

#define VKATTN_SPEC_TILE_COLUMNS 48
#define VKATTN_SPEC_TILE_ROWS 49
#define VKATTN_SPEC_TILE_KEYS 50
#define VKATTN_SPEC_TILE_DIM_CHUNK 51
#define VKATTN_SPEC_TILE_PACKED 52  // keys and values stay float16 in shared memory
// Limits of float16 arithmetic. Its tolerance and limits in docs/semantics.md follow from these.
#define VKATTN_TILE_SUM_KEYS 8         // keys of a float16 sum of the output
#define VKATTN_TILE_MOST_SUM_DIMS 32   // dims of a chunk, which takes two float16 sums of scores
#define VKATTN_TILE_MOST_SCALE_BITS 8  // the least scale of queries is 2^-8

#define VKATTN_SPEC_MATRIX_ROW_BLOCKS 52
#define VKATTN_SPEC_MATRIX_KEYS 53
#define VKATTN_SPEC_MATRIX_SLICE_DIMS 54
#define VKATTN_SPEC_MATRIX_QUERY_IN_REGISTERS 55
#define VKATTN_SPEC_MATRIX_VALUES_TRANSPOSED 56
#define VKATTN_SPEC_MATRIX_PREFETCH 57
#define VKATTN_SPEC_MATRIX_SKIP_TILES 58  // subgroups skip tiles that are hidden from all their rows
#define VKATTN_SPEC_MATRIX_QUERY_LOADS8 59  // rows are dense and start at multiples of 8 elements
#define VKATTN_SPEC_MATRIX_KEY_LOADS8 60
#define VKATTN_SPEC_MATRIX_VALUE_LOADS8 61

#define VKATTN_SPEC_DECODE_COLUMNS 48  // threads that share a key
#define VKATTN_SPEC_DECODE_ROWS 49     // rows of a thread
#define VKATTN_SPEC_DECODE_ROW_SETS 50
#define VKATTN_SPEC_DECODE_KEYS 51  // keys that a thread has in flight
#define VKATTN_SPEC_DECODE_SUBGROUP_SIZE 52
#define VKATTN_SPEC_DECODE_QUERY_IN_REGISTERS 53
#define VKATTN_SPEC_DECODE_MERGE_ROWS 54  // rows of a thread that are merged at a time
#define VKATTN_SPEC_DECODE_KEY_LOADS8 55  // rows are dense and start at multiples of 8 elements
#define VKATTN_SPEC_DECODE_VALUE_LOADS8 56
#define VKATTN_SPEC_DECODE_DEALS_SCORES 57
#define VKATTN_SPEC_DECODE_READS_AHEAD 58  // keys of the next step are in flight while one is computed
#define VKATTN_SPEC_DECODE_PARTS 59  // of a row that are in flight when parts are combined
#define VKATTN_SPEC_DECODE_PARTS_EARLY 60  // the first of them before the parts are weighed

#define VKATTN_SPEC_LANE_DECODE_ROWS 48
#define VKATTN_SPEC_LANE_DECODE_KEYS 49  // keys of a lane in a step
#define VKATTN_SPEC_LANE_DECODE_TOUCHES 50  // cache lines of K and V are read before they are used
#define VKATTN_SPEC_LANE_DECODE_LOCKSTEP 51  // the device runs the lanes of a subgroup one instruction after the other
#define VKATTN_SPEC_LANE_DECODE_SCORE_VECTORS 52  // vectors of dims of a pass over scores, of the form `_addresses`
#define VKATTN_SPEC_LANE_DECODE_VALUE_VECTORS 53  // and over values

#define VKATTN_SPEC_MATRIX2_ROWS 48
#define VKATTN_SPEC_MATRIX2_KEYS 49
#define VKATTN_SPEC_MATRIX2_HEAD_BLOCK 50
#define VKATTN_SPEC_MATRIX2_VALUE_BLOCK 51
#define VKATTN_SPEC_MATRIX2_QUERY_TENSOR 52  // tensor addressing loads query rows; they are dense, as below
#define VKATTN_SPEC_MATRIX2_KEY_LOADS8 53    // rows are dense and start at multiples of 8 elements
#define VKATTN_SPEC_MATRIX2_VALUE_LOADS8 54
#define VKATTN_SPEC_MATRIX2_ROW_COLUMNS 55  // columns of matrices that have one number for each row
#define VKATTN_SPEC_MATRIX2_SUBGROUPS 56    // subgroups of a workgroup of the staged form
#define VKATTN_SPEC_MATRIX2_QUERY_LOADS8 57
#define VKATTN_SPEC_MATRIX2_HELD_BLOCKS 58  // blocks of head dims of which queries stay in registers; the others are staged
#define VKATTN_SPEC_MATRIX2_SCORES_AHEAD 59  // scores are computed a tile ahead

// Of kernels that keep numbers of rows in lanes, see lib/matrix_lane_rows.glsl.
#define VKATTN_SPEC_LANE_ROWS_COUNT 62
#define VKATTN_SPEC_LANE_ROWS_LANE_BITS 63
#define VKATTN_SPEC_LANE_ROWS_SCORE_BITS 64
#define VKATTN_SPEC_LANE_ROWS_SUM_BITS 65

// Constants of all kernels with VK_KHR_cooperative_matrix. Their ids are above the number of constants of any pipeline:
// validation layer 1.4.309 takes an id for an index into the given constants, and checks the defaults if it is too large.
#define VKATTN_SPEC_MATRIX_M 96  // the shape of one product: M x K times K x N
#define VKATTN_SPEC_MATRIX_N 97
#define VKATTN_SPEC_MATRIX_K 98
#define VKATTN_SPEC_MATRIX_SUBGROUP_SIZE 99
#define VKATTN_SPEC_WRITES_OUT_STEPS 100  // see lib/unrolled.glsl

#define VKATTN_SPEC_COMBINE_PARTS 48  // in flight

#define VKATTN_SPEC_WEIGHTS_STAGE 48

#define VKATTN_SPEC_BLOCK_MASK_SHARED 48  // true: a workgroup shares a block; false: each invocation has one
#define VKATTN_SPEC_BLOCK_MASK_BY_QUERIES 49  // the heads that share a KV head have one mask, and nothing else hides keys

#endif
