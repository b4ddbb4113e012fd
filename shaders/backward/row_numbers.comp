// Computes the two numbers of each row that the matrix2 form reads: the log-sum-exp in log2 units, and D = <dO, o> - dlse. Its
// other passes compute everything else again.
//
//           4 dims     4 dims
//   row 0 | thread 0 | thread 1 | ...   kRowThreads neighbouring threads share a row: 4 dims each of every
//   row 1 | thread 8 | thread 9 | ...   4 * kRowThreads; the order of every sum is fixed
//
// Budget: 9 registers (two quads and a sum); 4 bytes of shared memory a thread; a multiply-add reads one element of dO and
// one of O.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "backward/gradients.glsl"
#include "lib/workgroups.glsl"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 64;

layout(set = 0, binding = VKATTN_BINDING_PAIRS, std430) writeonly buffer RowNumbers { vec2 row_numbers[]; };

const uint kRowThreads = VKATTN_BACKWARD_ROW_THREADS;

shared float parts[kWorkgroupSize];

// A row of the tensors. It may belong to any batch entry, or to none.
struct NumberedRow {
  uint batch;
  uint head;
  uint row;
};

// Counts rows as workspace_row() does.
NumberedRow numbered_row(uint unit) {
  const uint rows = kPackedQueries ? features.total_query_length : params.query_length;
  const uint head_index = unit / rows;
  return NumberedRow(head_index / params.query_heads, head_index % params.query_heads, unit % rows);
}

float part_of_delta(NumberedRow row, uint part) {
  const uint grad_index = grad_output_row(row.batch, row.head, row.row);
  const uint output_index = output_row(row.batch, row.head, row.row);
  float delta = 0.0;
  for (uint dim = part * 4u; dim < kValueDim; dim += kRowThreads * 4u) {
    delta += dot(grad_output_at4(grad_index, dim), forward_output_at4(output_index, dim));
  }
  return delta;
}

void main() {
  const uint group = workgroup_number();
  const uint own = group * (kWorkgroupSize / kRowThreads) + gl_LocalInvocationIndex / kRowThreads;
  const uint part = gl_LocalInvocationIndex % kRowThreads;
  const bool exists = own < params.tile_count;
  const uint unit = params.first_tile + own;
  const NumberedRow row = numbered_row(unit);
  float delta = exists ? part_of_delta(row, part) : 0.0;
  parts[gl_LocalInvocationIndex] = delta;
  barrier();  // the parts are complete
  if (!exists || part != 0u) return;
  for (uint i = 1; i < kRowThreads; ++i) delta += parts[gl_LocalInvocationIndex + i];
  subtract_grad_lse(delta, row.batch, row.head, row.row);
  const float lse = kLog2E * uintBitsToFloat(lse_words[lse_index(row.batch, row.head, row.row)]);
  row_numbers[unit] = vec2(lse, delta);
  if (kWritesDeltas) sums[backward.delta_sums + unit] = delta;
}
