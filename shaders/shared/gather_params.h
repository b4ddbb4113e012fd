// Push constants of attention_gather.comp. GLSL and C++ read this.
#ifndef VKATTN_SHARED_GATHER_PARAMS_H
#define VKATTN_SHARED_GATHER_PARAMS_H

// A unit is the work of one invocation: a word.
struct GatherParams {
  uint source_offset;  // bytes from the beginning of the bound range to the source
  uint source_bytes;
  uint target_word;  // that the first word of the bound range goes to
  uint first_unit;   // of this dispatch
  uint unit_count;
};

#endif
