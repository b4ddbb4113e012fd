// A run is kColumns neighbouring threads of one subgroup that share keys. It has kScores scores, of kRows rows by kKeys
// keys, and each thread has a part of every sum. With kDealsScores the sums are dealt out: each becomes the own score of
// one thread, or of as few threads as the numbers allow; they compute what follows from it once and tell all threads.
// Otherwise every thread owns all sums. Threads exchange by subgroup shuffles, which need no barrier.
//   uint thread_index()          the thread's number in the workgroup
//   uint column                  the thread's number in its run
//   void sum_to_own()            adds `scores` over the run; afterwards the first kOwnScores are the thread's own
//   uint own_row(), own_key()    row and key of own score i * kOwnKeys + k
//   bool speaks_for_rows()       true in one of the threads that share rows
//   float maximum_of_keys()      the maximum over a row's keys, from the maximum over the thread's own keys
//   void sum_of_rows()           adds the threads' numbers of their own rows, each number once
//   float told_of_row()          the number that the row's owners have, in all threads of the run
//   void tell_scores()           all `scores`, from the own scores of all threads of the run
// All threads of the workgroup call these together. The order of sums is fixed, so that two runs give the same bits.
#ifndef VKATTN_DECODE_OWN_SCORES
#define VKATTN_DECODE_OWN_SCORES

#include "lib/specialization.glsl"
#include "lib/unrolled.glsl"

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kThreads = 128;
layout(constant_id = VKATTN_SPEC_DECODE_COLUMNS) const uint kColumns = 4;
layout(constant_id = VKATTN_SPEC_DECODE_ROWS) const uint kRows = 1;  // of a thread
layout(constant_id = VKATTN_SPEC_DECODE_KEYS) const uint kKeys = 1;
layout(constant_id = VKATTN_SPEC_DECODE_SUBGROUP_SIZE) const uint kSubgroupSize = 4;
layout(constant_id = VKATTN_SPEC_DECODE_DEALS_SCORES) const bool kDealsScores = false;

const uint kScores = kRows * kKeys;
const uint kScoresPower = kDealsScores ? kScores & (~kScores + 1u) : 1;  // a power of two that divides kScores
// Threads with scores of their own; the other threads of the run repeat them. Thread (r * kKeys + u) % kOwners owns score
// r * kKeys + u.
const uint kOwners = kScoresPower < kColumns ? kScoresPower : kColumns;
const uint kKeyOwners = kKeys < kOwners ? kKeys : kOwners;  // owners of one row's keys
const uint kRowOwners = kOwners / kKeyOwners;
const uint kOwnKeys = kKeys / kKeyOwners;
const uint kOwnRows = kRows / kRowOwners;
const uint kOwnScores = kOwnRows * kOwnKeys;

float scores[kScores];  // a global, as GLSL passes arrays by copying them

uint thread_index() { return gl_SubgroupID * kSubgroupSize + gl_SubgroupInvocationID; }

// The thread's number in its run, and the run's first invocation in the subgroup.
uint column = gl_SubgroupInvocationID % kColumns;
uint run_first = gl_SubgroupInvocationID - column;

uint own_row(uint i) { return i * kRowOwners + column % kOwners / kKeyOwners; }
uint own_key(uint k) { return k * kKeyOwners + column % kKeyOwners; }

// Several threads own scores of the same rows. One of them writes the rows' numbers: is it this thread?
bool speaks_for_rows() { return column < kOwners && column % kKeyOwners == 0u; }

// Of each two neighbouring scores a thread keeps one and gives the other to the thread that keeps that one.
void exchange_halves(uint lanes) {
  if (lanes >= kOwners) return;
  const bool keeps_odd = (column & lanes) != 0u;
  [[unroll]] for (uint i = 0; i < kScores / (lanes * 2); ++i) {
    const float even = scores[i * 2];
    const float odd = scores[i * 2 + 1];
    scores[i] = (keeps_odd ? odd : even) + subgroupShuffleXor(keeps_odd ? even : odd, lanes);
  }
}

void sum_own_of_pairs(uint lanes) {
  [[unroll]] for (uint i = 0; i < kOwnScores; ++i) scores[i] += subgroupShuffleXor(scores[i], lanes);
}

void sum_to_own() {
  exchange_halves(1u);
  exchange_halves(2u);
  exchange_halves(4u);
  exchange_halves(8u);
  exchange_halves(16u);
  VKATTN_LANE_STEPS(kOwners, kColumns, sum_own_of_pairs)
}

float maximum_of_keys(float maximum) {
#define VKATTN_MAXIMUM_OF_PAIRS(LANES) maximum = max(maximum, subgroupShuffleXor(maximum, LANES))
  VKATTN_LANE_STEPS(1u, kKeyOwners, VKATTN_MAXIMUM_OF_PAIRS)
  return maximum;
}

void sum_of_pairs(inout float sums[kOwnRows], uint lanes) {
  if (lanes >= kKeyOwners && lanes < kOwners) return;  // these threads have other rows
  [[unroll]] for (uint r = 0; r < kOwnRows; ++r) sums[r] += subgroupShuffleXor(sums[r], lanes);
}

void sum_of_rows(inout float sums[kOwnRows]) {
#define VKATTN_SUM_OF_PAIRS(LANES) sum_of_pairs(sums, LANES)
  VKATTN_LANE_STEPS(1u, kColumns, VKATTN_SUM_OF_PAIRS)
}

float told_of_row(float own[kOwnRows], uint r) {
  return subgroupShuffle(own[r / kRowOwners], run_first + r % kRowOwners * kKeyOwners);
}

void tell_scores() {
  if (kOwners == 1) return;
  float own[kOwnScores];
  [[unroll]] for (uint i = 0; i < kOwnScores; ++i) own[i] = scores[i];
  [[unroll]] for (uint i = 0; i < kScores; ++i) {
    scores[i] = subgroupShuffle(own[i / kOwners], run_first + i % kOwners);
  }
}

#endif
