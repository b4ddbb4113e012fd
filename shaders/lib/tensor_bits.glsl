// 16-bit inputs as they are stored, 8 elements at a time, for kernels that pass them on without decoding.
//   uvec4 NAME_full_bits8(row_index, dim)   elements dim .. dim + 7, all of them dims; dim is a multiple of 8
//   uvec4 NAME_bits8(row_index, dim)        elements dim .. dim + 7, 0 beyond the last dim
#ifndef VKATTN_LIB_TENSOR_BITS
#define VKATTN_LIB_TENSOR_BITS

#include "lib/tensors.glsl"

// LOADS8: rows are dense and start at multiples of 8 elements. LOADS4: they start at multiples of 4.
#define VKATTN_INPUT_BITS(NAME, DIMS, DIM_STRIDE, LOADS8, LOADS4)                                              \
  uint NAME##_bits(uint row_index, uint dim) {                                                                 \
    return dim < DIMS ? VKATTN_HALF_BITS(NAME, row_index + dim * DIM_STRIDE) : 0u;                             \
  }                                                                                                            \
                                                                                                               \
  uint NAME##_bits2(uint row_index, uint dim) {                                                                \
    return NAME##_bits(row_index, dim) | NAME##_bits(row_index, dim + 1u) << 16;                               \
  }                                                                                                            \
                                                                                                               \
  uvec4 NAME##_full_bits8(uint row_index, uint dim) {                                                          \
    if (LOADS8) return VKATTN_LOAD4(NAME, (row_index + dim) >> 3);                                             \
    if (LOADS4) {                                                                                              \
      const uint index = (row_index + dim) >> 2;                                                               \
      return uvec4(VKATTN_LOAD2(NAME, index), VKATTN_LOAD2(NAME, index + 1u));                                 \
    }                                                                                                          \
    return uvec4(NAME##_bits2(row_index, dim), NAME##_bits2(row_index, dim + 2u),                              \
                 NAME##_bits2(row_index, dim + 4u), NAME##_bits2(row_index, dim + 6u));                        \
  }                                                                                                            \
                                                                                                               \
  uvec4 NAME##_bits8(uint row_index, uint dim) {                                                               \
    if (dim >= DIMS) return uvec4(0u);                                                                         \
    if (DIMS % 8u == 0u || dim + 8u <= DIMS) return NAME##_full_bits8(row_index, dim);                         \
    return uvec4(NAME##_bits2(row_index, dim), NAME##_bits2(row_index, dim + 2u),                              \
                 NAME##_bits2(row_index, dim + 4u), NAME##_bits2(row_index, dim + 6u));                        \
  }

#endif
