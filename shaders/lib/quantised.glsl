// Elements of K and V that are stored in less than 16 bits.
#ifndef VKATTN_LIB_QUANTISED
#define VKATTN_LIB_QUANTISED

#include "lib/forms.glsl"
#include "lib/types.glsl"

// The length, in 16-bit words, of a block of 32 elements: a float16 scale, then the elements.
const uint kQ8BlockHalves = 17;
const uint kQ4BlockHalves = 9;

// Four signed bytes.
vec4 decode_q8(uint low, uint high) {
  const ivec2 pairs = ivec2(low | high << 16);
  return vec4(pairs.xxxx << ivec4(24, 16, 8, 0) >> 24);
}

// Four nibbles, one of each of four bytes, `shift` bits above the lowest.
vec4 decode_q4(uint low, uint high, uint shift) {
  const uvec4 bytes = uvec4(low, low >> 8, high, high >> 8);
  return vec4(ivec4(bytes >> shift & 15u) - 8);
}

// OCP float8 e4m3: no infinities, one NaN, subnormals in units of 2^-9.
float decode_e4m3(uint bits) {
  const uint magnitude = bits & 0x7fu;
  const float value = magnitude < 8u ? float(magnitude) * 0.001953125
                                     : uintBitsToFloat(magnitude == 0x7fu ? 0x7fc00000u
                                                                          : (magnitude << 20) + 0x3c000000u);
  return (bits & 0x80u) != 0u ? -value : value;
}

// For an input NAME that may be quantised. Indices count elements from the tensor's first one.
//   float NAME_quantised(index)             one element
//   vec4  NAME_quantised4(row_index, dim)   four neighbours in one block
//   float NAME_scale_of(row_index, dim)     the scale of these four
//   vec4  NAME_unscaled4(row_index, dim)    these four without their scale
// A row begins with a block. The block's number and the dim's place in it are separate terms, so that several calls share
// each calculation. Only shaders with features have these, in builds with quantised types.
#define VKATTN_NO_QUANTISED_INPUT(NAME, TYPE, VECTOR_LOADS)                                                     \
  float NAME##_quantised(uint index) { return 0.0; }                                                            \
  vec4 NAME##_quantised4(uint row_index, uint dim) { return vec4(0.0); }                                        \
  float NAME##_scale_of(uint row_index, uint dim) { return 1.0; }                                               \
  vec4 NAME##_unscaled4(uint row_index, uint dim) { return vec4(0.0); }

#if VKATTN_FEATURES && VKATTN_QUANTISED
#define VKATTN_QUANTISED_KEYS(NAME, TYPE, VECTOR_LOADS)                                                         \
  uint NAME##_block(uint index, uint halves) { return (params.NAME##_offset >> 1) + (index >> 5) * halves; }    \
                                                                                                                \
  float NAME##_quantised(uint index) {                                                                          \
    const uint i = index & 31u;                                                                                 \
    if (TYPE == VKATTN_TYPE_Q8_0) {                                                                             \
      const uint block = NAME##_block(index, kQ8BlockHalves);                                                   \
      const uint pair = VKATTN_HALF_BITS(NAME, block + 1u + (i >> 1));                                          \
      return unpackHalf2x16(VKATTN_HALF_BITS(NAME, block)).x * float(int(pair << 24u - (i & 1u) * 8u) >> 24);   \
    }                                                                                                           \
    if (TYPE == VKATTN_TYPE_Q4_0) {                                                                             \
      const uint block = NAME##_block(index, kQ4BlockHalves);                                                   \
      const uint pair = VKATTN_HALF_BITS(NAME, block + 1u + ((i & 15u) >> 1));                                  \
      const int nibble = int(pair >> ((i & 1u) * 8u + (i >> 4) * 4u) & 15u);                                    \
      return unpackHalf2x16(VKATTN_HALF_BITS(NAME, block)).x * float(nibble - 8);                               \
    }                                                                                                           \
    const uint address = params.NAME##_offset + index;                                                          \
    return decode_e4m3(NAME##_words[address >> 2] >> (address & 3u) * 8u) * NAME##_scale;                       \
  }                                                                                                             \
                                                                                                                \
  float NAME##_scale_of(uint row_index, uint dim) {                                                             \
    if (TYPE == VKATTN_TYPE_FLOAT8_E4M3) return NAME##_scale;                                                   \
    const uint halves = TYPE == VKATTN_TYPE_Q8_0 ? kQ8BlockHalves : kQ4BlockHalves;                             \
    return unpackHalf2x16(VKATTN_HALF_BITS(NAME, NAME##_block(row_index, halves) + (dim >> 5) * halves)).x;     \
  }                                                                                                             \
                                                                                                                \
  vec4 NAME##_unscaled4(uint row_index, uint dim) {                                                             \
    const uint i = dim & 31u;                                                                                   \
    if (TYPE == VKATTN_TYPE_Q8_0) {                                                                             \
      const uint block = NAME##_block(row_index, kQ8BlockHalves);                                               \
      const uint first = block + ((dim >> 5) * kQ8BlockHalves + 1u + (i >> 1));                                 \
      return decode_q8(VKATTN_HALF_BITS(NAME, first), VKATTN_HALF_BITS(NAME, first + 1u));                      \
    }                                                                                                           \
    if (TYPE == VKATTN_TYPE_Q4_0) {                                                                             \
      const uint block = NAME##_block(row_index, kQ4BlockHalves);                                               \
      const uint first = block + ((dim >> 5) * kQ4BlockHalves + 1u + ((i & 15u) >> 1));                         \
      return decode_q4(VKATTN_HALF_BITS(NAME, first), VKATTN_HALF_BITS(NAME, first + 1u), (i >> 4) * 4u);       \
    }                                                                                                           \
    const uint address = params.NAME##_offset + row_index + dim;                                                \
    if (VECTOR_LOADS) {                                                                                         \
      const uint word = NAME##_words[address >> 2];                                                             \
      return vec4(decode_e4m3(word), decode_e4m3(word >> 8), decode_e4m3(word >> 16), decode_e4m3(word >> 24)); \
    }                                                                                                           \
    vec4 result;                                                                                                \
    [[unroll]] for (uint d = 0; d < 4; ++d) {                                                                   \
      result[d] = decode_e4m3(NAME##_words[(address + d) >> 2] >> ((address + d) & 3u) * 8u);                   \
    }                                                                                                           \
    return result;                                                                                              \
  }                                                                                                             \
                                                                                                                \
  vec4 NAME##_quantised4(uint row_index, uint dim) {                                                            \
    return NAME##_scale_of(row_index, dim) * NAME##_unscaled4(row_index, dim);                                  \
  }
#else
#define VKATTN_QUANTISED_KEYS VKATTN_NO_QUANTISED_INPUT
#endif

#endif
