// The block mask: one word (VKATTN_BLOCK_*) for each block of rows and keys. passes/attention_block_mask.comp writes it before
// the kernel runs. Rows are packed rows (lib/grid.glsl).
#ifndef VKATTN_LIB_BLOCK_MASK
#define VKATTN_LIB_BLOCK_MASK

#include "lib/features.glsl"
#include "lib/scores.glsl"

#if VKATTN_FEATURES

layout(set = 0, binding = VKATTN_BINDING_BLOCK_MASK, std430) buffer BlockMask { uint block_mask[]; };

const bool kHasBlockMask = kBlockMaskRows != 0;

uint block_index(uint batch, uint kv_head, uint first_row, int first_key) {
  return batch * features.block_batch_stride + kv_head * features.block_head_stride +
         first_row / max(kBlockMaskRows, 1u) * features.block_row_stride + uint(first_key) / kBlockMaskKeys;
}

uint block_class(uint batch, uint kv_head, uint first_row, int key) {
  if (!kHasBlockMask) return kStepsHide ? VKATTN_BLOCK_MIXED : VKATTN_BLOCK_VISIBLE;
  return block_mask[block_index(batch, kv_head, first_row, key)];
}

int next_block(int key) { return (key / int(kBlockMaskKeys) + 1) * int(kBlockMaskKeys); }

// The first key from first_key on whose block is not hidden from the tile at first_row.
int next_visible_key(uint batch, uint kv_head, uint first_row, int first_key, int key_end) {
  if (!kHasBlockMask) return first_key;
  int key = first_key;
  while (key < key_end && block_class(batch, kv_head, first_row, key) == VKATTN_BLOCK_HIDDEN) key = next_block(key);
  return key;
}

#else

const bool kHasBlockMask = false;

uint block_class(uint batch, uint kv_head, uint first_row, int key) { return VKATTN_BLOCK_VISIBLE; }
int next_block(int key) { return key; }
int next_visible_key(uint batch, uint kv_head, uint first_row, int first_key, int key_end) { return first_key; }

#endif

#endif
