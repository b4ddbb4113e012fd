// Sums over columns: runs of kColumns neighbouring threads that share a key. By subgroup shuffles, which need no
// barrier: a subgroup holds whole runs.
//   uint thread_index()       of the workgroup; runs of kColumns of them lie in one subgroup
//   void sum_over_columns()   replaces `scores` by their sums, in each thread of the run
// For all threads of the workgroup together. In a fixed order, so that two runs give the same bits.
#ifndef VKATTN_DECODE_COLUMN_SUMS
#define VKATTN_DECODE_COLUMN_SUMS

#include "lib/specialization.glsl"

#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kThreads = 128;
layout(constant_id = VKATTN_SPEC_DECODE_COLUMNS) const uint kColumns = 4;
layout(constant_id = VKATTN_SPEC_DECODE_ROWS) const uint kRows = 1;  // of a thread
layout(constant_id = VKATTN_SPEC_DECODE_KEYS) const uint kKeys = 1;
layout(constant_id = VKATTN_SPEC_DECODE_SUBGROUP_SIZE) const uint kSubgroupSize = 4;

const uint kScores = kRows * kKeys;

float scores[kScores];

uint thread_index() { return gl_SubgroupID * kSubgroupSize + gl_SubgroupInvocationID; }

void sum_over_columns() {
  [[unroll]] for (uint lanes = 1; lanes < kColumns; lanes *= 2) {
    [[unroll]] for (uint i = 0; i < kScores; ++i) scores[i] += subgroupShuffleXor(scores[i], lanes);
  }
}

#endif
