// Online softmax on the matrices of the matrix2 kernel: numbers of rows, functions of an element, and steps on scores. Numbers
// of rows are matrices of few columns, or stand in lanes (VKATTN_MATRIX2_ROWS_IN_LANES, lib/matrix_lane_rows.glsl).
#ifndef VKATTN_MATRIX2_SOFTMAX
#define VKATTN_MATRIX2_SOFTMAX

#ifndef VKATTN_MATRIX2_ROWS_IN_LANES
#define VKATTN_MATRIX2_ROWS_IN_LANES 0
#endif

#include "lib/dropout.glsl"
#include "lib/key_walk.glsl"
#if VKATTN_MATRIX2_ROWS_IN_LANES
#include "lib/matrix_lane_rows.glsl"
#else
#include "lib/matrix2_rows.glsl"
#endif
#include "lib/online_softmax.glsl"
#include "lib/partials.glsl"
#include "lib/matrix_quantised.glsl"
#include "lib/scores.glsl"
#include "lib/softmax_start.glsl"
#include "matrix2/matrices.glsl"

#if VKATTN_MATRIX2_ROWS_IN_LANES
#extension GL_KHR_shader_subgroup_vote : require
#endif

// A probability is exp2(score - reference). The reference is the row's maximum less kHeadroom when it was last raised;
// it is raised again when a score exceeds it by more than kLimit. So probabilities use float16's range: at most 2^15, and
// normal numbers down to 2^-21 of the maximum. The reference of large scores is rounded, but never so far that a
// probability overflows: steps of 16 are more than twice the headroom, so the difference rounds back to the maximum.
const float kHeadroom = 7.0;
const float kLimit = 15.0;

SumMatrix sums[kValueBlocks];

// Functions of an element read these globals: the driver would copy an argument for every element.
TilePosition tile;
uint first_row;  // of the matrices, packed
int kv_length;  // of the batch entry
KeyRange keys;  // that the whole tile sees of this part

// Functions of an element. Their arguments are its row and column in the matrix, its value, and what the caller adds.

ScoreRow score_row_at(uint row) {
  const uint packed = min(first_row + row, packed_row_count() - 1u);
  return score_row(tile.batch, packed_head(tile.kv_head, packed), packed_query(packed));
}

float finish(const in uint row, const in uint column, const in float score, const in int first_key,
             const in bool masked) {
  return finish_score(score, score_row_at(row), uint(min(first_key + int(column), keys.end - 1)), masked);
}

float hide(const in uint row, const in uint column, const in float score, const in int first_key) {
  const int query = int(packed_query(first_row + row));
  const int key = first_key + int(column);
  const bool visible = key < min(visible_key_end(query, kv_length), keys.end) &&
                       (!kHasKeyBegin || key >= visible_key_begin(query, kv_length));
  return visible ? score : kHiddenScore;
}

// The probability, or 0 if dropout drops it.
float keep(const in uint row, const in uint column, const in float probability, const in int first_key) {
  return kept_probability(probability, score_row_at(row), uint(first_key + int(column)));
}

float raise_to_start(const in uint row, const in uint column, const in float reference) {
  const float start = start_score(score_row_at(row).head, tile.split);
  return start == kHiddenScore ? reference : max(reference, start - kHeadroom);
}

float add_start(const in uint row, const in uint column, const in float sum, const in float reference) {
  const uint head = score_row_at(row).head;
  const float weight = start_weight(head, tile.split);
  return weight == 0.0 ? sum : sum + weight * exp2(start_score(head, tile.split) - reference);
}

float raise(const in uint row, const in uint column, const in float reference, const in float maximum) {
  return maximum - reference > kLimit ? maximum - kHeadroom : reference;
}

// Exactly 1 if the reference stays: exp2(0) may be inexact, and there are as many factors as tiles.
float rescale(const in uint row, const in uint column, const in float old_reference, const in float reference) {
  return old_reference == reference ? 1.0 : rescale_factor(old_reference, reference);
}

float probability(const in uint row, const in uint column, const in float score, const in float reference) {
  // Not contracted with the score's multiplication: for scores beyond 2^28 its rounding is more than the headroom.
  precise const float difference = score - reference;
  return exp2(difference);
}

// The probability in a step with hidden keys. NaN fails the comparison, so that a visible NaN arrives.
float masked_probability(const in uint row, const in uint column, const in float score, const in float reference) {
  precise const float difference = score - reference;
  return score <= kHiddenScore ? 0.0 : exp2(difference);
}

