// A unit of work: a block of rows and columns of one product, for one part of the inner dimension.
//
// Units that run at once read the same lines of a and b if they lie in the same rows or columns of blocks, and then a cache
// serves all but the first. Example: a GPU runs 264 blocks of 128 x 128 at once, of two float16 matrices of 4096 x 4096, or of
// 8192 x 8192. Rows and columns of blocks that are read at once, and what all blocks together read beyond a cache that holds no
// more than these:
//   row by row            8.3 + 32   156 MiB     4.1 + 64   2114 MiB
//   in groups of 16 rows  16 + 16.5  126 MiB     16 + 16.5  1008 MiB
#ifndef VKATTN_MATMUL_BLOCKS
#define VKATTN_MATMUL_BLOCKS

#include "matmul/specialization.glsl"

const uint kGroupRows = 16;  // of blocks, see block_of()

struct Block {
  uint part, batch;
  uint first_row, first_column;
  uint inner_begin, inner_end;
};

// Units are numbered in groups of `group_rows` rows of blocks, down the group's first column of blocks, then down the next. So
// the units that run at once cover about a square of the output, and read few different lines of a and b. The last dispatch may
// have workgroups without a unit; the caller asks `has_unit` first.
Block block_of(uint unit, uint block_rows, uint block_columns, uint group_rows) {
  const uint row_blocks = (params.rows + block_rows - 1u) / block_rows;
  const uint column_blocks = (params.columns + block_columns - 1u) / block_columns;
  const uint product = unit / (row_blocks * column_blocks);
  const uint in_product = unit - product * (row_blocks * column_blocks);
  const uint group = group_rows == 1u ? 1u : min(group_rows, row_blocks);  // rows of blocks
  const uint first = in_product / (group * column_blocks) * group;
  const uint rows = group_rows == 1u ? 1u : min(group, row_blocks - first);  // the last group may be smaller
  const uint in_group = in_product - first * column_blocks;
  Block block;
  block.first_row = (first + in_group % rows) * block_rows;
  block.first_column = in_group / rows * block_columns;
  block.batch = product % params.batch;
  block.part = product / params.batch;
  block.inner_begin = block.part * params.part_inner;
  block.inner_end = min(block.inner_begin + params.part_inner, params.inner);
  return block;
}

#endif
