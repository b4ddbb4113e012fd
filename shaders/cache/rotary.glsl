// Rotary position embedding: cosines and sines of position times frequency.
//
// A large angle in float32 has few bits left behind the point, and Vulkan promises sin and cos to 2^-11 only, within one
// turn. So frequencies are 64-bit fractions of a turn per position. Their integer products with positions drop whole turns
// by overflow, and a polynomial serves the rest, an eighth of a turn.
#ifndef VKATTN_CACHE_ROTARY
#define VKATTN_CACHE_ROTARY

#include "cache/params.glsl"
#include "lib/forms.glsl"

layout(constant_id = VKATTN_APPEND_SPEC_ROTARY_STYLE) const uint kRotaryStyle = VKATTN_ROTARY_NONE;
layout(constant_id = VKATTN_APPEND_SPEC_ROTARY_DIMS) const uint kRotaryDims = 2;
layout(constant_id = VKATTN_APPEND_SPEC_ROTARY_MAGNITUDE) const float kRotaryMagnitude = 1.0;
layout(constant_id = VKATTN_APPEND_SPEC_ROTARY_INVERSE) const bool kRotaryInverse = false;
layout(constant_id = VKATTN_APPEND_SPEC_HAS_FREQUENCIES) const bool kHasFrequencies = false;
layout(constant_id = VKATTN_APPEND_SPEC_FIRST_FREQUENCY) const uint kFirstFrequencyHigh = 0;
layout(constant_id = VKATTN_APPEND_SPEC_FIRST_FREQUENCY + 1) const uint kFirstFrequencyLow = 0;

#define VKATTN_RATIO(K)                                                                     \
  layout(constant_id = VKATTN_APPEND_SPEC_RATIOS + 2 * K) const uint kRatioHigh##K = 0;     \
  layout(constant_id = VKATTN_APPEND_SPEC_RATIOS + 2 * K + 1) const uint kRatioLow##K = 0;
VKATTN_RATIO(0)
VKATTN_RATIO(1)
VKATTN_RATIO(2)
VKATTN_RATIO(3)
VKATTN_RATIO(4)
VKATTN_RATIO(5)
VKATTN_RATIO(6)
VKATTN_RATIO(7)
VKATTN_RATIO(8)

layout(set = 0, binding = VKATTN_APPEND_BINDING_FREQUENCIES, std430) readonly buffer Frequencies {
  uint frequency_bits[];  // float32, radians per position
};

uint rotary_pairs() { return kRotaryDims / 2u; }

// The product of two fractions, within 2^-62. A fraction is 2^-32 times x plus 2^-64 times y.
uvec2 multiply(uvec2 a, uvec2 b) {
  uint high, low, cross, dropped, carry;
  umulExtended(a.x, b.x, high, low);
  umulExtended(a.x, b.y, cross, dropped);
  low = uaddCarry(low, cross, carry);
  high += carry;
  umulExtended(a.y, b.x, cross, dropped);
  low = uaddCarry(low, cross, carry);
  high += carry;
  return uvec2(high, low);
}

// Frequencies fall by one ratio from each pair to the next. The ratio's powers of 2^k are constants.
uvec2 standard_frequency(uint pair) {
  const uvec2 ratios[VKATTN_ROTARY_RATIOS] =
      uvec2[](uvec2(kRatioHigh0, kRatioLow0), uvec2(kRatioHigh1, kRatioLow1), uvec2(kRatioHigh2, kRatioLow2),
              uvec2(kRatioHigh3, kRatioLow3), uvec2(kRatioHigh4, kRatioLow4), uvec2(kRatioHigh5, kRatioLow5),
              uvec2(kRatioHigh6, kRatioLow6), uvec2(kRatioHigh7, kRatioLow7), uvec2(kRatioHigh8, kRatioLow8));
  uvec2 frequency = uvec2(kFirstFrequencyHigh, kFirstFrequencyLow);
  [[unroll]] for (uint k = 0; k < VKATTN_ROTARY_RATIOS; ++k) {
    if ((1u << k) >= rotary_pairs()) break;
    const uvec2 lower = multiply(frequency, ratios[k]);
    if ((pair & (1u << k)) != 0u) frequency = lower;
  }
  return frequency;
}

