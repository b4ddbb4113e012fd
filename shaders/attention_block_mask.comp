// Finds the blocks of rows and keys that a mask or a user's function hides whole, so that the kernels skip them, and
// those of which it hides nothing, so that they need not look. Exact: every position is looked at until both a visible
// and a hidden one are found, but in blocks that a causal mask or a window hides whole.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/grid.glsl"
#include "lib/mask.glsl"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 64;
layout(constant_id = VKATTN_SPEC_BLOCK_MASK_SHARED) const bool kSharedBlock = false;

shared uint seen_in_block;

// What was found of a block: bits of the positions that are hidden and of those that are not.
const uint kHiddenSeen = 1u;
const uint kVisibleSeen = 2u;
// Of a mask that is added no block is free.
const uint kAllSeen = kMaskAdds ? kVisibleSeen : kHiddenSeen | kVisibleSeen;

// Lengths from buffers may change while the block mask is kept: with them, what rows see by position is not for good.
const bool kRangesAreFixed = !kHasKvLengths && !kHasQueryLengths && !kPackedQueries;

// That none of the rows sees one of the keys, by position alone.
bool is_out_of_sight(uint batch, uint kv_head, uint first_row, uint rows, uint first_key, uint keys) {
  if (!kRangesAreFixed) return false;
  begin_entry(batch, kv_head);
  const int kv_length = visible_kv_length(batch);
  return int(first_key) >= visible_key_end(int(packed_query(first_row + rows - 1u)), kv_length) ||
         int(first_key + keys) <= visible_key_begin(int(packed_query(first_row)), kv_length);
}

// Looks at the positions first, first + step, … of the block.
uint look(uint batch, uint kv_head, uint first_row, uint first_key, uint first, uint step) {
  const uint rows = min(kBlockMaskRows, most_packed_rows() - first_row);
  const uint keys = min(kBlockMaskKeys, params.kv_length - first_key);
  if (is_out_of_sight(batch, kv_head, first_row, rows, first_key, keys)) return kHiddenSeen;
  uint seen = 0u;
  for (uint i = first; i < rows * keys && (seen & kAllSeen) != kAllSeen; i += step) {
    const uint packed = first_row + i / keys;
    const ScoreRow row = score_row(batch, packed_head(kv_head, packed), packed_query(packed));
    seen |= may_see(row, first_key + i % keys) ? kVisibleSeen : kHiddenSeen;
  }
  return seen;
}

uint class_of(uint seen) {
  if ((seen & kVisibleSeen) == 0u) return VKATTN_BLOCK_HIDDEN;
  return kMaskAdds || (seen & kHiddenSeen) != 0u ? VKATTN_BLOCK_MIXED : VKATTN_BLOCK_VISIBLE;
}

void main() {
  const uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  if (group >= params.tile_count) return;
  const uint index = params.first_tile + group;
  const uint block = kSharedBlock ? index : index * kWorkgroupSize + gl_LocalInvocationIndex;
  if (block >= features.block_count) return;  // uniform where a barrier follows
  const uint row_block = block / features.block_row_stride;
  const uint head = row_block / features.block_rows;
  const uint batch = head / features.block_heads;
  const uint first_key = block % features.block_row_stride * kBlockMaskKeys;
  const uint first_row = row_block % features.block_rows * kBlockMaskRows;
  if (!kSharedBlock) {
    block_mask[block] = class_of(look(batch, head % features.block_heads, first_row, first_key, 0u, 1u));
    return;
  }
  if (gl_LocalInvocationIndex == 0) seen_in_block = 0u;
  barrier();  // the bits are reset
  const uint seen =
      look(batch, head % features.block_heads, first_row, first_key, gl_LocalInvocationIndex, kWorkgroupSize);
  atomicOr(seen_in_block, seen);
  barrier();  // the bits are complete
  if (gl_LocalInvocationIndex == 0) block_mask[block] = class_of(seen_in_block);
}
