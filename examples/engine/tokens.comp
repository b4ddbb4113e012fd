#version 450
// The engine's own compute: queries, keys and values of one token (stage 0), and heights of bars from the results of attention
// (stage 1). It stands in for what an engine computes before and after.
layout(local_size_x = 64) in;
layout(std430, set = 0, binding = 0) buffer Query { float query[]; };
layout(std430, set = 0, binding = 1) buffer Key { float key[]; };
layout(std430, set = 0, binding = 2) buffer Value { float value[]; };
layout(std430, set = 0, binding = 3) buffer Output { float attended[]; };
layout(std430, set = 0, binding = 4) buffer Bars { float bars[]; };
layout(push_constant) uniform Push { uint stage; uint position; };

// An exact number from -1 to below 1. engine_frame.cpp has the same function.
float element(uint kind, uint i) {
  uint h = kind * 0x9e3779b9u + position * 0x85ebca6bu + i * 0xc2b2ae35u;
  h = (h ^ h >> 15) * 0x2c1b3c6du;
  h = (h ^ h >> 12) * 0x297a2d39u;
  return float((h ^ h >> 15) & 0xffffu) / 32768.0 - 1.0;
}

void main() {
  const uint i = gl_GlobalInvocationID.x;
  if (stage == 0) {
    if (i < query.length()) query[i] = element(1, i);
    if (i < key.length()) key[i] = element(2, i);
    if (i < value.length()) value[i] = element(3, i);
  } else if (i < bars.length()) {
    bars[i] = clamp(0.5 + 0.5 * attended[i], 0.0, 1.0);
  }
}
