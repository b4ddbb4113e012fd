// Merges the partial results of a split over keys by their log-sum-exp: one workgroup a row, in a fixed order, so
// that two runs give the same bits.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/partials.glsl"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 64;

void main() {
  const uint index = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  if (index >= params.tile_count) return;
  const uint row = params.first_tile + index;
  const uint head_index = row / params.query_length;
  const uint query = row - head_index * params.query_length;
  const uint batch = head_index / params.query_heads;
  const uint head = head_index - batch * params.query_heads;

  float maximum = kHiddenScore;
  for (uint split = 0; split < params.kv_splits; ++split) {
    maximum = max(maximum, partials[partial_row(batch, head, query, split) + kValueDim]);
  }
  float sum = 0.0;
  for (uint split = 0; split < params.kv_splits; ++split) {
    const float lse = partials[partial_row(batch, head, query, split) + kValueDim];
    if (lse != kHiddenScore) sum += exp2(lse - maximum);
  }
  const float inverse = sum == 0.0 ? 0.0 : 1.0 / sum;
  const uint target = output_row(batch, head, query);
  for (uint dim = gl_LocalInvocationIndex; dim < kValueDim; dim += kWorkgroupSize) {
    float result = 0.0;
    for (uint split = 0; split < params.kv_splits; ++split) {
      const uint part = partial_row(batch, head, query, split);
      // A part that saw no key left its output 0 and is not weighed: its log-sum-exp is no number to calculate with.
      if (partials[part + kValueDim] != kHiddenScore) {
        result += exp2(partials[part + kValueDim] - maximum) * partials[part + dim];
      }
    }
    store_output(target, dim, result * inverse);
  }
  if (gl_LocalInvocationIndex == 0) store_lse(batch, head, query, maximum, sum);
}
