// Constants that the shaders and the host share. Plain macros: read by GLSL and by C++.
#ifndef VKATTN_SHARED_ATTENTION_CONSTANTS_H
#define VKATTN_SHARED_ATTENTION_CONSTANTS_H

// Bindings of set 0.
#define VKATTN_BINDING_QUERY 0
#define VKATTN_BINDING_KEY 1
#define VKATTN_BINDING_VALUE 2
#define VKATTN_BINDING_OUTPUT 3
#define VKATTN_BINDING_LSE 4
#define VKATTN_BINDING_KV_LENGTHS 5
#define VKATTN_BINDING_PARTIALS 6  // of a split over keys, in the workspace
#define VKATTN_BINDING_COUNT 7

// Storage types; the values of vkattn::DataType.
#define VKATTN_TYPE_FLOAT32 0
#define VKATTN_TYPE_FLOAT16 1
#define VKATTN_TYPE_BFLOAT16 2

// Causal modes: where query 0 lines up.
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
#define VKATTN_SPEC_SUMS_IN_WORKSPACE 18  // running sums live in the workspace; results go to the output

// Specialization constants of one kernel start here.
#define VKATTN_SPEC_LANE_ROWS 32
#define VKATTN_SPEC_LANE_KEYS 33
#define VKATTN_SPEC_LANE_MASKED_KEYS 34

#define VKATTN_SPEC_TILE_COLUMNS 32
#define VKATTN_SPEC_TILE_ROWS 33
#define VKATTN_SPEC_TILE_KEYS 34
#define VKATTN_SPEC_TILE_DIM_CHUNK 35

#define VKATTN_SPEC_MATRIX_M 32  // the shape of one product: M x K times K x N
#define VKATTN_SPEC_MATRIX_N 33
#define VKATTN_SPEC_MATRIX_K 34
#define VKATTN_SPEC_MATRIX_SUBGROUP_SIZE 35
#define VKATTN_SPEC_MATRIX_ROW_BLOCKS 36
#define VKATTN_SPEC_MATRIX_KEYS 37
#define VKATTN_SPEC_MATRIX_SLICE_DIMS 38
#define VKATTN_SPEC_MATRIX_QUERY_IN_REGISTERS 39
#define VKATTN_SPEC_MATRIX_VALUES_TRANSPOSED 40
#define VKATTN_SPEC_MATRIX_PREFETCH 41
#define VKATTN_SPEC_MATRIX_SKIP_TILES 42  // subgroups leave out tiles that are hidden from all their rows
#define VKATTN_SPEC_MATRIX_QUERY_LOADS8 43  // rows are dense and start at multiples of 8 elements
#define VKATTN_SPEC_MATRIX_KEY_LOADS8 44
#define VKATTN_SPEC_MATRIX_VALUE_LOADS8 45

#define VKATTN_SPEC_DECODE_COLUMNS 32  // threads that share a key
#define VKATTN_SPEC_DECODE_ROWS 33     // of a thread
#define VKATTN_SPEC_DECODE_ROW_SETS 34
#define VKATTN_SPEC_DECODE_KEYS 35  // that a thread has in flight
#define VKATTN_SPEC_DECODE_SUBGROUP_SIZE 36
#define VKATTN_SPEC_DECODE_QUERY_IN_REGISTERS 37
#define VKATTN_SPEC_DECODE_MERGE_ROWS 38  // of a thread, merged at a time
#define VKATTN_SPEC_DECODE_KEY_LOADS8 39  // rows are dense and start at multiples of 8 elements
#define VKATTN_SPEC_DECODE_VALUE_LOADS8 40

#define VKATTN_SPEC_MATRIX2_ROWS 32
#define VKATTN_SPEC_MATRIX2_KEYS 33
#define VKATTN_SPEC_MATRIX2_HEAD_BLOCK 34
#define VKATTN_SPEC_MATRIX2_VALUE_BLOCK 35
#define VKATTN_SPEC_MATRIX2_QUERY_TENSOR 36  // query rows are loaded by tensor addressing; they are dense as below
#define VKATTN_SPEC_MATRIX2_KEY_LOADS8 37    // rows are dense and start at multiples of 8 elements
#define VKATTN_SPEC_MATRIX2_VALUE_LOADS8 38

#define VKATTN_SPEC_UNFUSED_PASS 32
#define VKATTN_SPEC_UNFUSED_ROWS 33
#define VKATTN_SPEC_UNFUSED_KEYS 34

// Passes of the unfused baseline.
#define VKATTN_UNFUSED_SCORES 0
#define VKATTN_UNFUSED_SOFTMAX 1
#define VKATTN_UNFUSED_WEIGHTED_SUM 2

#endif
