// Online softmax on the matrices of the matrix2 kernel: numbers of rows, functions of an element, and steps on scores.
#ifndef VKATTN_MATRIX2_SOFTMAX
#define VKATTN_MATRIX2_SOFTMAX

#include "lib/dropout.glsl"
#include "lib/key_walk.glsl"
#include "lib/matrix2_rows.glsl"
#include "lib/online_softmax.glsl"
#include "lib/partials.glsl"
#include "lib/matrix_quantised.glsl"
#include "lib/scores.glsl"
#include "lib/softmax_start.glsl"
#include "matrix2/matrices.glsl"

// A probability is exp2(score - reference). The reference is the row's maximum less kHeadroom when it was last raised;
// it is raised again when a score exceeds it by more than kLimit. So probabilities use float16's range: at most 2^15, and
// normal numbers down to 2^-21 of the maximum. The reference of large scores is rounded, but never so far that a
// probability overflows: steps of 16 are more than twice the headroom, so the difference rounds back to the maximum.
const float kHeadroom = 7.0;
const float kLimit = 15.0;

QueryMatrix queries[kHeadBlocks];
SumMatrix sums[kValueBlocks];
RowMatrix row_reference;
RowMatrix row_sum;

// Functions of an element read these globals: the driver would copy an argument for every element.
TilePosition tile;
uint first_row;  // of the matrices, packed
int kv_length;  // of the batch entry
KeyRange keys;  // that the whole tile sees of this part

// Functions of an element. Their arguments are its row and column in the matrix, its value, and what the caller adds.

float plus(const in float a, const in float b) { return a + b; }

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

void finish_scores(inout ScoreMatrix scores, int first_key, bool masked) {
  scores = scores * (params.scale_log2 * key_head_scale());
  if (kFinishesScores) coopMatPerElementNV(scores, scores, finish, first_key, masked);
  if (masked) coopMatPerElementNV(scores, scores, hide, first_key);
}

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

// Turns scores into probabilities and raises the rows' references.
void update_softmax(inout ScoreMatrix scores, bool masked) {
  raise_references(scores);
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

#endif
