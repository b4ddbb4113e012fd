// Runs of kColumns neighbouring threads share keys and have kScores scores, of kRows rows by kKeys keys, each thread with a
// part of every sum. Where kDealsScores, the sums are dealt out, so that each is one thread's own, or that of as few as there
// are threads for a score; what follows from them is done once and then told to all. Else all of them are every thread's
// own. By subgroup shuffles, which need no barrier: a subgroup holds whole runs.
//   uint thread_index()          of the workgroup; runs of kColumns of them lie in one subgroup
//   uint column                  of this thread in its run
//   void sum_to_own()            adds `scores` over the run: the first kOwnScores are the thread's own then
//   uint own_row(), own_key()    of own score i * kOwnKeys + k
//   bool speaks_for_rows()       of one of the threads that share rows
//   float maximum_of_keys()      of a row's keys, from that of the thread's own
//   void sum_of_rows()           adds what threads have of their own rows, each of which counts once
//   float told_of_row()          what the row's owners have, in all threads of the run
//   void tell_scores()           all `scores`, from the own ones of all threads of the run
// For all threads of the workgroup together. In a fixed order, so that two runs give the same bits.
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
const uint kScoresPower = kDealsScores ? kScores & (~kScores + 1u) : 1;  // a power of two that divides them
// Threads with scores of their own; the others of the run repeat them. Score r * kKeys + u is that of thread
// (r * kKeys + u) % kOwners.
const uint kOwners = kScoresPower < kColumns ? kScoresPower : kColumns;
const uint kKeyOwners = kKeys < kOwners ? kKeys : kOwners;  // of one row
const uint kRowOwners = kOwners / kKeyOwners;
const uint kOwnKeys = kKeys / kKeyOwners;
const uint kOwnRows = kRows / kRowOwners;
const uint kOwnScores = kOwnRows * kOwnKeys;

float scores[kScores];  // not passed: GLSL hands arrays on by copying them

uint thread_index() { return gl_SubgroupID * kSubgroupSize + gl_SubgroupInvocationID; }

// Of this thread in its run; the subgroup's invocation with the run's first one.
uint column = gl_SubgroupInvocationID % kColumns;
uint run_first = gl_SubgroupInvocationID - column;

uint own_row(uint i) { return i * kRowOwners + column % kOwners / kKeyOwners; }
uint own_key(uint k) { return k * kKeyOwners + column % kKeyOwners; }

// That of the threads which own scores of its rows it is this one that writes what they know.
bool speaks_for_rows() { return column < kOwners && column % kKeyOwners == 0u; }

// Of each two neighbouring scores a thread keeps one and gives the other to the thread that keeps it.
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
  if (lanes >= kKeyOwners && lanes < kOwners) return;  // other rows
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
