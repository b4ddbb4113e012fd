// Push constants of the attention kernels: everything that varies without a new pipeline. GLSL and C++ read this.
#ifndef VKATTN_SHARED_ATTENTION_PARAMS_H
#define VKATTN_SHARED_ATTENTION_PARAMS_H

// Strides and offsets are in elements, relative to the bound range. A dispatch works on a window of the problem: its heads,
// batch entries and rows count from 0 within the bound ranges. Keys count from 0 in the whole problem: if a window has a
// part of the keys, key_offset and value_offset are lower by what lies before that part (modulo 2^32).
struct AttentionParams {
  uint query_batch_stride;
  uint query_head_stride;
  uint query_row_stride;
  uint key_batch_stride;
  uint key_head_stride;
  uint key_row_stride;
  uint value_batch_stride;
  uint value_head_stride;
  uint value_row_stride;
  uint output_batch_stride;
  uint output_head_stride;
  uint output_row_stride;
  uint lse_batch_stride;
  uint lse_head_stride;
  uint lse_row_stride;
  uint query_offset;
  uint key_offset;
  uint value_offset;
  uint output_offset;
  uint lse_offset;
  uint kv_lengths_offset;
  uint query_length;   // rows of the window
  uint kv_length;      // of the problem, even if the window has a part of the keys; kv_lengths may shorten it
  uint query_heads;    // of the window
  uint heads_per_kv;   // query heads that share one KV head
  int causal_offset;   // see VKATTN_CAUSAL_*
  float scale_log2;    // scale * log2(e): scores are kept in log2 units
  uint kv_splits;      // parts that the keys are cut into
  uint window_parts;   // parts of this window: the first in the low 16 bits, their number in the high 16
  uint split_keys;     // keys of one part
  uint first_tile;     // of this dispatch, among the tiles of the window (rows for passes that go by rows)
  uint tile_count;
};

#endif
