// Push constants of score_rows.comp. GLSL and C++ read this.
#ifndef VKATTN_SHARED_SCORE_ROWS_PARAMS_H
#define VKATTN_SHARED_SCORE_ROWS_PARAMS_H

#define VKATTN_SCORE_ROWS_WORKGROUP_SIZE 64

struct ScoreRowsParams {
  uint batch;
  uint head;
  uint query;
  uint first_key;
  uint count;  // keys
};

#endif
