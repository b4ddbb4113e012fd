#version 450
#extension GL_GOOGLE_include_directive : require
#include "item.glsl"
// y = x / sqrt(mean(x^2)) of each row (RMS norm, arXiv:1910.07467). It has no gain, as the matrix that multiplies y can contain
// one. An item is a row.
layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Y { float y[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Inverse { float inverse[]; };
layout(push_constant) uniform Push { uint rows, width; };

void main() {
  const uint row = item();
  if (row >= rows) return;
  float sum = 0;
  for (uint i = 0; i < width; ++i) {
    const float value = x[row * width + i];
    sum += value * value;
  }
  const float factor = inversesqrt(sum / float(width) + 1e-6);
  for (uint i = 0; i < width; ++i) y[row * width + i] = x[row * width + i] * factor;
  inverse[row] = factor;
}
