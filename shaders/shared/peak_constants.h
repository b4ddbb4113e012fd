// Specialization constants, modes and counts of the kernels that measure a device's peaks. GLSL and C++ read this.
#ifndef VKATTN_SHADERS_SHARED_PEAK_CONSTANTS_H
#define VKATTN_SHADERS_SHARED_PEAK_CONSTANTS_H

// Ids of the specialization constants. They are dense and in order in each shader, as validation layers misread matrix
// sizes otherwise.
#define VKATTN_PEAK_WORKGROUP_SIZE_ID 0
#define VKATTN_PEAK_VECTORS_ID 1   // multiply-add: vec4 chains in flight; copy: uvec4 of an invocation
#define VKATTN_PEAK_COPY_MODE_ID 2
#define VKATTN_PEAK_MATRIX_M_ID 1
#define VKATTN_PEAK_MATRIX_N_ID 2
#define VKATTN_PEAK_MATRIX_K_ID 3
#define VKATTN_PEAK_MATRIX_OPERAND_BYTES_ID 4
#define VKATTN_PEAK_MATRIX_COLUMNS_ID 5
#define VKATTN_PEAK_MATRIX_FLIPS_ID 6

// Multiply-adds on each chain for one iteration of the outer loop.
#define VKATTN_PEAK_MULTIPLY_ADD_STEPS 8

// What is done with the source: by peak_copy.comp, the last one by peak_read_vectors.comp.
#define VKATTN_PEAK_COPY 0          // neighbouring lanes read and write neighbouring vectors
#define VKATTN_PEAK_READ 1          // reads as above, and no writes
#define VKATTN_PEAK_READ_UNIFORM 2  // all lanes of a workgroup read one address: descriptors' best on CPUs
#define VKATTN_PEAK_READ_VECTORS 3  // a workgroup's 8 lanes read vectors by the buffer's address

// Matrices of A that a subgroup holds. The matrices of B are a specialization constant. Each pair has an accumulator and is
// multiplied once an iteration.
#define VKATTN_PEAK_MATRIX_ROWS 4

#endif
