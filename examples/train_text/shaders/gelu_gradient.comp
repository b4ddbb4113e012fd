#version 450
#extension GL_GOOGLE_include_directive : require
#include "item.glsl"
#include "gelu.glsl"
// The gradient of x overwrites the gradient of y.
layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) buffer Gradient { float gradient[]; };
layout(push_constant) uniform Push { uint count; };

void main() {
  const uint i = item();
  if (i >= count) return;
  const float value = x[i], t = gelu_tanh(value);
  const float slope = kRoot * (1.0 + 3.0 * kCubic * value * value);
  gradient[i] *= 0.5 * (1.0 + t) + 0.5 * value * (1.0 - t * t) * slope;
}
