// Measures the rate at which a CPU reads memory by vectors of 8 words at an address, as lane_decode reads K and V there
// (lib/lane_vectors.glsl): for CPU implementations with subgroups of 8 lanes.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "lib/lane_vectors.glsl"
#include "shared/peak_constants.h"

layout(local_size_x_id = VKATTN_PEAK_WORKGROUP_SIZE_ID) in;
layout(constant_id = VKATTN_PEAK_VECTORS_ID) const uint kVectors = 64;

layout(push_constant) uniform Parameters {
  uint vector_count;  // of the source, which is whole workgroups
  uint never;         // a value that no sum has
  uint stores;        // not 0: sums are stored
  uint unused;
  uint64_t source_address;
};

layout(std430, set = 0, binding = 1) writeonly buffer Destination { uvec4 destination[]; };

const uint kRound = 32;  // uvec4 of a round of the loop
const uint kChains = 4;  // sums that do not wait for each other

void main() {
  begin_vectors();
  const uint group_vectors = gl_WorkGroupSize.x * kVectors;
  Elements source = Elements(source_address + uint64_t(gl_WorkGroupID.x * group_vectors * 16));
  uint sums[kChains];
  [[unroll]] for (uint i = 0; i < kChains; ++i) sums[i] = 0;
  for (uint first = 0; first < group_vectors; first += kRound) {
    [[unroll]] for (uint i = 0; i < kRound; i += 2) {
      sums[i / 2 % kChains] += vector_of(source.quad[first + i], source.quad[first + i + 1]);
    }
  }
  uint sum = 0;
  [[unroll]] for (uint i = 0; i < kChains; ++i) sum += sums[i];
  // The store never happens in a measurement. The compiler cannot know that, so it keeps the reads.
  if (sum == never || stores != 0) destination[gl_GlobalInvocationID.x] = uvec4(sum, 0, 0, 0);
}
