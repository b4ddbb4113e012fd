// The tile kernel's grid of threads, and reductions over the threads of a row: kColumns neighbours of the grid. The
// _subgroup forms (VKATTN_SUBGROUPS) put them into one subgroup and exchange by shuffles, the others through shared
// memory.
#ifndef VKATTN_TILE_ROWS
#define VKATTN_TILE_ROWS

#include "lib/specialization.glsl"
#include "lib/unrolled.glsl"
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

// A number of each of this thread's rows: the thread's part before maximum_of_columns() or sum_of_columns(), the whole
// row's after.
float row_value[kRows];

#if VKATTN_SUBGROUPS
// Subgroups are full and hold whole rows of the grid. The order of gl_LocalInvocationIndex in a subgroup is not promised.
uint grid_index() { return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID; }

void maximum_of_pairs(uint mask) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    row_value[r] = max(row_value[r], subgroupShuffleXor(row_value[r], mask));
  }
}

void sum_of_pairs(uint mask) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) row_value[r] += subgroupShuffleXor(row_value[r], mask);
}

// After it a row's threads may write the parts of shared memory that they read before.
void maximum_of_columns(uint block_row, uint column) {
  subgroupBarrier();
  VKATTN_LANE_STEPS(1u, kColumns, maximum_of_pairs)
}

void sum_of_columns(uint block_row, uint column) { VKATTN_LANE_STEPS(1u, kColumns, sum_of_pairs) }
#else
shared float reduce_stage[VKATTN_TILE_REDUCE_STAGE(kBlockRows, kColumns)];

uint grid_index() { return gl_LocalInvocationIndex; }

void stage_row_values(uint block_row, uint column) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) reduce_stage[(block_row + r) * (kColumns + 1) + column] = row_value[r];
  barrier();  // reduce_stage is complete
}

void maximum_of_row(uint block_row, uint r) {
  float maximum = row_value[r];
  for (uint c = 0; c < kColumns; ++c) maximum = max(maximum, reduce_stage[(block_row + r) * (kColumns + 1) + c]);
  row_value[r] = maximum;
}

void sum_of_row(uint block_row, uint r) {
  float sum = 0.0;
  for (uint c = 0; c < kColumns; ++c) sum += reduce_stage[(block_row + r) * (kColumns + 1) + c];
  row_value[r] = sum;
}

// After it a row's threads may write the parts of shared memory that they read before. Two calls need a barrier between
// them.
void maximum_of_columns(uint block_row, uint column) {
  stage_row_values(block_row, column);
#define VKATTN_MAXIMUM_OF_ROW(R) maximum_of_row(block_row, R)
  VKATTN_STEPS(kRows, VKATTN_MAXIMUM_OF_ROW)
}

void sum_of_columns(uint block_row, uint column) {
  barrier();  // reduce_stage is still read
  stage_row_values(block_row, column);
#define VKATTN_SUM_OF_ROW(R) sum_of_row(block_row, R)
  VKATTN_STEPS(kRows, VKATTN_SUM_OF_ROW)
}
#endif

#endif
