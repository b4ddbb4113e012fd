// A workgroup's tile of rows, the vectors in which its threads read keys and values, and its shared memory.
//   uint packed_row(TilePosition tile, uint row)
#ifndef VKATTN_DECODE_TILE
#define VKATTN_DECODE_TILE

#include "decode/own_scores.glsl"
#include "lib/grid.glsl"
#include "shared/shared_memory.h"

layout(constant_id = VKATTN_SPEC_DECODE_ROW_SETS) const uint kRowSets = 1;
layout(constant_id = VKATTN_SPEC_DECODE_MERGE_ROWS) const uint kMergeRows = 1;

const uint kTileRows = kRows * kRowSets;
const uint kKeyGroups = kThreads / kColumns / kRowSets;  // groups with different keys
const uint kStepKeys = kKeyGroups * kKeys;

// A vector is 16 bytes of a row: one or two parts of 4 elements. A thread has every kColumns-th vector of a row. Loads
// decode quantised elements.
const bool kKeysAsFloats = kKeyType == VKATTN_TYPE_FLOAT32 || kKeyType >= VKATTN_TYPE_Q8_0;
const bool kValuesAsFloats = kValueType == VKATTN_TYPE_FLOAT32 || kValueType >= VKATTN_TYPE_Q8_0;
const uint kKeyParts = kKeysAsFloats ? 1 : 2;
const uint kValueParts = kValuesAsFloats ? 1 : 2;
const uint kKeyWidth = kColumns * kKeyParts * 4;  // dims of one vector in each thread of a group
const uint kValueWidth = kColumns * kValueParts * 4;
const uint kKeyVectors = (kHeadDim + kKeyWidth - 1) / kKeyWidth;
const uint kValueVectors = (kValueDim + kValueWidth - 1) / kValueWidth;
const bool kKeysFill = kHeadDim % kKeyWidth == 0;  // no thread's vector lies beyond the row
const bool kValuesFill = kValueDim % kValueWidth == 0;

// Queries, in the order in which a group's threads read them. After the last key: rows to be merged.
const uint kQueryParts = kRows * kKeyVectors * kKeyParts;  // each thread's
const uint kRowSums = kValueVectors * kValueParts;         // each thread's for a row
const uint kQueryStage4 = VKATTN_DECODE_QUERY_STAGE4(kRows, kKeyVectors * kKeyParts, kRowSets, kColumns);
const uint kMergeStage4 = VKATTN_DECODE_MERGE_STAGE4(kMergeRows, kRowSums, kThreads);
shared vec4 stage[VKATTN_LARGER(kQueryStage4, kMergeStage4)];
shared float maximum_stage[VKATTN_DECODE_GROUP_STAGE(kTileRows, kKeyGroups)];
shared float weight_stage[VKATTN_DECODE_GROUP_STAGE(kTileRows, kKeyGroups)];

// The last row stands for those beyond it.
uint packed_row(TilePosition tile, uint row) { return min(tile.first_row + row, packed_row_count() - 1u); }

#endif
