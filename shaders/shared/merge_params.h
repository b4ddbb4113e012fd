// Push constants of attention_merge.comp. GLSL and C++ read this.
#ifndef VKATTN_SHARED_MERGE_PARAMS_H
#define VKATTN_SHARED_MERGE_PARAMS_H

// Offsets are relative to the bound range, in elements. A unit is the work of one invocation: a word of outputs, or a lse.
struct MergeParams {
  uint parts_offset;
  uint part_lse_offset;
  uint output_offset;
  uint lse_offset;
  uint parts;
  uint rows;  // of a part
  uint value_dim;
  uint first_unit;  // of this dispatch
  uint unit_count;
};

#endif
