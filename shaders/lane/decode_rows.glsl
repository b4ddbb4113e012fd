// The rows of a tile of lane_decode: what they see, their scores' softmax, and their log-sum-exp. A lane's arrays are globals, as
// GLSL passes arrays by copying them. The rows' numbers are equal in all lanes, except row_sum, which has the lane's own keys.
#ifndef VKATTN_LANE_DECODE_ROWS
#define VKATTN_LANE_DECODE_ROWS

#include "lib/dropout.glsl"
#include "lib/grid.glsl"
#include "lib/key_ranges.glsl"
#include "lib/online_softmax.glsl"
#include "lib/partials.glsl"
#include "lib/scores.glsl"
#include "lib/softmax_start.glsl"
#include "lib/tensors.glsl"
#include "lib/unrolled.glsl"

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kThreads = 8;
layout(constant_id = VKATTN_SPEC_LANE_DECODE_ROWS) const uint kRows = 4;
layout(constant_id = VKATTN_SPEC_LANE_DECODE_KEYS) const uint kLaneKeys = 8;
layout(constant_id = VKATTN_SPEC_LANE_DECODE_LOCKSTEP) const bool kLockstep = false;

const uint kStepKeys = kThreads * kLaneKeys;
const uint kValueKeys = 8;  // keys of a pass over values; a step has a multiple of these

uint result_index[kRows];
ScoreRow score_rows[kRows];
int row_key_begin[kRows], row_key_end[kRows];  // a row sees keys begin .. end - 1
float row_maximum[kRows], row_sum[kRows], row_rescale[kRows];
float scores[kLaneKeys * kRows];  // of the lane's keys; then their probabilities

uint lane() { return gl_SubgroupInvocationID; }

// The lanes' stores to the stages come before the loads that follow. llvmpipe runs the lanes of a subgroup in lockstep, one
// instruction after the other, and only has to keep their order. A control barrier there, also one of a subgroup, makes a
// coroutine of the shader: it compiles 1.4 to 13 times as long, and each loop's values live in memory (Mesa 26.1).
void stage_barrier() {
  subgroupMemoryBarrier();
  if (!kLockstep) subgroupBarrier();
}

uint packed_row(TilePosition tile, uint r) { return min(tile.first_row + r, packed_row_count() - 1u); }

// The lane's key u of a step.
int lane_key(int first_key, uint u) { return first_key + int(u * kThreads + lane()); }

// The last key stands for those that a step has beyond it.
uint source_key(int key, int key_end) { return uint(min(key, key_end - 1)); }

float maximum_of_lanes(float maximum) {
#define VKATTN_LARGER_OF_PAIRS(LANES) maximum = max(maximum, subgroupShuffleXor(maximum, LANES))
  VKATTN_LANE_STEPS(1u, kThreads, VKATTN_LARGER_OF_PAIRS)
  return maximum;
}

float sum_of_lanes(float sum) {
#define VKATTN_SUM_OF_LANE_PAIRS(LANES) sum += subgroupShuffleXor(sum, LANES)
  VKATTN_LANE_STEPS(1u, kThreads, VKATTN_SUM_OF_LANE_PAIRS)
  return sum;
}

bool is_hidden(uint row, int key) {
  return key >= row_key_end[row] || (kHasKeyBegin && key < row_key_begin[row]);
}

// Turns the step's scores into probabilities, kHiddenProbability of hidden keys, and raises the rows' maxima.
void update_softmax(int first_key, int key_end, bool masked) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    float maximum = row_maximum[r];
    [[unroll]] for (uint u = 0; u < kLaneKeys; ++u) {
      const int key = lane_key(first_key, u);
      const bool hidden = masked && is_hidden(r, key);
      const float score =
          finish_score(scores[u * kRows + r], score_rows[r], source_key(key, key_end), masked);
      scores[u * kRows + r] = hidden ? kHiddenScore : score;
      maximum = max(maximum, scores[u * kRows + r]);
    }
    maximum = maximum_of_lanes(maximum);
    // Exactly 1 if the maximum stays: exp2(0) may be inexact, and there may be many steps.
    row_rescale[r] = maximum == row_maximum[r] ? 1.0 : rescale_factor(row_maximum[r], maximum);
    row_maximum[r] = maximum;
    float total = 0.0;
    [[unroll]] for (uint u = 0; u < kLaneKeys; ++u) {
      const float score = scores[u * kRows + r];
      const bool hidden = looks_for_hidden(masked) &&
                          (kScoresHide ? score == kHiddenScore : is_hidden(r, lane_key(first_key, u)));
      const float weight = exp2(score - maximum);
      scores[u * kRows + r] = hidden ? kHiddenProbability : weight;
      total += hidden ? 0.0 : weight;
    }
    row_sum[r] = row_sum[r] * row_rescale[r] + total;
  }
}

// A probability, or 0 if dropout drops it.
float kept_weight(float weight, uint r, int key) {
  const float kept = kept_probability(weight, score_rows[r], uint(key));
  return weight < 0.0 ? weight : kept;
}

void begin_rows(TilePosition tile, int kv_length, int part_end) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    // The last row stands for rows beyond it; they are not stored.
    const uint row = packed_row(tile, r);
    const uint head = packed_head(tile.kv_head, row);
    const uint query = packed_query(row);
    result_index[r] = result_row(tile.batch, head, query, tile.split);
    score_rows[r] = score_row(tile.batch, head, query);
    row_key_begin[r] = visible_key_begin(int(query), kv_length);
    row_key_end[r] = min(visible_key_end(int(query), kv_length), part_end);
    row_maximum[r] = start_score(head, tile.split);
    row_sum[r] = lane() == 0u ? start_weight(head, tile.split) : 0.0;
  }
}

// Adds up the lanes' sums of a row, and gives what its weighted values are multiplied by at the end.
float finish_row(uint r) {
  row_sum[r] = sum_of_lanes(row_sum[r]);
  return row_sum[r] == 0.0 ? 0.0 : drop_scale() / row_sum[r];
}

bool has_row(TilePosition tile, uint r) { return tile.first_row + r < packed_row_count(); }

void store_lse_of_rows(TilePosition tile) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const uint row = tile.first_row + r;
    if (row < packed_row_count() && lane() == 0u) {
      store_result_lse(result_index[r], tile.batch, packed_head(tile.kv_head, row), packed_query(row), row_maximum[r],
                       row_sum[r]);
    }
  }
}

#endif
