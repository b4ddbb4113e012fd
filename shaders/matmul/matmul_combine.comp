// Adds up the sums over the parts of the inner dimension, in the order of the parts: an invocation computes one element of
// the output.
//
//   invocation i = element i:   part 0 -> part 1 -> ... -> bias, the output's old element -> output
//
// Budget: one sum in registers; no shared memory; 4 bytes read for each part of an element.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "matmul/results.glsl"

void main() {
  const uint unit = first_unit_of_group(kWorkgroupSize) + gl_LocalInvocationIndex;
  if (!has_unit(unit)) return;
  const uint column = unit % params.columns;
  const uint row = unit / params.columns % params.rows;
  const uint batch = unit / params.columns / params.rows;
  float sum = 0.0;
  for (uint part = 0; part < params.parts; ++part) sum += partials[partial_index(part, batch, row, column)];
  store_output(batch, row, column, sum);
}
