// Copies operand a as float32, with the inner dimension dense in memory, as matmul_lane.comp reads it fastest.
//
//                        4 inner elements
//   4 outer elements   | invocation 0     | invocation n     |     n: the number of quads of outer elements
//   4 outer elements   | invocation 1     | invocation n + 1 |
//
// Budget: 16 numbers in registers; no shared memory; each element is read once, and written as 4 bytes.
//
// The copy begins where the range for partial sums is bound, and has the strides of the output. Its rows are the operand's
// outer dimension.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "matmul/operands.glsl"

#if VKATTN_WIDE_LOADS
layout(set = 0, binding = VKATTN_MATMUL_BINDING_PARTIALS, std430) writeonly buffer Copy { uint64_t copy_pairs[]; };
uint64_t pair_of(vec2 numbers) { return packUint2x32(floatBitsToUint(numbers)); }
#else
layout(set = 0, binding = VKATTN_MATMUL_BINDING_PARTIALS, std430) writeonly buffer Copy { vec2 copy_pairs[]; };
vec2 pair_of(vec2 numbers) { return numbers; }
#endif

// Elements inner .. inner + 3 of a row. The last one stands for those behind it, which lie between the copy's rows.
vec4 row4(uint a_index, uint inner) {
  if (inner + 4u <= params.inner) return a_inner4(a_index, inner);
  vec4 row;
  [[unroll]] for (uint i = 0; i < 4; ++i) row[i] = a_element(a_index, min(inner + i, params.inner - 1u));
  return row;
}

void main() {
  const uint unit = first_unit_of_group(kWorkgroupSize) + gl_LocalInvocationIndex;
  if (!has_unit(unit)) return;
  const uint outer_quads = (params.rows + 3u) / 4u;
  const uint inner_quads = (params.inner + 3u) / 4u;
  const uint first_row = unit % outer_quads * 4u;
  const uint inner = unit / outer_quads % inner_quads * 4u;
  const uint batch = unit / outer_quads / inner_quads;
  mat4 rows;
  if (kALoads == VKATTN_MATMUL_LOADS_OUTER) {
    const uint index = a_outer(batch, first_row);
    [[unroll]] for (uint i = 0; i < 4; ++i) rows[i] = a_outer4(index, min(inner + i, params.inner - 1u));
    rows = transpose(rows);
  } else {
    [[unroll]] for (uint r = 0; r < 4; ++r) rows[r] = row4(a_outer(batch, min(first_row + r, params.rows - 1u)), inner);
  }
  [[unroll]] for (uint r = 0; r < 4; ++r) {
    if (first_row + r >= params.rows) continue;
    const uint pair = (batch * params.output_batch_stride + (first_row + r) * params.output_row_stride + inner) / 2u;
    copy_pairs[pair] = pair_of(rows[r].xy);
    copy_pairs[pair + 1u] = pair_of(rows[r].zw);
  }
}
