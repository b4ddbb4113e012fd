// Adds up the gradient of an additive mask from the gradients of scores, which the rows' pass has left. An invocation
// computes one element, from the batch entries, heads and queries that the element was broadcast to.
//
//   one element   <-   batch entries x heads x rows x keys, as far as the mask is broadcast along each
//
// Budget: one sum in registers; no shared memory; 4 bytes are read for each pair, or 8 if its numbers lie side by side.
//
// If the mask was broadcast to all keys too, each chunk adds to the sums of the chunks before it. The order of every sum is
// fixed.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "backward/pairs.glsl"
#include "lib/scores.glsl"
#include "lib/workgroups.glsl"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 64;

VKATTN_GRADIENT(grad_mask, VKATTN_BINDING_GRAD_MASK, kGradMaskType, 1u)

// Positions of the mask's gradient along a dimension; scores_of() gives the scores along it that belong to one of them.
uint positions(uint stride, uint extent) { return stride == 0u ? 1u : extent; }
uvec2 scores_of(uint stride, uint extent, uint position) {
  return stride == 0u ? uvec2(0u, extent) : uvec2(position, position + 1u);
}
// The query heads that read a head of the mask: the first, the end, and the distance between two.
uvec3 heads_of(uint position) {
  if (backward.grad_mask_head_stride == 0u) return uvec3(0u, params.query_heads, 1u);
  return uvec3(position, params.query_heads, features.mask_heads);
}

float score_gradient(uint pair) {
  return kKeepsScoreGradients ? load_score_gradient(pair) : load_gradient(pair);
}

// The sum over keys keys.x .. keys.y - 1 of one row, as far as the row sees them.
float sum_of_row(uint batch, uint head, uint query, uvec2 keys, uint chunk_begin) {
  const int kv_length = visible_kv_length(batch);
  const int begin = max(int(keys.x), visible_key_begin(int(query), kv_length));
  const int end = min(int(keys.y), visible_key_end(int(query), kv_length));
  const uint pair = pair_row(batch, head, query);
  float sum = 0.0;
  for (int key = begin; key < end; ++key) sum += score_gradient(pair + pair_place(uint(key) - chunk_begin));
  return sum;
}

void main() {
  const uint group = workgroup_number();
  const uint index = group * kWorkgroupSize + gl_LocalInvocationIndex;
  if (index >= params.tile_count) return;
  const uint batches = positions(backward.grad_mask_batch_stride, backward.batch);
  const uint heads = positions(backward.grad_mask_head_stride, features.mask_heads);
  const uint rows = positions(backward.grad_mask_row_stride, features.problem_query_length);
  const uint chunk_keys = positions(backward.grad_mask_key_stride, params.split_keys);
  const uint unit = params.first_tile + index;
  const uint chunk = unit / (batches * heads * rows * chunk_keys);
  uint rest = unit - chunk * (batches * heads * rows * chunk_keys);
  const uint element = rest;
  const uint key = rest % chunk_keys;
  rest /= chunk_keys;
  const uint row = rest % rows;
  rest /= rows;
  const uint head = rest % heads;
  const uint batch = rest / heads;

  const uint chunk_begin = chunk * params.split_keys;
  const uint chunk_end = min(chunk_begin + params.split_keys, params.kv_length);
  const bool of_all_keys = backward.grad_mask_key_stride == 0u;
  if (!of_all_keys && chunk_begin + key >= params.kv_length) return;
  const uvec2 keys = of_all_keys ? uvec2(chunk_begin, chunk_end) : uvec2(chunk_begin + key, chunk_begin + key + 1u);
  const uvec2 of_batch = scores_of(backward.grad_mask_batch_stride, backward.batch, batch);
  const uvec3 of_heads = heads_of(head);
  const uvec2 of_rows = scores_of(backward.grad_mask_row_stride, features.problem_query_length, row);
  float sum = 0.0;
  if (of_all_keys && chunk != 0u) sum = sums[backward.mask_sums + element];
  for (uint b = of_batch.x; b < of_batch.y; ++b) {
    begin_entry(b, 0u);
    for (uint h = of_heads.x; h < of_heads.y; h += of_heads.z) {
      const float factor = mask_factor(h);
      for (uint i = of_rows.x; i < min(of_rows.y, visible_query_length()); ++i) {
        sum += factor * sum_of_row(b, h, i, keys, chunk_begin);
      }
    }
  }
  if (of_all_keys) {
    sums[backward.mask_sums + element] = sum;
    if (chunk + 1u != params.kv_splits) return;
  }
  const uint target = backward.grad_mask_offset + batch * backward.grad_mask_batch_stride +
                      head * backward.grad_mask_head_stride + row * backward.grad_mask_row_stride +
                      (of_all_keys ? 0u : keys.x) * backward.grad_mask_key_stride;
  store_grad_mask(target, 0u, sum);
}
