#version 450
#extension GL_GOOGLE_include_directive : require
#include "item.glsl"
// The gradient of a table whose rows were looked up. Rows rows[starts[e]] to rows[starts[e + 1] - 1] took entry e, so its
// gradient is the sum over them. An item is an element of the table. The order of sums is fixed, and so are the bits.
layout(std430, set = 0, binding = 0) readonly buffer Starts { uint starts[]; };
layout(std430, set = 0, binding = 1) readonly buffer Rows { uint rows[]; };
layout(std430, set = 0, binding = 2) readonly buffer GradOutput { float grad_output[]; };
layout(std430, set = 0, binding = 3) writeonly buffer GradTable { float grad_table[]; };
layout(push_constant) uniform Push { uint entries, width; };

void main() {
  const uint i = item();
  if (i >= entries * width) return;
  const uint entry = i / width, column = i % width;
  float sum = 0;
  for (uint at = starts[entry]; at < starts[entry + 1]; ++at) sum += grad_output[rows[at] * width + column];
  grad_table[i] = sum;
}
