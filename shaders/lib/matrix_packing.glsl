// Packing of numbers as 16-bit operands of matrices.
#ifndef VKATTN_LIB_MATRIX_PACKING
#define VKATTN_LIB_MATRIX_PACKING

#include "lib/matrix_forms.glsl"
#include "lib/types.glsl"

// Two numbers as operands, the first in the low half.
#if VKATTN_MATRIX_BFLOAT16
uint pack_operands(vec2 values) { return encode_bfloat16(values.x) | encode_bfloat16(values.y) << 16; }
#else
// This is a conversion, as packHalf2x16 truncates on some devices (lavapipe 26.1) and the tolerance assumes rounding to
// nearest.
uint pack_operands(vec2 values) { return packFloat2x16(f16vec2(values)); }
#endif

uvec4 pack_operands8(vec4 low, vec4 high) {
  return uvec4(pack_operands(low.xy), pack_operands(low.zw), pack_operands(high.xy), pack_operands(high.zw));
}

#endif
