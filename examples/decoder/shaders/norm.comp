#version 450
#extension GL_GOOGLE_include_directive : require
// y[row] = (x[source] - mean) / sqrt(mean square + epsilon) * gain + bias, where RMS norms (arXiv:1910.07467) subtract no mean and
// have no bias. A workgroup has a row.
layout(local_size_x = 64) in;
#include "sum.glsl"
layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) buffer Y { float y[]; };
layout(std430, set = 0, binding = 2) readonly buffer Gain { float gain[]; };
layout(std430, set = 0, binding = 3) readonly buffer Bias { float bias[]; };
layout(std430, set = 0, binding = 4) readonly buffer Sources { uint sources[]; };
layout(push_constant) uniform Push { uint rows, width, has_means, adds, gathers; float epsilon; };

void main() {
  const uint row = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  if (row >= rows) return;
  const uint first = (gathers != 0 ? sources[row] : row) * width, target = row * width;
  float part = 0;
  if (has_means != 0) {
    for (uint i = gl_LocalInvocationID.x; i < width; i += gl_WorkGroupSize.x) part += x[first + i];
    part = sum_of_all(part) / float(width);
  }
  const float mean = part;
  part = 0;
  for (uint i = gl_LocalInvocationID.x; i < width; i += gl_WorkGroupSize.x) {
    const float value = x[first + i] - mean;
    part += value * value;
  }
  const float factor = inversesqrt(sum_of_all(part) / float(width) + epsilon);
  for (uint i = gl_LocalInvocationID.x; i < width; i += gl_WorkGroupSize.x) {
    float value = (x[first + i] - mean) * factor * gain[i];
    if (has_means != 0) value += bias[i];
    y[target + i] = adds != 0 ? y[target + i] + value : value;
  }
}
