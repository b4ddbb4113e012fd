// Numbers that each row of a matrix has (reductions of VK_NV_cooperative_matrix2). A number stands in all columns of its row of
// a matrix, a narrow one where it is kept.
#ifndef VKATTN_LIB_MATRIX2_ROWS
#define VKATTN_LIB_MATRIX2_ROWS

#include "lib/matrix_forms.glsl"

#extension GL_NV_cooperative_matrix2 : require

float either(const in float a, const in float b) { return a; }

// WIDE = the rows' NUMBERS in its own shape: a reduction of equal numbers is one of them. A macro, as functions of matrices
// that differ in their sizes alone are one function to glslang.
#define VKATTN_SPREAD_ROWS(WIDE, NUMBERS) coopMatReduceNV(WIDE, NUMBERS, gl_CooperativeMatrixReduceRowNV, either)

#endif
