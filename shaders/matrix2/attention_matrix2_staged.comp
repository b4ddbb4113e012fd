// Attention on matrix units with VK_NV_cooperative_matrix2, staged: the workgroup brings tiles of keys and values to shared
// memory itself, and each of its subgroups owns whole rows. What the workgroup-scope form leaves to the driver is in order
// here: a tile's values travel while its scores are computed, the next tile's keys while its values are multiplied, and two
// barriers a tile are enough. Scores and probabilities stay in matrices, see matrix2/softmax.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/key_walk.glsl"
#include "lib/matrix_quantised.glsl"
#include "matrix2/softmax.glsl"
#include "matrix2/stages.glsl"

void compute_scores(out ScoreMatrix scores) {
  scores = ScoreMatrix(0.0);
  [[unroll]] for (uint b = 0; b < kHeadBlocks; ++b) {
    KeyMatrix key_block;
    load_keys(key_block, b);
    scores = coopMatMulAdd(queries[b], key_block, scores);
  }
}

void compute_probabilities(inout ScoreMatrix scores, int first_key, bool masked) {
  finish_scores(scores, first_key, masked);
  update_softmax(scores, masked);
  if (kHasDropout) coopMatPerElementNV(scores, scores, keep, first_key);
}

void accumulate_values(ProbabilityMatrix probabilities) {
  [[unroll]] for (uint b = 0; b < kValueBlocks; ++b) {
    ValueMatrix values;
    load_values(values, b);
    sums[b] = coopMatMulAdd(probabilities, values, sums[b]);
  }
}

// One tile, whose keys are staged and whose values are not; stages the keys of the following one.
void process_tile(int first_key, int following_key, bool sees, bool masked) {
  fetch_values(first_key);
  ProbabilityMatrix probabilities = ProbabilityMatrix(0.0);
  if (sees) {
    ScoreMatrix scores;
    compute_scores(scores);
    if (masked) {
      compute_probabilities(scores, first_key, true);
    } else {
      compute_probabilities(scores, first_key, false);
    }
    probabilities = ProbabilityMatrix(scores);
  }
  place_values();
  fetch_keys(following_key);
  workgroup_barrier();  // values are complete; keys were read
  if (sees) accumulate_values(probabilities);
  place_keys();
  workgroup_barrier();  // keys are complete; values were read
}

// What the row's sums are to be multiplied by.
float output_factor(const in uint row, const in uint column, const in float total) {
  return total == 0.0 ? 0.0 : drop_scale() / total;
}

void store_rows() {
  finish_rows();
  RowMatrix factors;
  coopMatPerElementNV(factors, row_sum, output_factor);
  SumMatrix sum_factors;
  coopMatReduceNV(sum_factors, factors, gl_CooperativeMatrixReduceRowNV, larger);
  [[unroll]] for (uint b = 0; b < kValueBlocks; ++b) {
    sums[b] = sums[b] * sum_factors;
    // Not by way of the factor, which may be so small that a device takes it for 0.
    if (kValuesQuantised) sums[b] = sums[b] * value_head_scale();
  }
  VKATTN_MATRIX_STEPS(kValueBlocks, store_block)
}

void main() {
  tile = tile_position(kBlockRows);
  if (!tile.valid) return;  // uniform over the workgroup, so no barrier is missed
  first_row = tile.first_row + gl_SubgroupID * kRows;
  kv_length = visible_kv_length(tile.batch);
  const int step = int(kKeys);
  const KeyWalk walk = walk_keys(tile, kBlockRows, kv_length, step, step);
  keys = walk.keys;
  // The same steps as the subgroup's own rows see them. One without rows sees nothing.
  KeyWalk own = walk;
  own.keys.end = 0;
  if (first_row < packed_row_count()) {
    own.keys = keys_of_rows(first_row, kRows, kv_length, walk.keys.part_begin, step);
  }
  load_queries();
  begin_sums();
  int first_key = first_step(walk);
  fetch_keys(first_key);
  place_keys();
  workgroup_barrier();  // the first keys are complete
  while (first_key < keys.end) {  // tested at both ends, see lib/key_walk.glsl
    const int following_key = next_step(walk, first_key);
    const bool sees = first_key < own.keys.end && first_key + step > own.keys.begin;
    process_tile(first_key, following_key, sees, is_masked(own, first_key));
    first_key = following_key;
    if (first_key >= keys.end) break;
  }
  store_rows();
}
