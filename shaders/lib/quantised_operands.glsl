// Quantised keys and values as operands of matrices: elements without their scale are small numbers that 16 bits hold exactly.
//
// Only shaders with features have quantised tensors, in builds with them: the others have functions that do nothing.
//   bool kKeysQuantised, kValuesQuantised
//   float key_head_scale(), value_head_scale()   of scores, of outputs: float8 has one scale for a head
//   uvec4 key_operands8(row_index, dim)          8 elements of a row without their scale; value_operands8() likewise
#ifndef VKATTN_LIB_QUANTISED_OPERANDS
#define VKATTN_LIB_QUANTISED_OPERANDS

#include "lib/pack_operands.glsl"
#include "lib/tensors.glsl"

#if VKATTN_FEATURES && VKATTN_QUANTISED

const bool kKeysQuantised = kKeyType >= VKATTN_TYPE_Q8_0;
const bool kValuesQuantised = kValueType >= VKATTN_TYPE_Q8_0;

float key_head_scale() { return kKeyType == VKATTN_TYPE_FLOAT8_E4M3 ? key_scale : 1.0; }
float value_head_scale() { return kValueType == VKATTN_TYPE_FLOAT8_E4M3 ? value_scale : 1.0; }

// Elements dim .. dim + 7 as operands, 0 for what lies beyond the last dim. Rows of types with blocks are whole ones;
// those of float8 may end anywhere, and have their dims apart.
#define VKATTN_QUANTISED_OPERANDS(NAME, TYPE, DIMS, DIM_STRIDE)                                                \
  float NAME##_float8(uint row_index, uint dim) {                                                              \
    if (dim >= DIMS) return 0.0;                                                                               \
    const uint address = params.NAME##_offset + row_index + dim * DIM_STRIDE;                                  \
    return decode_e4m3(NAME##_words[address >> 2] >> (address & 3u) * 8u);                                     \
  }                                                                                                            \
                                                                                                               \
  uvec4 NAME##_operands8(uint row_index, uint dim) {                                                           \
    if (dim >= DIMS) return uvec4(0u);                                                                         \
    vec4 low, high;                                                                                            \
    if (TYPE == VKATTN_TYPE_FLOAT8_E4M3 && (DIM_STRIDE != 1u || dim + 8u > DIMS)) {                            \
      [[unroll]] for (uint d = 0; d < 4; ++d) {                                                                \
        low[d] = NAME##_float8(row_index, dim + d);                                                            \
        high[d] = NAME##_float8(row_index, dim + 4u + d);                                                      \
      }                                                                                                        \
    } else {                                                                                                   \
      low = NAME##_unscaled4(row_index, dim);                                                                  \
      high = NAME##_unscaled4(row_index, dim + 4u);                                                            \
    }                                                                                                          \
    return pack_operands8(low, high);                                                                          \
  }
VKATTN_QUANTISED_OPERANDS(key, kKeyType, kHeadDim, kKeyDimStride)
VKATTN_QUANTISED_OPERANDS(value, kValueType, kValueDim, kValueDimStride)

#else

const bool kKeysQuantised = false;
const bool kValuesQuantised = false;
float key_head_scale() { return 1.0; }
float value_head_scale() { return 1.0; }
uvec4 key_operands8(uint row_index, uint dim) { return uvec4(0u); }
uvec4 value_operands8(uint row_index, uint dim) { return uvec4(0u); }

#endif

#endif
