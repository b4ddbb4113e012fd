// Storage types: decoding to float32, and rounding back by integer arithmetic, which every device gets right.
#ifndef VKATTN_LIB_TYPES
#define VKATTN_LIB_TYPES

#include "shared/attention_constants.h"

// The float value of 16 stored bits.
float decode_16bit(uint bits, uint type) {
  return type == VKATTN_TYPE_FLOAT16 ? unpackHalf2x16(bits).x : uintBitsToFloat(bits << 16);
}

// The float values of two neighbouring elements in one word, the first in the low half.
vec2 decode_pair(uint word, uint type) {
  return type == VKATTN_TYPE_FLOAT16 ? unpackHalf2x16(word)
                                     : vec2(uintBitsToFloat(word << 16), uintBitsToFloat(word & 0xffff0000u));
}

// Rounds the magnitude of a float32 to units of a smaller type, to nearest even, if it is below that type's least normal
// number. The unit is the type's least subnormal, 2^(unit_exponent - 150); unit_exponent is 126 for float16, 141 for e4m3.
uint round_to_units(uint magnitude, uint unit_exponent) {
  // A shift by 25 bits leaves nothing, not even a half.
  const uint shift = min(unit_exponent - min(magnitude >> 23, unit_exponent), 25u);
  const uint significand = (magnitude & 0x7fffffu) | 0x800000u;
  const uint quotient = significand >> shift;
  const uint remainder = significand - (quotient << shift);
  const uint half_unit = 1u << (shift - 1u);
  const bool up = remainder > half_unit || (remainder == half_unit && (quotient & 1u) != 0u);
  return quotient + (up ? 1u : 0u);
}

// Rounds to float16, to nearest even. GLSL leaves the rounding of packHalf2x16 open.
uint encode_float16(float value) {
  const uint bits = floatBitsToUint(value);
  const uint sign = (bits >> 16) & 0x8000u;
  const uint magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
  if (magnitude >= 0x38800000u) {
    return sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13);
  }
  return sign | round_to_units(magnitude, 126u);
}

// Rounds to bfloat16, to nearest even.
uint encode_bfloat16(float value) {
  const uint bits = floatBitsToUint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x0040u;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

uint encode_16bit(float value, uint type) {
  return type == VKATTN_TYPE_FLOAT16 ? encode_float16(value) : encode_bfloat16(value);
}

#endif
