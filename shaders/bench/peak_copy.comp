// Measures the device's memory rate: each invocation moves a few vectors of 16 bytes; neighbouring lanes move neighbours.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "shared/peak_constants.h"

layout(local_size_x_id = VKATTN_PEAK_WORKGROUP_SIZE_ID) in;
layout(constant_id = VKATTN_PEAK_VECTORS_ID) const uint kVectors = 4;
layout(constant_id = VKATTN_PEAK_COPY_MODE_ID) const uint kMode = VKATTN_PEAK_COPY;

layout(push_constant) uniform Parameters {
  uint vector_count;  // of each buffer
  uint never;         // a value that no sum of the source's vectors has
  uint stores;        // not 0: sums are stored
};

layout(std430, set = 0, binding = 0) readonly buffer Source { uvec4 source[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Destination { uvec4 destination[]; };

void copy_vectors(uint first) {
  [[unroll]] for (uint i = 0; i < kVectors; ++i) {
    const uint index = first + i * gl_WorkGroupSize.x;
    if (index < vector_count) destination[index] = source[index];
  }
}

uvec4 read_vectors(uint first) {
  uvec4 sum = uvec4(0);
  [[unroll]] for (uint i = 0; i < kVectors; ++i) {
    const uint index = first + i * gl_WorkGroupSize.x;
    if (index < vector_count) sum += source[index];
  }
  return sum;
}

uvec4 read_vectors_uniform(uint first) {
  uvec4 sum = uvec4(0);
  const uint end = min(first + gl_WorkGroupSize.x * kVectors, vector_count);
  for (uint index = first; index + 3 < end; index += 4) {
    sum += source[index] + source[index + 1] + source[index + 2] + source[index + 3];
  }
  return sum;
}

void main() {
  const uint group_vectors = gl_WorkGroupSize.x * kVectors;
  const uint first = gl_WorkGroupID.x * group_vectors;
  if (kMode == VKATTN_PEAK_COPY) {
    copy_vectors(first + gl_LocalInvocationID.x);
    return;
  }
  const bool is_uniform = kMode == VKATTN_PEAK_READ_UNIFORM;
  const uvec4 sum = is_uniform ? read_vectors_uniform(first) : read_vectors(first + gl_LocalInvocationID.x);
  // The store never happens in a measurement. The compiler cannot know that, so it keeps the reads.
  if (sum.x == never || stores != 0) destination[is_uniform ? gl_WorkGroupID.x : gl_GlobalInvocationID.x] = sum;
}
