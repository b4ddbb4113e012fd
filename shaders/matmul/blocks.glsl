// A unit of work: a block of rows and columns of one product, for one part of the inner dimension.
#ifndef VKATTN_MATMUL_BLOCKS
#define VKATTN_MATMUL_BLOCKS

#include "matmul/specialization.glsl"

struct Block {
  uint part, batch;
  uint first_row, first_column;
  uint inner_begin, inner_end;
};

// Units are numbered along columns first, so that neighbours share rows of a. The last dispatch may have workgroups without a
// unit; the caller asks `has_unit` first.
Block block_of(uint unit, uint block_rows, uint block_columns) {
  const uint row_blocks = (params.rows + block_rows - 1u) / block_rows;
  const uint column_blocks = (params.columns + block_columns - 1u) / block_columns;
  Block block;
  block.first_column = unit % column_blocks * block_columns;
  const uint row_unit = unit / column_blocks;
  block.first_row = row_unit % row_blocks * block_rows;
  const uint product = row_unit / row_blocks;
  block.batch = product % params.batch;
  block.part = product / params.batch;
  block.inner_begin = block.part * params.part_inner;
  block.inner_end = min(block.inner_begin + params.part_inner, params.inner);
  return block;
}

#endif
