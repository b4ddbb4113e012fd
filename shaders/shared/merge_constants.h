// Constants that attention_merge.comp and the host share. GLSL and C++ read these plain macros.
#ifndef VKATTN_SHARED_MERGE_CONSTANTS_H
#define VKATTN_SHARED_MERGE_CONSTANTS_H

// Bindings of set 0.
#define VKATTN_MERGE_BINDING_PARTS 0
#define VKATTN_MERGE_BINDING_PART_LSE 1
#define VKATTN_MERGE_BINDING_OUTPUT 2
#define VKATTN_MERGE_BINDING_LSE 3
#define VKATTN_MERGE_BINDING_COUNT 4

// Specialization constants.
#define VKATTN_MERGE_SPEC_WORKGROUP_SIZE 0
#define VKATTN_MERGE_SPEC_PART_TYPE 1    // storage types are in attention_constants.h
#define VKATTN_MERGE_SPEC_OUTPUT_TYPE 2
#define VKATTN_MERGE_SPEC_WRITES_LSE 3   // true: writes the lse; false: the outputs

#endif
