// Vectors of 8 elements that lie side by side at an address, one element a lane, for CPU implementations with subgroups of 8
// lanes.
//
// SPIR-V has no such load. But llvmpipe reads a value at one address for all lanes as a scalar, and a choice among eight scalars
// by constant lanes is what LLVM turns into one vector load (vector_of()). An address has no checks of bounds between the eight.
// What a loop needs of lanes is computed before all loops: NIR computes equal values of two loops once, in the first one, and
// hands them on in registers with masked stores, and LLVM no longer sees constants (docs/trials/lavapipe.md).
#ifndef VKATTN_LIB_LANE_VECTORS
#define VKATTN_LIB_LANE_VECTORS

#include "lib/types.glsl"
#include "shared/attention_constants.h"

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Elements { uvec4 quad[]; };

const uint kVector = 8;  // elements, and lanes

bool upper_1, upper_2, upper_4;  // bits of the lane

// Comes before all loops.
void begin_vectors() {
  upper_1 = (gl_SubgroupInvocationID & 1u) != 0;
  upper_2 = (gl_SubgroupInvocationID & 2u) != 0;
  upper_4 = (gl_SubgroupInvocationID & 4u) != 0;
}

uint vector_of(uvec4 a, uvec4 b) {
  const uint p = upper_1 ? a.y : a.x, q = upper_1 ? a.w : a.z, r = upper_1 ? b.y : b.x, s = upper_1 ? b.w : b.z;
  const uint t = upper_2 ? q : p, u = upper_2 ? s : r;
  return upper_4 ? u : t;
}

// Vector i of those at an address. Two vectors of 16-bit elements are one of words, the even dims and then the odd ones.
float vector_at(uint64_t at, uint first_quad, uint i, uint type) {
  Elements row = Elements(at);
  if (type == VKATTN_TYPE_FLOAT32) {
    return uintBitsToFloat(vector_of(row.quad[first_quad + 2 * i], row.quad[first_quad + 2 * i + 1]));
  }
  const uint word = vector_of(row.quad[first_quad + i / 2 * 2], row.quad[first_quad + i / 2 * 2 + 1]);
  const vec2 pair = decode_pair(word, type);
  return i % 2 == 0 ? pair.x : pair.y;
}

// The lane's dim in vector i.
uint dim_of(uint i, uint type) {
  return type == VKATTN_TYPE_FLOAT32 ? i * 8 + gl_SubgroupInvocationID : i / 2 * 16 + gl_SubgroupInvocationID * 2 + i % 2;
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
