// Measures the device's float32 multiply-add rate: independent chains in registers, and nothing else in the loop. There are
// two widths: 12 scalar chains fit the 16 vector registers of a CPU, 24 hide more latency on a GPU.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "shared/peak_constants.h"

layout(local_size_x_id = VKATTN_PEAK_WORKGROUP_SIZE_ID) in;
layout(constant_id = VKATTN_PEAK_VECTORS_ID) const uint kVectors = 3;

layout(push_constant) uniform Parameters {
  float scale;  // below 1, so that each chain runs to shift / (1 - scale) and stays there: finite, never denormal
  float shift;
  uint iterations;
};

layout(std430, set = 0, binding = 0) writeonly buffer Results { float results[]; };

vec4 run_three_vectors(vec4 start) {
  vec4 a = start, b = start + 0.25, c = start + 0.5;
  for (uint i = 0; i < iterations; ++i) {
    [[unroll]] for (uint step = 0; step < VKATTN_PEAK_MULTIPLY_ADD_STEPS; ++step) {
      a = fma(a, vec4(scale), vec4(shift));
      b = fma(b, vec4(scale), vec4(shift));
      c = fma(c, vec4(scale), vec4(shift));
    }
  }
  return a + b + c;
}

vec4 run_six_vectors(vec4 start) {
  vec4 a = start, b = start + 0.125, c = start + 0.25, d = start + 0.375, e = start + 0.5, f = start + 0.625;
  for (uint i = 0; i < iterations; ++i) {
    [[unroll]] for (uint step = 0; step < VKATTN_PEAK_MULTIPLY_ADD_STEPS; ++step) {
      a = fma(a, vec4(scale), vec4(shift));
      b = fma(b, vec4(scale), vec4(shift));
      c = fma(c, vec4(scale), vec4(shift));
      d = fma(d, vec4(scale), vec4(shift));
      e = fma(e, vec4(scale), vec4(shift));
      f = fma(f, vec4(scale), vec4(shift));
    }
  }
  return a + b + c + d + e + f;
}

void main() {
  const uint index = gl_GlobalInvocationID.x;
  const vec4 start = vec4(1.0, 1.25, 1.5, 1.75) + float(index & 63u) * shift;
  const vec4 sum = kVectors == 3 ? run_three_vectors(start) : run_six_vectors(start);
  results[index] = sum.x + sum.y + sum.z + sum.w;
}