float store_row_lse(const in uint row, const in uint column, const in float total, const in float reference) {
  const uint packed = first_row + row;
  if (column == 0u && packed < packed_row_count()) {
    const uint head = packed_head(tile.kv_head, packed);
    const uint query = packed_query(packed);
    const uint target = result_row(tile.batch, head, query, tile.split);
    store_result_lse(target, tile.batch, head, query, reference, total);
  }
  return total;
}

// The factor of a row's sums.
float output_factor(const in uint row, const in uint column, const in float total) {
  return total == 0.0 ? 0.0 : drop_scale() / total;
}

void finish_scores(inout ScoreMatrix scores, int first_key, bool masked) {
  scores = scores * (params.scale_log2 * key_head_scale());
  if (kFinishesScores) coopMatPerElementNV(scores, scores, finish, first_key, masked);
  if (masked) coopMatPerElementNV(scores, scores, hide, first_key);
}

#if VKATTN_MATRIX2_ROWS_IN_LANES

// Whether a tile's scores are computed before the softmax of the tile before it.
layout(constant_id = VKATTN_SPEC_MATRIX2_SCORES_AHEAD) const bool kScoresAhead = false;

QueryMatrix queries[kHeldBlocks == 0 ? 1 : kHeldBlocks];

const uint kScores = kRows * kKeys / kLanes;  // components of a lane
const uint kSums = kRows * kValueBlock / kLanes;

float row_reference[kLaneRows];
float row_sum[kLaneRows];  // of the lane's own components, until finish_rows()
// Packed rows without first_row, which only a function of an element is told.
uint row_numbers[kLaneRows];

float number_of_row(const in uint row, const in uint column, const in float element) { return float(row); }

void find_rows() {
  SumMatrix numbers = SumMatrix(0.0);
  coopMatPerElementNV(numbers, numbers, number_of_row);
  [[unroll]] for (uint i = 0; i < kSums; ++i) row_numbers[sum_row(i)] = uint(numbers[i]);
}

void multiply_sums(const in float factors[kLaneRows]) {
  [[unroll]] for (uint b = 0; b < kValueBlocks; ++b) {
    [[unroll]] for (uint i = 0; i < kSums; ++i) sums[b][i] = sums[b][i] * factors[sum_row(i)];
  }
}

// Rescales all sums to other references.
void change_references(const in float references[kLaneRows]) {
  float factors[kLaneRows];
  [[unroll]] for (uint r = 0; r < kLaneRows; ++r) {
    factors[r] = rescale(0u, 0u, row_reference[r], references[r]);
    row_reference[r] = references[r];
    row_sum[r] = row_sum[r] * factors[r];
  }
  multiply_sums(factors);
}

// Most tiles raise no reference, which a vote of the subgroup tells.
void raise_references(ScoreMatrix scores) {
  float references[kLaneRows];
  [[unroll]] for (uint r = 0; r < kLaneRows; ++r) references[r] = kHiddenScore;
  [[unroll]] for (uint i = 0; i < kScores; ++i) references[score_row(i)] = max(references[score_row(i)], scores[i]);
  bool is_raised = false;
  [[unroll]] for (uint r = 0; r < kLaneRows; ++r) {
    references[r] = raise(0u, 0u, row_reference[r], row_maximum(references[r]));
    is_raised = is_raised || references[r] != row_reference[r];
  }
  if (subgroupAny(is_raised)) change_references(references);
}

// Turns scores into probabilities. They are summed before they are rounded: rounded ones would put the log-sum-exp off by 2^-11.
void exponentiate(inout ScoreMatrix scores, bool masked) {
  [[unroll]] for (uint i = 0; i < kScores; ++i) {
    const float reference = row_reference[score_row(i)];
    const float element = looks_for_hidden(masked) ? masked_probability(0u, 0u, scores[i], reference)
                                                   : probability(0u, 0u, scores[i], reference);
    scores[i] = element;
    row_sum[score_row(i)] += element;
  }
}

void begin_sums() {
  [[unroll]] for (uint b = 0; b < kValueBlocks; ++b) sums[b] = SumMatrix(0.0);
  [[unroll]] for (uint r = 0; r < kLaneRows; ++r) {
    row_reference[r] = kHiddenScore;
    row_sum[r] = 0.0;
  }
}

