// Numbers of a matrix's rows (maxima, sums, factors) in lanes. A lane has an array of kLaneRows numbers: those of the rows
// that its components of an accumulator of subgroup scope belong to. Lanes that share these rows hold equal numbers, or parts
// of them. Where a driver keeps which element is not said by any extension. A probe finds it
// (shaders/passes/matrix_row_probe.comp), and the host gives it as constants (src/kernels/row_layout.hpp):
//   uint score_row(i), sum_row(i)   the number in the lane of the row of component i of scores, of sums
//   float row_maximum(x)            the largest x of the lanes that share a row
//   float row_total(x)              the sum of their x
//   bool is_first_of_row()          whether the lane is the first of those that share its rows
#ifndef VKATTN_LIB_MATRIX_LANE_ROWS
#define VKATTN_LIB_MATRIX_LANE_ROWS

#include "lib/matrix_forms.glsl"

#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = VKATTN_SPEC_MATRIX_SUBGROUP_SIZE) const uint kLanes = 32;
layout(constant_id = VKATTN_SPEC_LANE_ROWS_COUNT) const uint kLaneRows = 1;  // a power of 2, up to 32
// Lanes share their rows if their numbers differ in these bits alone.
layout(constant_id = VKATTN_SPEC_LANE_ROWS_LANE_BITS) const uint kLaneBits = 0;
// Bit b of a row's number in its lane is that bit of a component's number which bits 4 * b .. 4 * b + 3 here name.
layout(constant_id = VKATTN_SPEC_LANE_ROWS_SCORE_BITS) const uint kScoreRowBits = 0;
layout(constant_id = VKATTN_SPEC_LANE_ROWS_SUM_BITS) const uint kSumRowBits = 0;

// Written out, as compilers must fold it for each component.
uint lane_row(uint component, uint row_bits) {
  const uint row = (component >> (row_bits & 15u) & 1u) | (component >> (row_bits >> 4 & 15u) & 1u) << 1 |
                   (component >> (row_bits >> 8 & 15u) & 1u) << 2 | (component >> (row_bits >> 12 & 15u) & 1u) << 3 |
                   (component >> (row_bits >> 16 & 15u) & 1u) << 4;
  return row & (kLaneRows - 1u);
}
uint score_row(uint component) { return lane_row(component, kScoreRowBits); }
uint sum_row(uint component) { return lane_row(component, kSumRowBits); }

bool is_lane_bit(uint bit) { return (kLaneBits >> bit & 1u) != 0u; }

float row_maximum(float value) {
  [[unroll]] for (uint bit = 0; bit < 7u; ++bit) {
    if (is_lane_bit(bit)) value = max(value, subgroupShuffleXor(value, 1u << bit));
  }
  return value;
}

// Each lane adds the same two numbers in a step, so all of them have the same bits.
float row_total(float value) {
  [[unroll]] for (uint bit = 0; bit < 7u; ++bit) {
    if (is_lane_bit(bit)) value += subgroupShuffleXor(value, 1u << bit);
  }
  return value;
}

bool is_first_of_row() { return (gl_SubgroupInvocationID & kLaneBits) == 0u; }

#endif
