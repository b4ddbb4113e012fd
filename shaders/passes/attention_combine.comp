// Merges the partial results of a split over keys by their log-sum-exp: a workgroup computes one row.
//
//              dim 0     dim 1     ...            invocation i has dims i, i + kWorkgroupSize, ...
//   part 0   | element | element | ... | lse |    the parts are added in their order, kParts of them in flight, so that
//   part 1   | element | element | ... | lse |    two runs give the same bits
//
// Budget: 2 * kParts + 3 registers (elements, log-sum-exps; maximum, sum, result) = 19; no shared memory; for each part
// of an element 4 bytes are read, and 4 of the part's log-sum-exp, at one address for the whole workgroup.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/partials.glsl"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 64;

const uint kParts = 8;  // in flight

float maximum;
float sum;
float result;

// Adds parts first .. first + kParts - 1 of one dim.
void add_parts(uint first_part, uint first, uint dim) {
  float lse[kParts];
  float elements[kParts];
  [[unroll]] for (uint i = 0; i < kParts; ++i) {
    // The last part stands for those beyond it, and is left out below.
    const uint part = first_part + min(first + i, params.kv_splits - 1u) * (kValueDim + 1u);
    lse[i] = partials[part + kValueDim];
    elements[i] = partials[part + dim];
  }
  const float old_maximum = maximum;
  [[unroll]] for (uint i = 0; i < kParts; ++i) maximum = max(maximum, lse[i]);
  const float rescale = rescale_factor(old_maximum, maximum);
  sum *= rescale;
  result *= rescale;
  [[unroll]] for (uint i = 0; i < kParts; ++i) {
    // A part that saw no key is not weighed: its log-sum-exp is no number to calculate with.
    if (first + i < params.kv_splits && lse[i] != kHiddenScore) {
      const float weight = exp2(lse[i] - maximum);
      sum += weight;
      result += weight * elements[i];
    }
  }
}

void main() {
  const uint index = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  if (index >= params.tile_count) return;
  const uint row = params.first_tile + index;
  const uint head_index = row / params.query_length;
  const uint query = row - head_index * params.query_length;
  const uint batch = head_index / params.query_heads;
  const uint head = head_index - batch * params.query_heads;
  begin_entry(batch, head / params.heads_per_kv);
  if (query >= visible_query_length()) return;
  const uint first_part = partial_row(batch, head, query, 0u);
  const uint target = output_row(batch, head, query);
  for (uint dim = gl_LocalInvocationIndex; dim < kValueDim; dim += kWorkgroupSize) {
    maximum = kHiddenScore;
    sum = 0.0;
    result = 0.0;
    for (uint first = 0; first < params.kv_splits; first += kParts) add_parts(first_part, first, dim);
    store_output(target, dim, sum == 0.0 ? 0.0 : result / sum);
    if (dim == 0) store_lse(batch, head, query, maximum, sum);
  }
}
