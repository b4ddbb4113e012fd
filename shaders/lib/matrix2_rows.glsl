// Numbers of a matrix's rows (reductions of VK_NV_cooperative_matrix2). A number stands in all columns of its row. Between
// uses it is kept in a narrow matrix.
#ifndef VKATTN_LIB_MATRIX2_ROWS
#define VKATTN_LIB_MATRIX2_ROWS

#include "lib/matrix_forms.glsl"

#extension GL_NV_cooperative_matrix2 : require

float either(const in float a, const in float b) { return a; }
float larger(const in float a, const in float b) { return max(a, b); }

// WIDE = the rows' NUMBERS, spread over the columns of WIDE: a reduction of equal numbers is one of them. For numbers that
// follow from sums it takes the largest, as a driver may sum each column in a different order. These are macros: to
// glslang, functions of matrices that differ only in their sizes are one function.
#define VKATTN_SPREAD_ROWS(WIDE, NUMBERS) coopMatReduceNV(WIDE, NUMBERS, gl_CooperativeMatrixReduceRowNV, either)
#define VKATTN_SPREAD_SUMS(WIDE, NUMBERS) coopMatReduceNV(WIDE, NUMBERS, gl_CooperativeMatrixReduceRowNV, larger)

#endif
