// The tile kernel's grid of threads, and what the threads of a row do together. They are kColumns neighbours of the
// grid. The _subgroup forms (VKATTN_SUBGROUPS) put them into one subgroup and exchange by shuffles, the others through
// shared memory.
#ifndef VKATTN_TILE_ROWS
#define VKATTN_TILE_ROWS

#include "lib/specialization.glsl"
#include "shared/shared_memory.h"

#ifndef VKATTN_SUBGROUPS
#define VKATTN_SUBGROUPS 0
#endif
#if VKATTN_SUBGROUPS
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kThreads = 128;
layout(constant_id = VKATTN_SPEC_TILE_COLUMNS) const uint kColumns = 16;
layout(constant_id = VKATTN_SPEC_TILE_ROWS) const uint kRows = 4;
const uint kBlockRows = kThreads / kColumns * kRows;

// Of each of this thread's rows: its own part before maximum_of_columns() or sum_of_columns(), the whole row's after.
float row_value[kRows];

#if VKATTN_SUBGROUPS
// Subgroups are full and hold whole rows of the grid. Nothing ties gl_LocalInvocationIndex to them.
uint grid_index() { return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID; }

// What a row's threads read of its shared memory before, they may write after.
void maximum_of_columns(uint block_row, uint column) {
  subgroupBarrier();
  [[unroll]] for (uint mask = 1; mask < kColumns; mask *= 2) {
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      row_value[r] = max(row_value[r], subgroupShuffleXor(row_value[r], mask));
    }
  }
}

void sum_of_columns(uint block_row, uint column) {
  [[unroll]] for (uint mask = 1; mask < kColumns; mask *= 2) {
    [[unroll]] for (uint r = 0; r < kRows; ++r) row_value[r] += subgroupShuffleXor(row_value[r], mask);
  }
}
#else
shared float reduce_stage[VKATTN_TILE_REDUCE_STAGE(kBlockRows, kColumns)];

uint grid_index() { return gl_LocalInvocationIndex; }

void stage_row_values(uint block_row, uint column) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) reduce_stage[(block_row + r) * (kColumns + 1) + column] = row_value[r];
  barrier();  // reduce_stage is complete
}

// What a row's threads read of its shared memory before, they may write after. Between two calls there must be a
// barrier.
void maximum_of_columns(uint block_row, uint column) {
  stage_row_values(block_row, column);
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    for (uint c = 0; c < kColumns; ++c) {
      row_value[r] = max(row_value[r], reduce_stage[(block_row + r) * (kColumns + 1) + c]);
    }
  }
}

void sum_of_columns(uint block_row, uint column) {
  barrier();  // reduce_stage is still read
  stage_row_values(block_row, column);
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    row_value[r] = 0.0;
    for (uint c = 0; c < kColumns; ++c) row_value[r] += reduce_stage[(block_row + r) * (kColumns + 1) + c];
  }
}
#endif

#endif
