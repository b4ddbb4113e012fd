// Push constants of matrix multiplication: everything that varies without a new pipeline. GLSL and C++ read this.
#ifndef VKATTN_SHARED_MATMUL_PARAMS_H
#define VKATTN_SHARED_MATMUL_PARAMS_H

// Strides are in elements. Offsets are relative to the bound range, in elements; for block formats in 16-bit words.
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
  uint first_unit;  // of this dispatch: a block of the output for one part, an element of it, or 4 x 4 of a copy
  uint unit_count;
};

#endif
