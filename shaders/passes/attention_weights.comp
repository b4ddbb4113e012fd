// Writes the attention weights of every query and key at one stage: scores, scores after softcap, scores after bias and
// masks, or probabilities. Probabilities need each row's log-sum-exp, which the kernel has left. A workgroup writes one row.
//
// Budget: 9 registers (two quads and a sum); no shared memory; a multiply-add reads one element of Q and one of K, and each
// position writes 4 bytes.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/grid.glsl"
#include "lib/key_ranges.glsl"
#include "lib/scores.glsl"
#include "lib/tensors.glsl"
#include "lib/workgroups.glsl"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 64;
layout(constant_id = VKATTN_SPEC_WEIGHTS_STAGE) const uint kStage = VKATTN_WEIGHTS_SCORES;

layout(set = 0, binding = VKATTN_BINDING_WEIGHTS, std430) buffer Weights { uint weights[]; };

const float kLn2 = 0.693147180559945;
const uint kMinusInfinity = 0xff800000u;

// The scaled score of a key that exists, in log2 units.
float scaled_score(uint query_index, uint key_index) {
  float sum = 0.0;
  for (uint dim = 0; dim < kHeadDim; dim += 4) {
    const vec4 query = query_at4(query_index, dim);
    const vec4 key = key_at4(key_index, dim);
    [[unroll]] for (uint d = 0; d < 4; ++d) sum += query[d] * key[d];
  }
  return sum * params.scale_log2;
}

// Stages before the mask: hidden keys have a score in them, too.
const bool kBeforeMask = kStage == VKATTN_WEIGHTS_SCORES || kStage == VKATTN_WEIGHTS_SOFTCAP;

// The weight, as the bits of a float, of a key that its position does not hide; in stages before the mask, of any key.
uint weight(ScoreRow row, uint key, float score, float lse) {
  if (kStage == VKATTN_WEIGHTS_SCORES) return floatBitsToUint(score * kLn2);
  if (kStage == VKATTN_WEIGHTS_SOFTCAP) return floatBitsToUint(capped_score(score) * kLn2);
  const float finished = finish_score(score, row, key, true);
  const bool hidden = kScoresHide && finished == kHiddenScore;
  if (kStage == VKATTN_WEIGHTS_MASKED) return hidden ? kMinusInfinity : floatBitsToUint(finished * kLn2);
  return hidden ? 0u : floatBitsToUint(exp2(finished - kLog2E * lse));
}

void main() {
  const uint index = workgroup_number();
  if (index >= params.tile_count) return;
  const WindowRow own = window_row(params.first_tile + index);
  const uint batch = own.batch;
  const uint head = own.head;
  const uint query = own.query;
  const uint kv_head = head / params.heads_per_kv;
  begin_entry(batch, kv_head);
  if (query >= visible_query_length()) return;
  const int kv_length = visible_kv_length(batch);
  const int stored_begin = kKeyMapping == VKATTN_KEYS_RING ? max(kv_length - int(kCacheRows), 0) : 0;
  const int key_begin = visible_key_begin(int(query), kv_length);
  const int key_end = visible_key_end(int(query), kv_length);
  const ScoreRow row = score_row(batch, head, query);
  const uint query_index = query_row(batch, head, query);
  float lse = 0.0;
  if (kStage == VKATTN_WEIGHTS_PROBABILITIES) lse = uintBitsToFloat(lse_words[lse_index(batch, head, query)]);
  const uint target = features.weights_offset + batch * features.weights_batch_stride +
                      head * features.weights_head_stride + query * features.weights_row_stride;
  for (int key = int(gl_LocalInvocationIndex); key < int(params.kv_length); key += int(kWorkgroupSize)) {
    uint bits = kStage == VKATTN_WEIGHTS_PROBABILITIES ? 0u : kMinusInfinity;
    const bool visible = key >= key_begin && key < key_end;
    if (key >= stored_begin && key < kv_length && (visible || kBeforeMask)) {
      const float score = scaled_score(query_index, key_row(batch, kv_head, uint(key)));
      bits = weight(row, uint(key), score, lse);
    }
    weights[target + uint(key) * features.weights_key_stride] = bits;
  }
}
