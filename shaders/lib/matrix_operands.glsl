// Cooperative matrices of 16-bit operands and float32 sums: their shape, and how numbers become operands.
#ifndef VKATTN_LIB_MATRIX_OPERANDS
#define VKATTN_LIB_MATRIX_OPERANDS

#include "lib/matrix_forms.glsl"
#include "lib/types.glsl"

layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kThreads = 128;
// The defaults are a shape that lavapipe lists: validation layer 1.4.309 checks them, see shared/attention_constants.h.
layout(constant_id = VKATTN_SPEC_MATRIX_M) const uint kM = 8;
layout(constant_id = VKATTN_SPEC_MATRIX_N) const uint kN = 8;
layout(constant_id = VKATTN_SPEC_MATRIX_K) const uint kK = 8;
layout(constant_id = VKATTN_SPEC_MATRIX_SUBGROUP_SIZE) const uint kSubgroupSize = 32;

#define MatrixA coopmat<VKATTN_MATRIX_ELEMENT, gl_ScopeSubgroup, kM, kK, gl_MatrixUseA>
#define MatrixB coopmat<VKATTN_MATRIX_ELEMENT, gl_ScopeSubgroup, kK, kN, gl_MatrixUseB>
#define MatrixC coopmat<float, gl_ScopeSubgroup, kM, kN, gl_MatrixUseAccumulator>

// Two numbers as operands, the first in the low half.
#if VKATTN_MATRIX_BFLOAT16
uint pack_operands(vec2 values) { return encode_bfloat16(values.x) | encode_bfloat16(values.y) << 16; }
#else
// A conversion, not packHalf2x16: that one truncates on some devices (lavapipe 26.1), and the tolerance is for
// rounding to nearest.
uint pack_operands(vec2 values) { return packFloat2x16(f16vec2(values)); }
#endif

uvec4 pack_operands8(vec4 low, vec4 high) {
  return uvec4(pack_operands(low.xy), pack_operands(low.zw), pack_operands(high.xy), pack_operands(high.zw));
}

#endif
