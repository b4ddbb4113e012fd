// The two operands. Each has an inner dimension and an outer one, which the output has too: rows of a, columns of b. For each
// operand NAME this defines
//   uint  NAME_outer(batch, outer)            index of its element (outer, 0)
//   float NAME_element(outer_index, inner)    one element
//   vec4  NAME_inner4(outer_index, inner)     elements inner .. inner + 3; inner is a multiple of 4
//   vec4  NAME_outer4(outer_index, inner)     elements outer .. outer + 3, with VKATTN_MATMUL_LOADS_OUTER
// All of these elements must exist.
#ifndef VKATTN_MATMUL_OPERANDS
#define VKATTN_MATMUL_OPERANDS

#include "lib/quantised.glsl"
#include "lib/types.glsl"
#include "lib/views.glsl"
#include "matmul/specialization.glsl"

// Blocks lie along the inner dimension; then outer indices count elements from the tensor's first one.
bool is_blocks(uint type) { return type == VKATTN_TYPE_Q8_0 || type == VKATTN_TYPE_Q4_0; }

#define VKATTN_MATMUL_OPERAND(NAME, BINDING, TYPE, LOADS)                                                       \
  layout(set = 0, binding = BINDING, std430) readonly buffer NAME##Words { uint NAME##_words[]; };              \
  VKATTN_HALVES(NAME, BINDING)                                                                                  \
  VKATTN_VECTORS(NAME, BINDING)                                                                                 \
                                                                                                                \
  uint NAME##_outer(uint batch, uint outer) {                                                                   \
    return (is_blocks(TYPE) ? 0u : params.NAME##_offset) + batch * params.NAME##_batch_stride +                 \
           outer * params.NAME##_outer_stride;                                                                  \
  }                                                                                                             \
                                                                                                                \
  float NAME##_at(uint index) {                                                                                 \
    if (TYPE == VKATTN_TYPE_FLOAT32) return uintBitsToFloat(NAME##_words[index]);                               \
    return decode_16bit(VKATTN_HALF_BITS(NAME, index), TYPE);                                                   \
  }                                                                                                             \
                                                                                                                \
  vec4 NAME##_at4(uint index) {                                                                                 \
    if (TYPE == VKATTN_TYPE_FLOAT32) return uintBitsToFloat(VKATTN_LOAD4(NAME, index >> 2));                    \
    const uvec2 pair = VKATTN_LOAD2(NAME, index >> 2);                                                          \
    return vec4(decode_pair(pair.x, TYPE), decode_pair(pair.y, TYPE));                                          \
  }                                                                                                             \
                                                                                                                \
  uint NAME##_block(uint outer_index, uint inner) {                                                             \
    const uint halves = TYPE == VKATTN_TYPE_Q8_0 ? kQ8BlockHalves : kQ4BlockHalves;                             \
    return params.NAME##_offset + ((outer_index >> 5) + (inner >> 5)) * halves;                                 \
  }                                                                                                             \
                                                                                                                \
  float NAME##_scale(uint outer_index, uint inner) {                                                            \
    return unpackHalf2x16(VKATTN_HALF_BITS(NAME, NAME##_block(outer_index, inner))).x;                          \
  }                                                                                                             \
                                                                                                                \
  vec4 NAME##_unscaled4(uint outer_index, uint inner) {                                                         \
    const uint i = inner & 31u;                                                                                 \
    const uint first = NAME##_block(outer_index, inner) + 1u + ((TYPE == VKATTN_TYPE_Q8_0 ? i : i & 15u) >> 1); \
    const uint low = VKATTN_HALF_BITS(NAME, first);                                                             \
    const uint high = VKATTN_HALF_BITS(NAME, first + 1u);                                                       \
    return TYPE == VKATTN_TYPE_Q8_0 ? decode_q8(low, high) : decode_q4(low, high, (i >> 4) * 4u);               \
  }                                                                                                             \
                                                                                                                \
  float NAME##_element(uint outer_index, uint inner) {                                                          \
    if (TYPE == VKATTN_MATMUL_TYPE_ONES) return 1.0;                                                            \
    if (is_blocks(TYPE)) return NAME##_scale(outer_index, inner) * NAME##_unscaled4(outer_index, inner & ~3u)[inner & 3u]; \
    return NAME##_at(outer_index + inner * params.NAME##_inner_stride);                                         \
  }                                                                                                             \
                                                                                                                \
  vec4 NAME##_inner4(uint outer_index, uint inner) {                                                            \
    if (TYPE == VKATTN_MATMUL_TYPE_ONES) return vec4(1.0);                                                      \
    if (is_blocks(TYPE)) return NAME##_scale(outer_index, inner) * NAME##_unscaled4(outer_index, inner);        \
    if (LOADS == VKATTN_MATMUL_LOADS_INNER) return NAME##_at4(outer_index + inner);                             \
    return vec4(NAME##_element(outer_index, inner), NAME##_element(outer_index, inner + 1u),                    \
                NAME##_element(outer_index, inner + 2u), NAME##_element(outer_index, inner + 3u));              \
  }                                                                                                             \
                                                                                                                \
  vec4 NAME##_outer4(uint outer_index, uint inner) {                                                            \
    return NAME##_at4(outer_index + inner * params.NAME##_inner_stride);                                        \
  }

VKATTN_MATMUL_OPERAND(a, VKATTN_MATMUL_BINDING_A, kAType, kALoads)
VKATTN_MATMUL_OPERAND(b, VKATTN_MATMUL_BINDING_B, kBType, kBLoads)

#endif
