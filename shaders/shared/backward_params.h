// What the backward pass needs beyond AttentionParams and FeatureParams. It lies behind FeatureParams in their buffer. GLSL
// and C++ read this.
#ifndef VKATTN_SHARED_BACKWARD_PARAMS_H
#define VKATTN_SHARED_BACKWARD_PARAMS_H

// Strides and offsets are as in AttentionParams. Keys are taken in kv_splits chunks of AttentionParams.split_keys keys each;
// the units of a pass are numbered through all chunks.
struct BackwardParams {
  uint grad_output_batch_stride;
  uint grad_output_head_stride;
  uint grad_output_row_stride;
  uint grad_output_offset;
  uint grad_lse_offset;  // its strides are those of the lse
  uint grad_query_batch_stride;
  uint grad_query_head_stride;
  uint grad_query_row_stride;
  uint grad_query_offset;
  uint grad_key_batch_stride;
  uint grad_key_head_stride;
  uint grad_key_row_stride;
  uint grad_key_offset;
  uint grad_value_batch_stride;
  uint grad_value_head_stride;
  uint grad_value_row_stride;
  uint grad_value_offset;
  uint grad_mask_batch_stride;
  uint grad_mask_head_stride;
  uint grad_mask_row_stride;
  uint grad_mask_key_stride;
  uint grad_mask_offset;
  uint grad_slopes_offset;
  uint grad_sinks_offset;
  // The scale is the product of these parts: see src/backward/scale_parts.hpp.
  float pair_scale;     // multiplies the gradient of each pair
  float operand_scale;  // multiplies the row of Q or K that this gradient multiplies
  float sum_scale;      // multiplies the sum of these products
  uint batch;
  uint kv_heads;
  uint pair_rows;      // rows of a chunk's pairs
  // Places in the sums of the workspace.
  uint delta_sums;     // of each row, if sinks have a gradient or later chunks read them
  uint slope_sums;     // of each row
  uint query_sums;     // of the rows' gradients
  uint key_sums;       // of a chunk's keys
  uint value_sums;
  uint mask_sums;
};

#endif
