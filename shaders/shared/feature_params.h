// Parameters of features, for which push constants have no room. A buffer holds one structure for each window of the
// problem. GLSL and C++ read this.
#ifndef VKATTN_SHARED_FEATURE_PARAMS_H
#define VKATTN_SHARED_FEATURE_PARAMS_H

// Strides and offsets are as in AttentionParams: in elements, relative to the bound range. For masks of bits they are in
// words.
struct FeatureParams {
  uint mask_batch_stride;
  uint mask_head_stride;
  uint mask_row_stride;
  uint mask_key_stride;
  uint mask_offset;
  uint mask_heads;  // of the whole mask
  uint weights_batch_stride;
  uint weights_head_stride;
  uint weights_row_stride;
  uint weights_key_stride;
  uint weights_offset;
  uint query_lengths_offset;
  uint page_table_offset;
  uint page_table_stride;
  uint page_count;
  uint slopes_offset;
  uint sinks_offset;
  uint key_scales_offset;
  uint value_scales_offset;
  int left_offset;      // a row sees no key before row + left_offset, plus the key length where the end is aligned
  int position_offset;  // the key position of query 0, aligned in the same way
  uint problem_query_length;  // of the whole problem, as are the next three
  uint total_query_length;    // rows of packed tensors
  uint total_kv_length;
  uint problem_heads;
  uint first_batch;  // of the window
  uint first_head;
  uint first_row;
  float softcap_log2;          // softcap * log2(e)
  float softcap_log2_inverse;  // 1 / that
  uint dropout_threshold;      // a key whose random word is below is dropped
  float dropout_scale;         // 1 / (1 - dropout)
  uint dropout_seed_low;
  uint dropout_seed_high;
  uint dropout_offset;
  uint block_batch_stride;  // of the block mask: 0 if blocks do not depend on the batch entry
  uint block_head_stride;
  uint block_row_stride;  // blocks along the keys
  uint block_rows;        // blocks along the rows of one head
  uint block_heads;       // heads that have blocks of their own
  uint block_count;
};

#endif
