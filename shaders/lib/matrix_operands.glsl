// The shapes of cooperative matrices with 16-bit operands and float32 sums. lib/matrix_packing.glsl packs operands.
#ifndef VKATTN_LIB_MATRIX_OPERANDS
#define VKATTN_LIB_MATRIX_OPERANDS

#include "lib/matrix_forms.glsl"
#include "lib/matrix_packing.glsl"

layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kThreads = 128;
// The defaults are a shape that lavapipe lists, as validation layer 1.4.309 checks them (shared/attention_constants.h).
layout(constant_id = VKATTN_SPEC_MATRIX_M) const uint kM = 8;
layout(constant_id = VKATTN_SPEC_MATRIX_N) const uint kN = 8;
layout(constant_id = VKATTN_SPEC_MATRIX_K) const uint kK = 8;
layout(constant_id = VKATTN_SPEC_MATRIX_SUBGROUP_SIZE) const uint kSubgroupSize = 32;

#define MatrixA coopmat<VKATTN_MATRIX_ELEMENT, gl_ScopeSubgroup, kM, kK, gl_MatrixUseA>
#define MatrixB coopmat<VKATTN_MATRIX_ELEMENT, gl_ScopeSubgroup, kK, kN, gl_MatrixUseB>
#define MatrixC coopmat<float, gl_ScopeSubgroup, kM, kN, gl_MatrixUseAccumulator>

#endif
