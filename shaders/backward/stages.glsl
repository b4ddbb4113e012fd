// The grid of threads and the stages in shared memory of the tile forms of the backward pass.
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
layout(constant_id = VKATTN_SPEC_STEP_VISITED) const uint kVisited = 2;  // and those of a block that it visits

const uint kChunkDims = kColumns * 4;  // of a gradient: a thread has 4 of them
const uint kStageDims = VKATTN_BACKWARD_STAGE_DIMS;
const uint kStageQuads = kStageDims / 4;
// Of rows in shared memory, in quads: of dims of a product, of dims of a gradient, of pairs; in words, of parts of a sum.
const uint kStageStride4 = kStageQuads + 1;
const uint kChunkStride4 = kColumns + 1;
const uint kPairStride4 = kColumns * kVisited / 4 + 1;
const uint kPartStride = kColumns + 1;

#endif
