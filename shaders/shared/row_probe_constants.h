// Constants of the probe that finds where a lane keeps the rows of accumulators. GLSL and C++ read these plain macros.
#ifndef VKATTN_SHARED_ROW_PROBE_CONSTANTS_H
#define VKATTN_SHARED_ROW_PROBE_CONSTANTS_H

#define VKATTN_BINDING_PROBE_NUMBERS 0  // element i is i, as float32
#define VKATTN_BINDING_PROBE_FOUND 1
#define VKATTN_PROBE_BINDING_COUNT 2

#define VKATTN_SPEC_PROBE_LANES 0
#define VKATTN_SPEC_PROBE_ROWS 1
#define VKATTN_SPEC_PROBE_SCORE_COLUMNS 2
#define VKATTN_SPEC_PROBE_SUM_COLUMNS 3
#define VKATTN_SPEC_PROBE_WORKGROUP_SIZE 4  // all lanes of VKATTN_PROBE_SUBGROUPS subgroups

#define VKATTN_PROBE_SUBGROUPS 4  // a driver might keep elements in another way in each

// Words of what each subgroup finds: these, then for each lane the numbers of its components of scores, and those of its sums.
#define VKATTN_PROBE_SCORE_COMPONENTS 0  // of a lane
#define VKATTN_PROBE_SUM_COMPONENTS 1
#define VKATTN_PROBE_SUBGROUP_SIZE 2
#define VKATTN_PROBE_FIRST_NUMBER 3

#endif
