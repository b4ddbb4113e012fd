// The operands of the matrix kernel, in memory and as matrices, and its specialization constants.
#ifndef VKATTN_MATRIX_OPERANDS
#define VKATTN_MATRIX_OPERANDS

#include "lib/matrix_forms.glsl"
#include "lib/tensor_bits.glsl"

layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kThreads = 128;
// The defaults are a shape that lavapipe lists: validation layer 1.4.309 checks them in place of the values in force.
layout(constant_id = VKATTN_SPEC_MATRIX_M) const uint kM = 8;
layout(constant_id = VKATTN_SPEC_MATRIX_N) const uint kN = 8;
layout(constant_id = VKATTN_SPEC_MATRIX_K) const uint kK = 8;
layout(constant_id = VKATTN_SPEC_MATRIX_SUBGROUP_SIZE) const uint kSubgroupSize = 32;
layout(constant_id = VKATTN_SPEC_MATRIX_ROW_BLOCKS) const uint kRowBlocks = 1;  // of kM rows, in each subgroup
layout(constant_id = VKATTN_SPEC_MATRIX_KEYS) const uint kBlockKeys = 32;
layout(constant_id = VKATTN_SPEC_MATRIX_SLICE_DIMS) const uint kSliceDims = 64;
layout(constant_id = VKATTN_SPEC_MATRIX_QUERY_IN_REGISTERS) const bool kQueryInRegisters = true;
layout(constant_id = VKATTN_SPEC_MATRIX_VALUES_TRANSPOSED) const bool kValuesTransposed = false;
layout(constant_id = VKATTN_SPEC_MATRIX_PREFETCH) const bool kPrefetch = false;
layout(constant_id = VKATTN_SPEC_MATRIX_SKIP_TILES) const bool kSkipTiles = true;
layout(constant_id = VKATTN_SPEC_MATRIX_QUERY_LOADS8) const bool kQueryLoads8 = false;
layout(constant_id = VKATTN_SPEC_MATRIX_KEY_LOADS8) const bool kKeyLoads8 = false;
layout(constant_id = VKATTN_SPEC_MATRIX_VALUE_LOADS8) const bool kValueLoads8 = false;

VKATTN_INPUT_BITS(query, kHeadDim, kQueryDimStride, kQueryLoads8, kQueryVectorLoads)
VKATTN_INPUT_BITS(key, kHeadDim, kKeyDimStride, kKeyLoads8, kKeyVectorLoads)
VKATTN_INPUT_BITS(value, kValueDim, kValueDimStride, kValueLoads8, kValueVectorLoads)

#define MatrixA coopmat<VKATTN_MATRIX_ELEMENT, gl_ScopeSubgroup, kM, kK, gl_MatrixUseA>
#define MatrixB coopmat<VKATTN_MATRIX_ELEMENT, gl_ScopeSubgroup, kK, kN, gl_MatrixUseB>
#define MatrixC coopmat<float, gl_ScopeSubgroup, kM, kN, gl_MatrixUseAccumulator>

// Two probabilities as operands, the first in the low half.
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
