// Adds up the gradients of ALiBi's slopes and of sinks from the rows' numbers, which an earlier pass has left. A workgroup
// computes them for one query head.
//
//   rows of the head:   0 -> invocation 0,   1 -> invocation 1,   ...   kWorkgroupSize -> invocation 0,   ...
//
// Budget: two sums in registers; 8 bytes of shared memory an invocation; each number of a row is read once, 4 bytes. The
// order of every sum is fixed.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "backward/gradients.glsl"
#include "lib/entries.glsl"
#include "lib/softmax_start.glsl"
#include "lib/workgroups.glsl"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 64;

layout(set = 0, binding = VKATTN_BINDING_GRAD_SLOPES, std430) buffer GradSlopes { float grad_slopes[]; };
layout(set = 0, binding = VKATTN_BINDING_GRAD_SINKS, std430) buffer GradSinks { float grad_sinks[]; };

shared float slope_parts[kWorkgroupSize];
shared float sink_parts[kWorkgroupSize];

void main() {
  const uint group = workgroup_number();
  if (group >= params.tile_count) return;  // uniform over the workgroup, so no barrier is missed
  const uint head = params.first_tile + group;
  const float sink = start_score(head, 0u);
  const float sink_share = start_weight(head, 0u);  // 0 if the sink is minus infinity
  float slope_sum = 0.0;
  float sink_sum = 0.0;
  for (uint batch = 0; batch < backward.batch; ++batch) {
    begin_entry(batch, head / params.heads_per_kv);
    for (uint query = gl_LocalInvocationIndex; query < visible_query_length(); query += kWorkgroupSize) {
      const uint row = workspace_row(batch, head, query);
      if (kHasGradSlopes) slope_sum += sums[backward.slope_sums + row];
      if (!kHasGradSinks || sink_share == 0.0) continue;
      const float lse = kLog2E * uintBitsToFloat(lse_words[lse_index(batch, head, query)]);
      sink_sum -= sink_share * exp2(sink - lse) * sums[backward.delta_sums + row];
    }
  }
  slope_parts[gl_LocalInvocationIndex] = slope_sum;
  sink_parts[gl_LocalInvocationIndex] = sink_sum;
  barrier();  // the parts are complete
  if (gl_LocalInvocationIndex != 0u) return;
  for (uint i = 1; i < kWorkgroupSize; ++i) {
    slope_sum += slope_parts[i];
    sink_sum += sink_parts[i];
  }
  if (kHasGradSlopes) grad_slopes[backward.grad_slopes_offset + head] = slope_sum;
  if (kHasGradSinks) grad_sinks[backward.grad_sinks_offset + head] = sink_sum;
}
