// What the passes of the backward pass share with the host beyond attention_constants.h. GLSL and C++ read these plain
// macros.
#ifndef VKATTN_SHARED_BACKWARD_CONSTANTS_H
#define VKATTN_SHARED_BACKWARD_CONSTANTS_H

// Bindings of set 0, after the bindings of attention with features.
#define VKATTN_BINDING_GRAD_OUTPUT 21
#define VKATTN_BINDING_GRAD_LSE 22
#define VKATTN_BINDING_GRAD_QUERY 23
#define VKATTN_BINDING_GRAD_KEY 24
#define VKATTN_BINDING_GRAD_VALUE 25
#define VKATTN_BINDING_GRAD_MASK 26
#define VKATTN_BINDING_GRAD_SLOPES 27
#define VKATTN_BINDING_GRAD_SINKS 28
#define VKATTN_BINDING_PAIRS 29  // in the workspace: numbers of each row and key of a chunk; of matrix2 the rows' numbers too
#define VKATTN_BINDING_SUMS 30   // in the workspace: running sums, and numbers of rows
#define VKATTN_BACKWARD_BINDING_COUNT 31

// Specialization constants.
#define VKATTN_SPEC_GRAD_OUTPUT_TYPE 64
#define VKATTN_SPEC_GRAD_OUTPUT_DIM_STRIDE 65
#define VKATTN_SPEC_GRAD_OUTPUT_VECTOR_LOADS 66
#define VKATTN_SPEC_OUTPUT_VECTOR_LOADS 67
#define VKATTN_SPEC_GRAD_QUERY_TYPE 68
#define VKATTN_SPEC_GRAD_QUERY_DIM_STRIDE 69
#define VKATTN_SPEC_GRAD_KEY_TYPE 70
#define VKATTN_SPEC_GRAD_KEY_DIM_STRIDE 71
#define VKATTN_SPEC_GRAD_VALUE_TYPE 72
#define VKATTN_SPEC_GRAD_VALUE_DIM_STRIDE 73
#define VKATTN_SPEC_GRAD_MASK_TYPE 74
#define VKATTN_SPEC_HAS_GRAD_QUERY 75
#define VKATTN_SPEC_HAS_GRAD_KEY 76
#define VKATTN_SPEC_HAS_GRAD_VALUE 77
#define VKATTN_SPEC_HAS_GRAD_SLOPES 78
#define VKATTN_SPEC_HAS_GRAD_SINKS 79
#define VKATTN_SPEC_KEEPS_SCORE_GRADIENTS 80  // pairs have a third number: the gradient of the score
// Constants of the forms (lane, tile, matrix).
#define VKATTN_SPEC_STEP_ROWS 81
#define VKATTN_SPEC_STEP_KEYS 82
#define VKATTN_SPEC_MASKED_STEP 83  // rows or keys of a step that hides some pair
#define VKATTN_SPEC_STEP_OWNED 84  // rows or keys of a thread (tile) or of a workgroup (matrix)
#define VKATTN_SPEC_STEP_VISITED 85
#define VKATTN_SPEC_GRID_COLUMNS 86  // columns of the matrix forms' grid of subgroups
#define VKATTN_SPEC_GRAD_OUTPUT_LOADS8 87  // rows are dense and start at multiples of 8 elements
#define VKATTN_SPEC_GRAD_QUERY_VECTORS 88  // rows are dense and start at multiples of 4 elements
#define VKATTN_SPEC_GRAD_KEY_VECTORS 89
#define VKATTN_SPEC_GRAD_VALUE_VECTORS 90
#define VKATTN_SPEC_PAIR_TILE 92  // keys whose pairs lie together, row by row; 0: all of a chunk
#define VKATTN_SPEC_KEEPS_DELTAS 91  // later chunks read D of a row from the sums
// Constants of matrix2. Validation layer 1.4.309 takes an id for an index into the given values. There are fewer values than
// that, so it checks the defaults.
#define VKATTN_SPEC_PAIR_HEAD_BLOCK 93     // dims of a matrix; in workgroup scope head_dim, padded for matrices
#define VKATTN_SPEC_PAIR_VALUE_BLOCK 94    // the same of value_dim
#define VKATTN_SPEC_PAIR_OWNER_COLUMNS 95  // columns of matrices that have one number for each owner
#define VKATTN_SPEC_SCALED_FACTORS 101  // scaled factors of a gradient's products: 0, 1 (the pair) or 2 (the row too)
#define VKATTN_SPEC_HAS_GRAD_LSE 102
#define VKATTN_SPEC_PAIRS_APART 103  // a row's weights lie before its gradients
#define VKATTN_SPEC_KEEPS_GRADIENTS 104  // matrix2: the keys' pass leaves gradients of scores to the rows' pass
#define VKATTN_SPEC_VISITED_TRANSPOSED 105  // matrix: sums read a transposed stage of the visited rows
// Running sums of a gradient lie in the workspace, not in the gradient.
#define VKATTN_SPEC_GRAD_QUERY_SUMS_APART 106
#define VKATTN_SPEC_GRAD_KEY_SUMS_APART 107
#define VKATTN_SPEC_GRAD_VALUE_SUMS_APART 108
#define VKATTN_SPEC_PAIR_VALUES_STAGED 109  // matrix2, staged: owned rows of V or dO stay in shared memory
#define VKATTN_SPEC_FULL_STEPS 110  // lane: steps that hide nothing have code of their own

// Threads that share a row in the pass that computes the rows' numbers.
#define VKATTN_BACKWARD_ROW_THREADS 8

#endif
