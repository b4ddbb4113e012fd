// Merges the partial results of a split over the keys by their log-sum-exp: a workgroup computes one row.
//
//              dim 0     dim 1     ...            invocation i has dims i, i + kWorkgroupSize, ...
//   part 0   | element | element | ... | lse |    the parts are added in their order, kParts of them in flight, so that
//   part 1   | element | element | ... | lse |    two runs give the same bits
//
// Budget: 2 * kParts + 3 registers (elements, log-sum-exps; maximum, sum, result) = 19; no shared memory; for each part of an
// element 8 bytes are read: the element, and the part's log-sum-exp, at one address for the whole workgroup.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/grid.glsl"
#include "lib/partials.glsl"
#include "lib/workgroups.glsl"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 64;

const uint kParts = 8;  // in flight

// The merged result so far, of one dim of a row.
struct Merged {
  float maximum;
  float sum;
  float result;
};

// Merges parts first .. first + kParts - 1 of one dim.
void add_parts(inout Merged merged, uint first_part, uint first, uint dim) {
  float lse[kParts];
  float elements[kParts];
  [[unroll]] for (uint i = 0; i < kParts; ++i) {
    // The last part stands for parts beyond it, which are skipped below.
    const uint part = first_part + min(first + i, params.kv_splits - 1u) * (kValueDim + 1u);
    lse[i] = partials[part + kValueDim];
    elements[i] = partials[part + dim];
  }
  const float old_maximum = merged.maximum;
  [[unroll]] for (uint i = 0; i < kParts; ++i) merged.maximum = max(merged.maximum, lse[i]);
  const float rescale = rescale_factor(old_maximum, merged.maximum);
  merged.sum *= rescale;
  merged.result *= rescale;
  [[unroll]] for (uint i = 0; i < kParts; ++i) {
    // A part that saw no key has no weight: its log-sum-exp is not a number to calculate with.
    if (first + i < params.kv_splits && lse[i] != kHiddenScore) {
      const float weight = exp2(lse[i] - merged.maximum);
      merged.sum += weight;
      merged.result += weight * elements[i];
    }
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
  for (uint dim = gl_LocalInvocationIndex; dim < kValueDim; dim += kWorkgroupSize) {
    Merged merged = Merged(kHiddenScore, 0.0, 0.0);
    for (uint first = 0; first < params.kv_splits; first += kParts) add_parts(merged, first_part, first, dim);
    store_output(target, dim, merged.sum == 0.0 ? 0.0 : merged.result / merged.sum);
    if (dim == 0) store_lse(row.batch, row.head, row.query, merged.maximum, merged.sum);
  }
}