// Converts a frequency of the table to a fraction of a turn: its significand times 1 / (2 pi) to 96 bits, shifted.
uvec2 turns_of_radians(uint bits) {
  const uint significand = (bits & 0x7fffffu) | 0x800000u;
  uint whole, high, low, next, dropped, carry, carry_out;
  umulExtended(significand, 0x28be60dbu, whole, high);
  umulExtended(significand, 0x9391054au, next, low);
  high = uaddCarry(high, next, carry);
  whole += carry;
  umulExtended(significand, 0x7f09d5f4u, next, dropped);
  low = uaddCarry(low, next, carry);
  high = uaddCarry(high, carry, carry_out);
  whole += carry_out;
  // The significand counts units of 2^(exponent - 150). For infinities and NaN the shift wraps and is too large.
  uint right = 150u - ((bits >> 23) & 0xffu);
  [[unroll]] for (uint i = 0; i < 2; ++i) {
    if (right >= 32u) {
      low = high;
      high = whole;
      whole = 0u;
      right -= 32u;
    }
  }
  if (right >= 32u) return uvec2(0u);
  if (right == 0u) return uvec2(high, low);
  return uvec2(whole << (32u - right) | high >> right, high << (32u - right) | low >> right);
}

// The frequencies of four neighbouring pairs: high words, low words, and signs.
void frequencies_of(uint first_pair, out uvec4 high, out uvec4 low, out bvec4 negative) {
  negative = bvec4(false);
  if (!kHasFrequencies) {
    const uvec2 ratio = uvec2(kRatioHigh0, kRatioLow0);
    uvec2 frequency = standard_frequency(first_pair);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      high[i] = frequency.x;
      low[i] = frequency.y;
      frequency = multiply(frequency, ratio);
    }
    return;
  }
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    const uint bits = frequency_bits[params.frequencies_offset + min(first_pair + i, rotary_pairs() - 1u)];
    const uvec2 frequency = turns_of_radians(bits);
    high[i] = frequency.x;
    low[i] = frequency.y;
    negative[i] = (bits >> 31) != 0u;
  }
}

// The cosines and sines of four neighbouring pairs at a position. Pairs beyond the last give meaningless numbers.
void rotary_cos_sin(uint first_pair, int position, out vec4 cosine, out vec4 sine) {
  uvec4 high, low, carry, dropped;
  bvec4 negative;
  frequencies_of(first_pair, high, low, negative);
  const uint distance = uint(abs(position));
  umulExtended(low, uvec4(distance), carry, dropped);
  uvec4 turns = high * distance + carry;  // 2^-32 of a turn; whole turns are gone
  turns = mix(turns, 0u - turns, notEqual(negative, bvec4((position < 0) != kRotaryInverse)));
  // The nearest quarter of a turn, and the angle from there. Taylor's series to the powers 8 and 9 are within 2^-25.
  const uvec4 quarter = (turns + 0x20000000u) >> 30;
  const vec4 angle = vec4(ivec4(turns - (quarter << 30))) * 1.4629180792671596e-9;  // 2 pi / 2^32
  const vec4 square = angle * angle;
  const vec4 s =
      angle + angle * square *
                  (-1.0 / 6.0 + square * (1.0 / 120.0 + square * (-1.0 / 5040.0 + square * (1.0 / 362880.0))));
  const vec4 c =
      1.0 + square * (-0.5 + square * (1.0 / 24.0 + square * (-1.0 / 720.0 + square * (1.0 / 40320.0))));
  const bvec4 odd = notEqual(quarter & 1u, uvec4(0u));
  const vec4 cosine_sign = vec4(1.0) - vec4((quarter + 1u) & 2u);
  const vec4 sine_sign = vec4(1.0) - vec4(quarter & 2u);
  cosine = mix(c, s, odd) * cosine_sign * kRotaryMagnitude;
  sine = mix(s, c, odd) * sine_sign * kRotaryMagnitude;
}

#endif
