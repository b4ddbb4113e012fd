// Numbers that each row of a matrix has (reductions of VK_NV_cooperative_matrix2). A number stands in all columns of its row of
// a matrix, a narrow one where it is kept.
#ifndef VKATTN_LIB_MATRIX2_ROWS
#define VKATTN_LIB_MATRIX2_ROWS

#include "lib/matrix_forms.glsl"

#extension GL_NV_cooperative_matrix2 : require

float either(const in float a, const in float b) { return a; }
float larger(const in float a, const in float b) { return max(a, b); }

// WIDE = the rows' NUMBERS in its own shape: a reduction of equal numbers is one of them. Of what follows from sums it is the
// largest, as a driver may add up each column in an order of its own. Macros, as functions of matrices that differ in their
// sizes alone are one function to glslang.
#define VKATTN_SPREAD_ROWS(WIDE, NUMBERS) coopMatReduceNV(WIDE, NUMBERS, gl_CooperativeMatrixReduceRowNV, either)
#define VKATTN_SPREAD_SUMS(WIDE, NUMBERS) coopMatReduceNV(WIDE, NUMBERS, gl_CooperativeMatrixReduceRowNV, larger)

#endif
