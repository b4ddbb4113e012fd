#version 450
#extension GL_GOOGLE_include_directive : require
#include "item.glsl"
// With r = 1 / sqrt(mean(x^2)) and y = r x: dx = r (dy - y mean(dy y)). An item is a row.
layout(std430, set = 0, binding = 0) readonly buffer Y { float y[]; };
layout(std430, set = 0, binding = 1) readonly buffer Inverse { float inverse[]; };
layout(std430, set = 0, binding = 2) readonly buffer GradY { float grad_y[]; };
layout(std430, set = 0, binding = 3) buffer GradX { float grad_x[]; };
layout(push_constant) uniform Push { uint rows, width, accumulates; };  // accumulates: adds to grad_x, otherwise writes it

void main() {
  const uint row = item();
  if (row >= rows) return;
  float sum = 0;
  for (uint i = 0; i < width; ++i) sum += grad_y[row * width + i] * y[row * width + i];
  const float mean = sum / float(width), factor = inverse[row];
  for (uint i = row * width; i < (row + 1) * width; ++i) {
    const float gradient = factor * (grad_y[i] - y[i] * mean);
    grad_x[i] = accumulates != 0 ? grad_x[i] + gradient : gradient;
  }
}
