// The elements that the tile kernel multiplies: float32, or float16 with VKATTN_FLOAT16_ARITHMETIC.
#ifndef VKATTN_TILE_ELEMENTS
#define VKATTN_TILE_ELEMENTS

#include "lib/specialization.glsl"

#ifndef VKATTN_FLOAT16_ARITHMETIC
#define VKATTN_FLOAT16_ARITHMETIC 0
#endif

const bool kFloat16Arithmetic = VKATTN_FLOAT16_ARITHMETIC != 0;

// Packs elements that were float16 before, so that it is exact: packHalf2x16 may truncate others.
uvec2 packed_quad(vec4 elements) { return uvec2(packHalf2x16(elements.xy), packHalf2x16(elements.zw)); }

#if VKATTN_FLOAT16_ARITHMETIC
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

#define Element float16_t
#define Quad f16vec4

Quad unpacked_quad(uvec2 bits) { return Quad(unpackFloat2x16(bits.x), unpackFloat2x16(bits.y)); }

// Queries are scaled by the power of two below the scale of scores, so that float16 sums are about as large as scores. The
// power is from 2^-8 to 1: it stays exact, except for subnormal queries.
uint query_scale_exponent() {
  return clamp((floatBitsToUint(params.scale_log2) >> 23) & 0xffu, 127u - VKATTN_TILE_MOST_SCALE_BITS, 127u);
}

// query_scale() multiplies queries before their products, score_scale() the sums of these products.
float16_t query_scale() { return float16_t(uintBitsToFloat(query_scale_exponent() << 23)); }
float score_scale() { return params.scale_log2 * uintBitsToFloat((254u - query_scale_exponent()) << 23); }
#else
#define Element float
#define Quad vec4

Quad unpacked_quad(uvec2 bits) { return vec4(unpackHalf2x16(bits.x), unpackHalf2x16(bits.y)); }
float query_scale() { return 1.0; }
float score_scale() { return params.scale_log2; }
#endif

#endif
