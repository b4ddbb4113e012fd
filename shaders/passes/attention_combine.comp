// Merges the partial results of a split over the keys by their log-sum-exp: a workgroup computes one row.
//
//              dim 0     dim 1     ...            invocation i has dims i, i + kWorkgroupSize, ...
//   part 0   | element | element | ... | lse |    the parts are added in their order, kParts of them in flight, so that
//   part 1   | element | element | ... | lse |    two runs give the same bits
//
// Budget: 2 * kParts + 3 registers (elements, log-sum-exps; maximum, sum, result) = 67 with kParts = 32; no shared memory; for
// each part of an element 12 bytes are read: the element, and twice the part's log-sum-exp, at one address for the whole
// workgroup.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/grid.glsl"
#include "lib/partials.glsl"
#include "lib/workgroups.glsl"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 64;

layout(constant_id = VKATTN_SPEC_COMBINE_PARTS) const uint kParts = 8;  // in flight

float elements[kParts];  // a global, as GLSL passes arrays by copying them

// The row's part. The last part stands for parts beyond it, which are skipped.
uint part_begin(uint first_part, uint part) {
  return first_part + min(part, params.kv_splits - 1u) * (kValueDim + 1u);
}

// The largest log-sum-exp of the row's parts.
float maximum_of_parts(uint first_part) {
  float maximum = kHiddenScore;
  for (uint first = 0; first < params.kv_splits; first += kParts) {
    float lse[kParts];
    [[unroll]] for (uint i = 0; i < kParts; ++i) lse[i] = partials[part_begin(first_part, first + i) + kValueDim];
    [[unroll]] for (uint i = 0; i < kParts; ++i) maximum = max(maximum, lse[i]);
  }
  return maximum;
}

// Starts the reads of parts first .. first + kParts - 1 of one dim.
void load_parts(uint first_part, uint first, uint dim) {
  [[unroll]] for (uint i = 0; i < kParts; ++i) elements[i] = partials[part_begin(first_part, first + i) + dim];
}

// Adds these parts.
void add_parts(uint first_part, uint first, float maximum, inout float sum, inout float result) {
  float lse[kParts];
  [[unroll]] for (uint i = 0; i < kParts; ++i) lse[i] = partials[part_begin(first_part, first + i) + kValueDim];
  [[unroll]] for (uint i = 0; i < kParts; ++i) {
    if (first + i < params.kv_splits) add_part(part_weight(lse[i], maximum), elements[i], sum, result);
  }
}

void main() {
  const uint index = workgroup_number();
  if (index >= params.tile_count) return;
  const WindowRow row = window_row(params.first_tile + index);
  begin_entry(row.batch, row.head / params.heads_per_kv);
  if (row.query >= visible_query_length()) return;
  const uint first_part = partial_row(row.batch, row.head, row.query, 0u);
  const uint target = output_row(row.batch, row.head, row.query);
  float maximum = kHiddenScore;
  bool is_known = false;
  for (uint dim = gl_LocalInvocationIndex; dim < kValueDim; dim += kWorkgroupSize) {
    float sum = 0.0;
    float result = 0.0;
    for (uint first = 0; first < params.kv_splits; first += kParts) {
      load_parts(first_part, first, dim);
      if (!is_known) maximum = maximum_of_parts(first_part);  // while the first elements are on their way
      is_known = true;
      add_parts(first_part, first, maximum, sum, result);
    }
    store_output(target, dim, combined(sum, result));
    if (dim == 0) store_lse(row.batch, row.head, row.query, maximum, sum);
  }
}
