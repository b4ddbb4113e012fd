// Sums over columns: runs of kColumns neighbouring threads that share a key. By subgroup shuffles, which need no
// barrier, where a subgroup is known to hold whole runs; else through shared memory.
//   uint thread_index()       of the workgroup; runs of kColumns of them lie in one subgroup
//   void sum_over_columns()   replaces `scores` by their sums, in each thread of the run
// For all threads of the workgroup together. In a fixed order, so that two runs give the same bits.
#ifndef VKATTN_DECODE_COLUMN_SUMS
#define VKATTN_DECODE_COLUMN_SUMS

#include "lib/specialization.glsl"

#ifndef VKATTN_SUBGROUP_SHUFFLES
#define VKATTN_SUBGROUP_SHUFFLES 1
#endif
#if VKATTN_SUBGROUP_SHUFFLES
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kThreads = 128;
layout(constant_id = VKATTN_SPEC_DECODE_COLUMNS) const uint kColumns = 4;
layout(constant_id = VKATTN_SPEC_DECODE_ROWS) const uint kRows = 1;  // of a thread
layout(constant_id = VKATTN_SPEC_DECODE_KEYS) const uint kKeys = 1;
layout(constant_id = VKATTN_SPEC_DECODE_SUBGROUP_SIZE) const uint kSubgroupSize = 4;

const uint kScores = kRows * kKeys;

float scores[kScores];

#if VKATTN_SUBGROUP_SHUFFLES

uint thread_index() { return gl_SubgroupID * kSubgroupSize + gl_SubgroupInvocationID; }

void sum_over_columns() {
  [[unroll]] for (uint lanes = 1; lanes < kColumns; lanes *= 2) {
    [[unroll]] for (uint i = 0; i < kScores; ++i) scores[i] += subgroupShuffleXor(scores[i], lanes);
  }
}

#else

// One more thread than there is, so that the sums of a run fall into different banks.
const uint kScoreStride = kThreads + 1;
shared float score_stage[kColumns > 1 ? kScores * kScoreStride : 1];
shared float sum_stage[kColumns > 1 ? kScores * kThreads / kColumns : 1];

uint thread_index() { return gl_LocalInvocationIndex; }

// The threads of a run share out its sums.
void sum_over_columns() {
  if (kColumns == 1) return;
  const uint thread = thread_index();
  const uint column = thread % kColumns;
  const uint run = thread / kColumns;
  [[unroll]] for (uint i = 0; i < kScores; ++i) score_stage[i * kScoreStride + thread] = scores[i];
  barrier();  // score_stage is complete; sum_stage was read by all
  for (uint i = column; i < kScores; i += kColumns) {
    float sum = 0.0;
    for (uint c = 0; c < kColumns; ++c) sum += score_stage[i * kScoreStride + run * kColumns + c];
    sum_stage[run * kScores + i] = sum;
  }
  barrier();  // sum_stage is complete; score_stage was read by all
  [[unroll]] for (uint i = 0; i < kScores; ++i) scores[i] = sum_stage[run * kScores + i];
}

#endif

#endif
