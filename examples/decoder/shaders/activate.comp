#version 450
#extension GL_GOOGLE_include_directive : require
#include "item.glsl"
#include "gelu.glsl"
// y = f(x), or f(gate) * x for rows of x that have gate and x side by side. An item is an element of y.
layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Push { uint count, width, kind, is_gated; };  // kind: 0 SiLU, 1 GELU

void main() {
  const uint i = item();
  if (i >= count) return;
  const uint at = is_gated != 0 ? i / width * 2 * width + i % width : i;
  const float value = x[at];
  const float activated = kind == 0 ? value / (1.0 + exp(-value)) : 0.5 * value * (1.0 + gelu_tanh(value));
  y[i] = is_gated != 0 ? activated * x[at + width] : activated;
}
