// Constants that the shaders of matrix multiplication and the host share. GLSL and C++ read these plain macros.
#ifndef VKATTN_SHARED_MATMUL_CONSTANTS_H
#define VKATTN_SHARED_MATMUL_CONSTANTS_H

// Bindings of set 0.
#define VKATTN_MATMUL_BINDING_A 0
#define VKATTN_MATMUL_BINDING_B 1
#define VKATTN_MATMUL_BINDING_BIAS 2
#define VKATTN_MATMUL_BINDING_OUTPUT 3
#define VKATTN_MATMUL_BINDING_PARTIALS 4  // in the workspace, if inner is split; matmul_copy.comp: its copy
#define VKATTN_MATMUL_BINDING_COUNT 5

// A matrix of ones, without storage. The other types are the storage types of attention_constants.h.
#define VKATTN_MATMUL_TYPE_ONES 16

// How the elements of an operand lie in memory. An operand has the inner dimension and an outer one, which the output has
// too: rows of a, columns of b.
#define VKATTN_MATMUL_LOADS_SINGLE 0  // in any order
#define VKATTN_MATMUL_LOADS_INNER 1   // dense along the inner dimension, in quads that start at multiples of 4 elements
#define VKATTN_MATMUL_LOADS_OUTER 2   // the same along the outer dimension, whose size is a multiple of 4

// Specialization constants.
#define VKATTN_MATMUL_SPEC_WORKGROUP_SIZE 0
#define VKATTN_MATMUL_SPEC_A_TYPE 1
#define VKATTN_MATMUL_SPEC_B_TYPE 2
#define VKATTN_MATMUL_SPEC_BIAS_TYPE 3
#define VKATTN_MATMUL_SPEC_OUTPUT_TYPE 4
#define VKATTN_MATMUL_SPEC_A_LOADS 5
#define VKATTN_MATMUL_SPEC_B_LOADS 6
#define VKATTN_MATMUL_SPEC_HAS_BIAS 7
#define VKATTN_MATMUL_SPEC_ACCUMULATES 8
#define VKATTN_MATMUL_SPEC_SPLIT 9  // sums over a part of the inner dimension go to the workspace

// Block sizes of an invocation, or, for the matrix kernel, of a subgroup.
#define VKATTN_MATMUL_SPEC_ROWS 16
#define VKATTN_MATMUL_SPEC_COLUMNS 17
#define VKATTN_MATMUL_SPEC_INNER 18
#define VKATTN_MATMUL_SPEC_GRID_COLUMNS 19  // threads, or subgroups of the matrix kernel, along the columns of a block

#define VKATTN_MATMUL_SPEC_TOUCHES 20       // lane_decode reads the cache lines of a first

#define VKATTN_MATMUL_SPEC_MATRIX_M 24  // the shape of one product: M x K times K x N
#define VKATTN_MATMUL_SPEC_MATRIX_N 25
#define VKATTN_MATMUL_SPEC_MATRIX_K 26
#define VKATTN_MATMUL_SPEC_SUBGROUP_SIZE 27
#define VKATTN_MATMUL_SPEC_A_LOADS8 28  // loads are of 8 elements, not of 4
#define VKATTN_MATMUL_SPEC_B_LOADS8 29
#define VKATTN_MATMUL_SPEC_STAGES 30  // in shared memory, 1 or 2

#endif
