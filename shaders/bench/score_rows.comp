// Runs a user's score function on the scores of one row, to compare kernels with the reference, which cannot run GLSL.
// scores[i] becomes the score of key first_key + i, or minus infinity if the key is hidden.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/online_softmax.glsl"
#include "shared/score_rows_params.h"

// A kernel's window begins here; positions in this shader are those of the whole problem.
struct WindowStart {
  uint first_batch;
  uint first_head;
  uint first_row;
};
const WindowStart features = WindowStart(0u, 0u, 0u);

#include "lib/score_function.glsl"

layout(local_size_x = VKATTN_SCORE_ROWS_WORKGROUP_SIZE) in;
layout(push_constant, std430) uniform PushConstants { ScoreRowsParams params; };
layout(set = 0, binding = 0, std430) buffer Scores { uint scores[]; };

void main() {
  const uint index = gl_GlobalInvocationID.x;
  if (index >= params.count) return;
  const uint key = params.first_key + index;
  const float score =
      user_score(kLog2E * uintBitsToFloat(scores[index]), params.batch, params.head, params.query, key);
  const bool hidden = !user_visible(params.batch, params.head, params.query, key) || score == kHiddenScore;
  scores[index] = hidden ? 0xff800000u : floatBitsToUint(score / kLog2E);
}
