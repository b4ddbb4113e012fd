// Push constants of matrix multiplication: read by GLSL and by C++. Everything that varies without a new pipeline.
#ifndef VKATTN_SHARED_MATMUL_PARAMS_H
#define VKATTN_SHARED_MATMUL_PARAMS_H

// Strides are in elements; offsets too, relative to the bound range, but of block formats in 16-bit words.
struct MatmulParams {
  uint a_offset;
  uint b_offset;
  uint bias_offset;
  uint output_offset;
  uint a_batch_stride;
  uint a_outer_stride;
  uint a_inner_stride;
  uint b_batch_stride;
  uint b_outer_stride;
  uint b_inner_stride;
  uint output_batch_stride;
  uint output_row_stride;
  uint output_column_stride;
  uint bias_row_stride;  // one of the two is 1, the other 0
  uint bias_column_stride;
  uint batch;
  uint rows;
  uint columns;
  uint inner;
  uint parts;       // of the inner dimension
  uint part_inner;  // elements of a part
  uint first_unit;  // of this dispatch: a block of rows and columns of one part, an element of the output, or 4 x 4 of a copy
  uint unit_count;
};

#endif
