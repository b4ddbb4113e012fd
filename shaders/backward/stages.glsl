// The grid of threads and the stages in shared memory, for the tile forms of the backward pass.
#ifndef VKATTN_BACKWARD_STAGES
#define VKATTN_BACKWARD_STAGES

#include "lib/forms.glsl"
#include "shared/attention_constants.h"
#include "shared/backward_constants.h"
#include "shared/shared_memory.h"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kThreads = 128;
layout(constant_id = VKATTN_SPEC_TILE_COLUMNS) const uint kColumns = 16;
layout(constant_id = VKATTN_SPEC_STEP_OWNED) const uint kOwned = 4;      // rows or keys that a thread owns
layout(constant_id = VKATTN_SPEC_STEP_VISITED) const uint kVisited = 2;  // rows or keys of a block that it visits

const uint kChunkDims = kColumns * 4;  // dims of a gradient that the columns have together, 4 each
const uint kStageDims = VKATTN_BACKWARD_STAGE_DIMS;
const uint kStageQuads = kStageDims / 4;
// Strides of rows in shared memory, in quads: dims of a product, dims of a gradient, pairs. In words: parts of a sum.
const uint kStageStride4 = kStageQuads + 1;
const uint kChunkStride4 = kColumns + 1;
const uint kPairStride4 = kColumns * kVisited / 4 + 1;
const uint kPartStride = kColumns + 1;

#endif
