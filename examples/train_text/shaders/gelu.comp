#version 450
#extension GL_GOOGLE_include_directive : require
#include "item.glsl"
#include "gelu.glsl"
layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Push { uint count; };

void main() {
  const uint i = item();
  if (i < count) y[i] = 0.5 * x[i] * (1.0 + gelu_tanh(x[i]));
}
