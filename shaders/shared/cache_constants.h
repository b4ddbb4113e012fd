// Constants that cache_append.comp and the host share. GLSL and C++ read these plain macros. Storage types are in
// attention_constants.h.
#ifndef VKATTN_SHARED_CACHE_CONSTANTS_H
#define VKATTN_SHARED_CACHE_CONSTANTS_H

// Bindings of set 0.
#define VKATTN_APPEND_BINDING_SOURCE 0  // the new rows
#define VKATTN_APPEND_BINDING_TARGET 1  // a cache, the rotated queries, or kv_lengths
#define VKATTN_APPEND_BINDING_POSITIONS 2
#define VKATTN_APPEND_BINDING_NEW_LENGTHS 3  // cumulative if new rows are packed
#define VKATTN_APPEND_BINDING_PAGE_TABLE 4
#define VKATTN_APPEND_BINDING_SCALES 5
#define VKATTN_APPEND_BINDING_FREQUENCIES 6
#define VKATTN_APPEND_BINDING_COUNT 7

// What a dispatch does.
#define VKATTN_APPEND_ROWS 0     // converts rows of one tensor
#define VKATTN_APPEND_LENGTHS 1  // writes kv_lengths

// Where a row is stored.
#define VKATTN_APPEND_CONTIGUOUS 0
#define VKATTN_APPEND_RING 1
#define VKATTN_APPEND_PAGED 2
#define VKATTN_APPEND_SAME_ROW 3  // no cache: in the row of the same number

// Styles of rotary embedding.
#define VKATTN_ROTARY_NONE 0
#define VKATTN_ROTARY_INTERLEAVED 1
#define VKATTN_ROTARY_HALF_SPLIT 2

// Bits of a pair's number, which is below 576 / 2.
#define VKATTN_ROTARY_RATIOS 9

// Specialization constants.
#define VKATTN_APPEND_SPEC_WORKGROUP_SIZE 0
#define VKATTN_APPEND_SPEC_TASK 1
#define VKATTN_APPEND_SPEC_DIMS 2
#define VKATTN_APPEND_SPEC_SOURCE_TYPE 3
#define VKATTN_APPEND_SPEC_TARGET_TYPE 4
#define VKATTN_APPEND_SPEC_SOURCE_DIM_STRIDE 5
#define VKATTN_APPEND_SPEC_TARGET_DIM_STRIDE 6
#define VKATTN_APPEND_SPEC_SOURCE_QUADS 7  // a unit's four dims are dense and start at a multiple of 4 elements
#define VKATTN_APPEND_SPEC_TARGET_QUADS 8
#define VKATTN_APPEND_SPEC_MAPPING 9
#define VKATTN_APPEND_SPEC_MAPPED_ROWS 10  // rows of a ring, or of a page
#define VKATTN_APPEND_SPEC_HAS_POSITIONS 11
#define VKATTN_APPEND_SPEC_HAS_NEW_LENGTHS 12
#define VKATTN_APPEND_SPEC_PACKED_ROWS 13  // lengths are cumulative; the new rows are one batch entry
#define VKATTN_APPEND_SPEC_ROTARY_STYLE 14
#define VKATTN_APPEND_SPEC_ROTARY_DIMS 15
#define VKATTN_APPEND_SPEC_ROTARY_MAGNITUDE 16
#define VKATTN_APPEND_SPEC_HAS_FREQUENCIES 17
#define VKATTN_APPEND_SPEC_FIRST_FREQUENCY 18  // of pair 0, 64-bit: the high word, then the low one
// Ratios of the frequencies of pairs that are 2^k apart, for k from 0, 64-bit in the same way.
#define VKATTN_APPEND_SPEC_RATIOS 20
#define VKATTN_APPEND_SPEC_ROTARY_INVERSE 38  // behind the words of all ratios

#endif