// Adds the rows' starts. It comes last: probabilities relative to a start far above the scores would not fit 16 bits.
void add_starts() {
  float references[kLaneRows];
  [[unroll]] for (uint r = 0; r < kLaneRows; ++r) references[r] = raise_to_start(row_numbers[r], 0u, row_reference[r]);
  change_references(references);
  [[unroll]] for (uint r = 0; r < kLaneRows; ++r) row_sum[r] = add_start(row_numbers[r], 0u, row_sum[r], references[r]);
}

// Sums the parts of rows over lanes, adds the rows' starts and stores log-sum-exps.
void finish_rows() {
  [[unroll]] for (uint r = 0; r < kLaneRows; ++r) row_sum[r] = row_total(row_sum[r]);
  if (!kHasStart && !kHasLse && !kSplitKv) return;
  find_rows();
  if (kHasStart) add_starts();
  if ((kHasLse || kSplitKv) && is_first_of_row()) {
    [[unroll]] for (uint r = 0; r < kLaneRows; ++r) store_row_lse(row_numbers[r], 0u, row_sum[r], row_reference[r]);
  }
}

// After finish_rows().
void divide_sums() {
  float factors[kLaneRows];
  [[unroll]] for (uint r = 0; r < kLaneRows; ++r) factors[r] = output_factor(0u, 0u, row_sum[r]);
  multiply_sums(factors);
}

#else

const bool kScoresAhead = false;

QueryMatrix queries[kHeadBlocks];
RowMatrix row_reference;
RowMatrix row_sum;

float plus(const in float a, const in float b) { return a + b; }

// Rescales all sums to other references.
void change_references(RowMatrix reference) {
  RowMatrix factors;
  coopMatPerElementNV(factors, row_reference, rescale, reference);
  row_reference = reference;
  row_sum = row_sum * factors;
  SumMatrix sum_factors;
  VKATTN_SPREAD_ROWS(sum_factors, factors);
  [[unroll]] for (uint b = 0; b < kValueBlocks; ++b) sums[b] = sums[b] * sum_factors;
}

// Sums are rescaled even if no reference was raised. To find that out takes longer: four barriers of the workgroup.
void raise_references(ScoreMatrix scores) {
  RowMatrix maxima;
  coopMatReduceNV(maxima, scores, gl_CooperativeMatrixReduceRowNV, larger);
  RowMatrix reference;
  coopMatPerElementNV(reference, row_reference, raise, maxima);
  change_references(reference);
}

// Turns scores into probabilities.
void exponentiate(inout ScoreMatrix scores, bool masked) {
  ScoreMatrix references;
  VKATTN_SPREAD_ROWS(references, row_reference);
  if (looks_for_hidden(masked)) {
    coopMatPerElementNV(scores, scores, masked_probability, references);
  } else {
    coopMatPerElementNV(scores, scores, probability, references);
  }
  // Sums probabilities before they are rounded: rounded ones would put the log-sum-exp off by 2^-11.
  RowMatrix tile_sum;
  coopMatReduceNV(tile_sum, scores, gl_CooperativeMatrixReduceRowNV, plus);
  row_sum = row_sum + tile_sum;
}

void begin_sums() {
  [[unroll]] for (uint b = 0; b < kValueBlocks; ++b) sums[b] = SumMatrix(0.0);
  row_reference = RowMatrix(kHiddenScore);
  row_sum = RowMatrix(0.0);
}

// Adds the rows' starts. It comes last: probabilities relative to a start far above the scores would not fit 16 bits.
void add_starts() {
  RowMatrix reference;
  coopMatPerElementNV(reference, row_reference, raise_to_start);
  change_references(reference);
  coopMatPerElementNV(row_sum, row_sum, add_start, reference);
}

// Adds the rows' starts and stores log-sum-exps. After it the sums only need to be divided by row_sum.
void finish_rows() {
  if (kHasStart) add_starts();
  if (kHasLse || kSplitKv) coopMatPerElementNV(row_sum, row_sum, store_row_lse, row_reference);
}

// After finish_rows().
void divide_sums() {
  RowMatrix factors;
  coopMatPerElementNV(factors, row_sum, output_factor);
  SumMatrix sum_factors;
  VKATTN_SPREAD_SUMS(sum_factors, factors);
  [[unroll]] for (uint b = 0; b < kValueBlocks; ++b) sums[b] = sums[b] * sum_factors;
}

#endif

#endif
