// Vectors of 8 elements that lie side by side at an address, one element a lane, for CPU implementations with subgroups of 8
// lanes.
//
// SPIR-V has no such load. But llvmpipe reads a value at one address for all lanes as a scalar, and a choice among eight scalars
// by constant lanes is what LLVM turns into one vector load (vector_of()). An address has no checks of bounds between the eight.
// What a loop needs of lanes is computed before all loops: NIR computes equal values of two loops once, in the first one, and
// hands them on in registers with masked stores, and LLVM no longer sees constants (docs/trials/lavapipe.md).
#ifndef VKATTN_LIB_LANE_VECTORS
#define VKATTN_LIB_LANE_VECTORS

#include "lib/quantised.glsl"
#include "lib/types.glsl"
#include "shared/attention_constants.h"

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Elements { uvec4 quad[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Float16s { f16vec4 float16_quad[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) readonly buffer Halves { uint16_t half_word[]; };

const uint kVector = 8;  // elements, and lanes

bool upper_1, upper_2, upper_4;  // bits of the lane
uint nibble_shift;               // lanes 0 to 3 have a block's low nibbles

// Comes before all loops.
void begin_vectors() {
  upper_1 = (gl_SubgroupInvocationID & 1u) != 0;
  upper_2 = (gl_SubgroupInvocationID & 2u) != 0;
  upper_4 = (gl_SubgroupInvocationID & 4u) != 0;
  nibble_shift = 4u - (gl_SubgroupInvocationID & 4u);
}

uint vector_of(uvec4 a, uvec4 b) {
  const uint p = upper_1 ? a.y : a.x, q = upper_1 ? a.w : a.z, r = upper_1 ? b.y : b.x, s = upper_1 ? b.w : b.z;
  const uint t = upper_2 ? q : p, u = upper_2 ? s : r;
  return upper_4 ? u : t;
}

// The same of float16. A choice among elements, not among words of two, lets LLVM convert as it loads.
float float16_vector_of(f16vec4 a, f16vec4 b) {
  const float16_t p = upper_1 ? a.y : a.x, q = upper_1 ? a.w : a.z, r = upper_1 ? b.y : b.x, s = upper_1 ? b.w : b.z;
  const float16_t t = upper_2 ? q : p, u = upper_2 ? s : r;
  return float(upper_4 ? u : t);
}

uint half_at(Halves row, uint i) { return uint(row.half_word[i]); }
uint word_at(Halves row, uint i) { return half_at(row, i) | half_at(row, i + 1) << 16; }
uvec4 quad_at(Halves row, uint i) {
  return uvec4(word_at(row, i), word_at(row, i + 2), word_at(row, i + 4), word_at(row, i + 6));
}

// The bytes of whole blocks.
uint bytes_of(uint elements, uint type) {
  if (type == VKATTN_TYPE_FLOAT32) return elements * 4;
  if (type == VKATTN_TYPE_Q8_0) return elements / 32 * (2 * kQ8BlockHalves);
  if (type == VKATTN_TYPE_Q4_0) return elements / 32 * (2 * kQ4BlockHalves);
  return type == VKATTN_TYPE_FLOAT8_E4M3 ? elements : elements * 2;
}

// Four vectors of quantised elements are one of words, each with the four dims of a lane. A block begins at an even byte, so its
// words are read by halves; LLVM makes one load of these too. Elements of float8 come without the scale of their head.
float quantised_vector_at(uint64_t at, uint first, uint i, uint type) {
  if (type == VKATTN_TYPE_FLOAT8_E4M3) {
    Elements row = Elements(at);
    const uint quad = first / 16 + i / 4 * 2;
    return decode_e4m3(vector_of(row.quad[quad], row.quad[quad + 1]) >> i % 4 * 8);
  }
  const bool has_bytes = type == VKATTN_TYPE_Q8_0;
  Halves row = Halves(at);
  const uint block = first / 2 + i / 4 * (has_bytes ? kQ8BlockHalves : kQ4BlockHalves);
  const uvec4 low = quad_at(row, block + 1), high = has_bytes ? quad_at(row, block + 9) : low;
  uint bits = vector_of(low, high);
  if (!has_bytes) bits = (bits << nibble_shift) ^ 0x80808080u;  // signed nibbles, at the upper end of the bytes
  const int element = int(bits << (24 - i % 4 * 8)) >> (has_bytes ? 24 : 28);
  return float(element) * unpackHalf2x16(half_at(row, block)).x;
}

// Vector i of those at `first` bytes behind an address. Two vectors of bfloat16 are one of words, the even dims and then the odd
// ones.
float vector_at(uint64_t at, uint first, uint i, uint type) {
  if (type >= VKATTN_TYPE_Q8_0) return quantised_vector_at(at, first, i, type);
  if (type == VKATTN_TYPE_FLOAT16) {
    Float16s halves = Float16s(at);
    return float16_vector_of(halves.float16_quad[first / 8 + i * 2], halves.float16_quad[first / 8 + i * 2 + 1]);
  }
  Elements row = Elements(at);
  const uint quad = first / 16 + (type == VKATTN_TYPE_FLOAT32 ? i : i / 2) * 2;
  const uint word = vector_of(row.quad[quad], row.quad[quad + 1]);
  if (type == VKATTN_TYPE_FLOAT32) return uintBitsToFloat(word);
  const vec2 pair = decode_pair(word, type);
  return i % 2 == 0 ? pair.x : pair.y;
}

// The lane's dim in vector i.
uint dim_of(uint i, uint type) {
  if (type >= VKATTN_TYPE_Q8_0) return i / 4 * 32 + gl_SubgroupInvocationID * 4 + i % 4;
  return type == VKATTN_TYPE_BFLOAT16 ? i / 2 * 16 + gl_SubgroupInvocationID * 2 + i % 2 : i * 8 + gl_SubgroupInvocationID;
}

float pair_sum(float a, float b, bool upper, uint bit) {
  return (upper ? b : a) + subgroupShuffleXor(upper ? a : b, bit);
}

// Lane l gets the sum over lanes of number l: low has 0 to 3, high 4 to 7.
float sum_of_eight(vec4 low, vec4 high) {
  const float a = pair_sum(low.x, low.y, upper_1, 1), b = pair_sum(low.z, low.w, upper_1, 1);
  const float c = pair_sum(high.x, high.y, upper_1, 1), d = pair_sum(high.z, high.w, upper_1, 1);
  return pair_sum(pair_sum(a, b, upper_2, 2), pair_sum(c, d, upper_2, 2), upper_4, 4);
}

#endif
