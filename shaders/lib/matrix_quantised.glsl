// Quantised keys and values as operands of matrices. An element without its scale is a small number that 16 bits hold
// exactly. Only shaders with features, in builds with quantised tensors, have code here; in others the functions do
// nothing.
//   bool kKeysQuantised, kValuesQuantised
//   float key_head_scale(), value_head_scale()   factor of scores, of outputs: float8 has one scale for a head
//   uvec4 key_operands8(row_index, dim)          elements dim .. dim + 7 of a row without their scale, 0 beyond the last dim
//   uvec2 key_float8_bytes8(row_index, dim)      the stored bytes of these elements, if float8; for float8_operands8()
// value_operands8() and value_float8_bytes8() do the same for values.
#ifndef VKATTN_LIB_MATRIX_QUANTISED
#define VKATTN_LIB_MATRIX_QUANTISED

#include "lib/matrix_packing.glsl"
#include "lib/tensors.glsl"

#if VKATTN_FEATURES && VKATTN_QUANTISED

const bool kKeysQuantised = kKeyType >= VKATTN_TYPE_Q8_0;
const bool kValuesQuantised = kValueType >= VKATTN_TYPE_Q8_0;

float key_head_scale() { return kKeyType == VKATTN_TYPE_FLOAT8_E4M3 ? key_scale : 1.0; }
float value_head_scale() { return kValueType == VKATTN_TYPE_FLOAT8_E4M3 ? value_scale : 1.0; }

// Decodes eight numbers of float8, a byte each.
uvec4 float8_operands8(uvec2 bytes) {
  vec4 low, high;
  [[unroll]] for (uint d = 0; d < 4; ++d) {
    low[d] = decode_e4m3(bytes.x >> d * 8u);
    high[d] = decode_e4m3(bytes.y >> d * 8u);
  }
  return pack_operands8(low, high);
}

// Rows of types with blocks are whole blocks. Rows of float8 may end anywhere, and their dims may be strided. A byte of 0
// is the number 0.
#define VKATTN_QUANTISED_OPERANDS(NAME, TYPE, DIMS, DIM_STRIDE, VECTOR_LOADS)                                  \
  uint NAME##_float8(uint row_index, uint dim) {                                                               \
    if (dim >= DIMS) return 0u;                                                                                \
    const uint address = params.NAME##_offset + row_index + dim * DIM_STRIDE;                                  \
    return NAME##_words[address >> 2] >> (address & 3u) * 8u & 0xffu;                                          \
  }                                                                                                            \
                                                                                                               \
  uvec2 NAME##_float8_bytes8(uint row_index, uint dim) {                                                       \
    if (dim >= DIMS) return uvec2(0u);                                                                         \
    if (VECTOR_LOADS && dim + 8u <= DIMS) {                                                                    \
      const uint word = (params.NAME##_offset + row_index + dim) >> 2;                                         \
      return uvec2(NAME##_words[word], NAME##_words[word + 1u]);                                               \
    }                                                                                                          \
    uvec2 bytes = uvec2(0u);                                                                                   \
    [[unroll]] for (uint d = 0; d < 4; ++d) {                                                                  \
      bytes.x |= NAME##_float8(row_index, dim + d) << d * 8u;                                                  \
      bytes.y |= NAME##_float8(row_index, dim + 4u + d) << d * 8u;                                             \
    }                                                                                                          \
    return bytes;                                                                                              \
  }                                                                                                            \
                                                                                                               \
  uvec4 NAME##_operands8(uint row_index, uint dim) {                                                           \
    if (dim >= DIMS) return uvec4(0u);                                                                         \
    if (TYPE == VKATTN_TYPE_FLOAT8_E4M3) return float8_operands8(NAME##_float8_bytes8(row_index, dim));        \
    return pack_operands8(NAME##_unscaled4(row_index, dim), NAME##_unscaled4(row_index, dim + 4u));            \
  }
VKATTN_QUANTISED_OPERANDS(key, kKeyType, kHeadDim, kKeyDimStride, kKeyVectorLoads)
VKATTN_QUANTISED_OPERANDS(value, kValueType, kValueDim, kValueDimStride, kValueVectorLoads)

#else

const bool kKeysQuantised = false;
const bool kValuesQuantised = false;
float key_head_scale() { return 1.0; }
float value_head_scale() { return 1.0; }
uvec4 key_operands8(uint row_index, uint dim) { return uvec4(0u); }
uvec4 value_operands8(uint row_index, uint dim) { return uvec4(0u); }
uvec2 key_float8_bytes8(uint row_index, uint dim) { return uvec2(0u); }
uvec2 value_float8_bytes8(uint row_index, uint dim) { return uvec2(0u); }
uvec4 float8_operands8(uvec2 bytes) { return uvec4(0u); }

#endif

#endif
