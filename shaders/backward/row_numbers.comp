// What each row brings to the pairs of the matrix2 form, whose passes compute all else again: its log-sum-exp in log2 units
// and D = <dO, o>. A few neighbouring threads share a row; the order of every sum is fixed.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "backward/gradients.glsl"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 64;

layout(set = 0, binding = VKATTN_BINDING_PAIRS, std430) writeonly buffer RowNumbers { vec2 row_numbers[]; };

const uint kRowThreads = VKATTN_BACKWARD_ROW_THREADS;

shared float parts[kWorkgroupSize];

// A row of a query head: units are numbered by query first.
struct NumberedRow {
  uint batch;
  uint head;
  uint query;
};

NumberedRow numbered_row(uint unit) {
  const uint head_index = unit / params.query_length;
  return NumberedRow(head_index / params.query_heads, head_index % params.query_heads, unit % params.query_length);
}

float part_of_delta(NumberedRow row, uint part) {
  const uint grad_index = grad_output_row(row.batch, row.head, row.query);
  const uint output_index = output_row(row.batch, row.head, row.query);
  float delta = 0.0;
  for (uint dim = part * 4u; dim < kValueDim; dim += kRowThreads * 4u) {
    delta += dot(grad_output_at4(grad_index, dim), forward_output_at4(output_index, dim));
  }
  return delta;
}

void main() {
  const uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  const uint own = group * (kWorkgroupSize / kRowThreads) + gl_LocalInvocationIndex / kRowThreads;
  const uint part = gl_LocalInvocationIndex % kRowThreads;
  bool exists = own < params.tile_count;
  NumberedRow row;
  float delta = 0.0;
  if (exists) {
    row = numbered_row(params.first_tile + own);
    begin_entry(row.batch, row.head / params.heads_per_kv);
    exists = row.query < visible_query_length();
    if (exists) delta = part_of_delta(row, part);
  }
  parts[gl_LocalInvocationIndex] = delta;
  barrier();  // the parts are complete
  if (!exists || part != 0u) return;
  for (uint i = 1; i < kRowThreads; ++i) delta += parts[gl_LocalInvocationIndex + i];
  const float lse = kLog2E * uintBitsToFloat(lse_words[lse_index(row.batch, row.head, row.query)]);
  const uint index = workspace_row(row.batch, row.head, row.query);
  row_numbers[index] = vec2(lse, delta);
  if (kHasGradSinks) sums[backward.delta_sums + index] = delta;
}
