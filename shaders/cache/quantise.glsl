// Rounding to storage types below 16 bits, with equal bits on every device.
#ifndef VKATTN_CACHE_QUANTISE
#define VKATTN_CACHE_QUANTISE

#include "lib/forms.glsl"
#include "lib/types.glsl"

// a / b, rounded to nearest, of positive normal numbers with a normal quotient. A device's own division may be off by 2.5
// units in the last place, which would show in the scale and in elements near a half.
float divide(float a, float b) {
  uint a_significand = (floatBitsToUint(a) & 0x7fffffu) | 0x800000u;
  const uint b_significand = (floatBitsToUint(b) & 0x7fffffu) | 0x800000u;
  uint exponent = (floatBitsToUint(a) >> 23) - (floatBitsToUint(b) >> 23) + 127u;
  if (a_significand < b_significand) {
    a_significand <<= 1;
    --exponent;
  }
  // In units of 2^-23 the quotient is off by 4 at most. The remainder, for which 32 bits are enough, corrects it.
  uint quotient = uint(float(a_significand) / float(b_significand) * 8388608.0);
  int remainder = int((a_significand << 23) - quotient * b_significand);
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    if (remainder < 0) {
      --quotient;
      remainder += int(b_significand);
    } else if (remainder >= int(b_significand)) {
      ++quotient;
      remainder -= int(b_significand);
    }
  }
  if (2 * remainder > int(b_significand)) ++quotient;  // no quotient of two floats lies halfway between two
  return uintBitsToFloat((exponent << 23) + (quotient - 0x800000u));
}

// 1 / x, rounded to nearest if x and the result are normal.
float reciprocal(float x) {
  const uint magnitude = floatBitsToUint(x) & 0x7fffffffu;
  if (magnitude < 0x00800000u || magnitude >= 0x7e800000u) return 1.0 / x;
  const float result = divide(1.0, uintBitsToFloat(magnitude));
  return x < 0.0 ? -result : result;
}

// Rounds to float8 e4m3, to nearest even. Numbers beyond 448 become 448.
uint encode_e4m3(float value) {
  const uint bits = floatBitsToUint(value);
  const uint sign = (bits >> 24) & 0x80u;
  const uint magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7fu;
  if (magnitude >= 0x43e00000u) return sign | 0x7eu;
  if (magnitude >= 0x3c800000u) {
    return sign | ((magnitude - 0x3c000000u + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20);
  }
  return sign | round_to_units(magnitude, 141u);
}

// The common scale of the 32 elements of a block.
struct BlockScale {
  uint bits;      // of the stored float16
  float inverse;  // the factor of elements; 0 if all of them become 0
};

// The scale of a block. `largest` has the float32 bits of the first element with the largest magnitude. As in llama.cpp,
// q8_0 gives that magnitude the code 127, and q4_0 gives that element the code -8.
BlockScale block_scale(uint largest, uint type) {
  const uint magnitude = largest & 0x7fffffffu;
  const uint opposite = ~largest & 0x80000000u;
  if (magnitude >= 0x7f800000u) return BlockScale(0x7e00u, 0.0);
  if (type == VKATTN_TYPE_Q8_0) {
    if (magnitude < 0x03fe0000u) return BlockScale(0u, 0.0);  // 127 times the smallest normal number
    const float scale = divide(uintBitsToFloat(magnitude), 127.0);
    return BlockScale(encode_float16(scale), reciprocal(scale));
  }
  if (magnitude < 0x02000000u) return BlockScale(opposite >> 16, 0.0);
  const float scale = uintBitsToFloat((magnitude - 0x01800000u) | opposite);  // an eighth
  return BlockScale(encode_float16(scale), reciprocal(scale));
}

// Four elements of q8_0 as bytes, rounded to nearest, halves away from zero.
uint q8_0_codes(vec4 elements, float inverse) {
  if (inverse == 0.0) return 0u;
  precise const vec4 scaled = abs(elements) * inverse;
  const vec4 whole = floor(scaled);
  const ivec4 rounded =
      min(ivec4(whole) + mix(ivec4(0), ivec4(1), greaterThanEqual(scaled - whole, vec4(0.5))), ivec4(127));
  const uvec4 codes = uvec4(mix(rounded, -rounded, lessThan(elements, vec4(0.0)))) & 0xffu;
  return codes.x | codes.y << 8 | codes.z << 16 | codes.w << 24;
}

// Four elements of q4_0, each in the low half of a byte.
uint q4_0_codes(vec4 elements, float inverse) {
  if (inverse == 0.0) return 0x08080808u;
  precise const vec4 scaled = elements * inverse;
  precise const vec4 shifted = scaled + 8.5;
  const uvec4 codes = uvec4(clamp(ivec4(shifted), 0, 15));
  return codes.x | codes.y << 8 | codes.z << 16 | codes.w << 24;
}

#endif
