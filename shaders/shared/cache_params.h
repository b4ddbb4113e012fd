// Push constants of cache_append.comp. GLSL and C++ read this.
#ifndef VKATTN_SHARED_CACHE_PARAMS_H
#define VKATTN_SHARED_CACHE_PARAMS_H

// Strides and offsets are relative to the bound range, in elements. For a target in a block format, strides are in blocks
// and the offset is in 16-bit words. A unit is the work of one invocation.
struct AppendParams {
  uint source_batch_stride;
  uint source_head_stride;
  uint source_row_stride;
  uint target_batch_stride;  // between pages, if there are pages
  uint target_head_stride;
  uint target_row_stride;
  uint source_offset;
  uint target_offset;
  uint positions_offset;
  uint new_lengths_offset;
  uint page_table_offset;
  uint scales_offset;
  uint frequencies_offset;
  uint heads;
  uint new_length;  // of the longest batch entry
  uint batch;       // with total_new_length, if new rows are packed
  uint total_new_length;
  int position;     // of all batch entries, without a buffer of positions
  uint capacity;    // key positions from here on do not exist
  uint page_table_stride;
  uint page_count;
  uint first_unit;  // of this dispatch
  uint unit_count;
};

#endif
