// The operands of the matrix kernel in memory, and its specialization constants.
#ifndef VKATTN_MATRIX_OPERANDS
#define VKATTN_MATRIX_OPERANDS

#include "lib/matrix_operands.glsl"
#include "lib/tensor_bits.glsl"

layout(constant_id = VKATTN_SPEC_MATRIX_ROW_BLOCKS) const uint kRowBlocks = 1;  // blocks of kM rows in each subgroup
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

#endif
