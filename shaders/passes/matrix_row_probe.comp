// Finds where a driver keeps the elements of accumulators of subgroup scope: of which row and column each component of each
// lane is. Matrices are loaded whose elements are their own numbers, row by row. Each subgroup of one workgroup does the same.
//
// Budget. Example: 4 subgroups of 32 lanes, 32 rows, 64 columns of scores and 16 of sums.
//   registers      of a lane: kScores + kSums = kRows * (kScoreColumns + kSumColumns) / kLanes = 64 + 16
//   shared memory  none
//   memory         4 * (kScores + kSums) bytes a lane are read, and as many are written; it multiplies nothing
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/matrix_forms.glsl"
#include "shared/row_probe_constants.h"

layout(local_size_x = 128, local_size_x_id = VKATTN_SPEC_PROBE_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_PROBE_LANES) const uint kLanes = 32;
layout(constant_id = VKATTN_SPEC_PROBE_ROWS) const uint kRows = 32;
layout(constant_id = VKATTN_SPEC_PROBE_SCORE_COLUMNS) const uint kScoreColumns = 32;
layout(constant_id = VKATTN_SPEC_PROBE_SUM_COLUMNS) const uint kSumColumns = 32;

const uint kScores = kRows * kScoreColumns / kLanes;
const uint kSums = kRows * kSumColumns / kLanes;
const uint kWords = VKATTN_PROBE_FIRST_NUMBER + kLanes * (kScores + kSums);  // of a subgroup

layout(std430, set = 0, binding = VKATTN_BINDING_PROBE_NUMBERS) readonly buffer Numbers { float numbers[]; };
layout(std430, set = 0, binding = VKATTN_BINDING_PROBE_FOUND) writeonly buffer Found { uint found[]; };

void main() {
  coopmat<float, gl_ScopeSubgroup, kRows, kScoreColumns, gl_MatrixUseAccumulator> scores;
  coopmat<float, gl_ScopeSubgroup, kRows, kSumColumns, gl_MatrixUseAccumulator> sums;
  coopMatLoad(scores, numbers, 0, kScoreColumns, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(sums, numbers, 0, kSumColumns, gl_CooperativeMatrixLayoutRowMajor);
  // Else the driver has not given the size of subgroups that was asked for. Components are then as many as it likes.
  if (gl_SubgroupInvocationID >= kLanes || gl_SubgroupID >= VKATTN_PROBE_SUBGROUPS) return;
  const uint own = gl_SubgroupID * kWords;
  const uint first = own + VKATTN_PROBE_FIRST_NUMBER + gl_SubgroupInvocationID * (kScores + kSums);
  [[unroll]] for (uint i = 0; i < kScores; ++i) {
    if (i < scores.length()) found[first + i] = uint(scores[i]);
  }
  [[unroll]] for (uint i = 0; i < kSums; ++i) {
    if (i < sums.length()) found[first + kScores + i] = uint(sums[i]);
  }
  if (gl_SubgroupInvocationID == 0u) {
    found[own + VKATTN_PROBE_SCORE_COMPONENTS] = uint(scores.length());
    found[own + VKATTN_PROBE_SUM_COMPONENTS] = uint(sums.length());
    found[own + VKATTN_PROBE_SUBGROUP_SIZE] = gl_SubgroupSize;
  }
}
