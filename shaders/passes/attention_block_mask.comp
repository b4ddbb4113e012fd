// Finds the blocks of rows and keys that a mask or a user's function hides whole, so that kernels skip them, and the blocks
// whose scores it leaves as they are, so that kernels do not read it. It is exact: it looks at every position until it knows that
// the block is neither. Only blocks that a causal mask or a window hides whole are not looked at.
//
// Budget: a few registers and 4 bytes of shared memory; each word of the mask is read once, or each position where a function
// hides keys; no multiply-adds.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/block_mask.glsl"
#include "lib/grid.glsl"
#include "lib/key_ranges.glsl"
#include "lib/scores.glsl"
#include "lib/workgroups.glsl"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 64;
layout(constant_id = VKATTN_SPEC_BLOCK_MASK_SHARED) const bool kSharedBlock = false;
// The query heads of a KV head have one mask, so the pass looks at one of them for each query.
layout(constant_id = VKATTN_SPEC_BLOCK_MASK_BY_QUERIES) const bool kByQueries = false;

shared uint seen_in_block;

// Bits of what was found in a block: hidden positions, positions whose score stays. One to whose score the mask adds a number is
// neither, and sets both bits, as the block is mixed then.
const uint kHiddenSeen = 1u;
const uint kVisibleSeen = 2u;
const uint kAllSeen = kHiddenSeen | kVisibleSeen;

// Buffers of lengths may change while the block mask is kept. Then what rows see by position is not fixed.
const bool kRangesAreFixed = !kHasKvLengths && !kHasQueryLengths && !kPackedQueries;

// True if none of the rows sees one of the keys, by position alone.
bool is_out_of_sight(uint batch, uint kv_head, uint first_row, uint rows, uint first_key, uint keys) {
  if (!kRangesAreFixed) return false;
  begin_entry(batch, kv_head);
  const int kv_length = visible_kv_length(batch);
  return int(first_key) >= visible_key_end(int(packed_query(first_row + rows - 1u)), kv_length) ||
         int(first_key + keys) <= visible_key_begin(int(packed_query(first_row)), kv_length);
}

// If only a mask hides keys, and it varies along them, whole words of it are tested.
const bool kMayLookAtWords = kMaskType != VKATTN_MASK_NONE && !kUserHides;
const uint kKeyBits = kMaskType == VKATTN_MASK_BITS      ? 1u
                      : kMaskType == VKATTN_MASK_BYTES   ? 8u
                      : kMaskType == VKATTN_MASK_FLOAT16 ? 16u
                                                         : 32u;
const uint kWordKeys = 32u / kKeyBits;

// The number of words in one row that a block's keys may lie in; feature_passes.cpp counts them too. Rows of bits begin with
// a word, and blocks begin at multiples of their keys.
uint block_words() {
  if (kMaskType == VKATTN_MASK_BITS && 32u % kBlockMaskKeys == 0u) return 1u;
  if (kMaskType == VKATTN_MASK_BITS && kBlockMaskKeys % 32u == 0u) return kBlockMaskKeys / 32u;
  return (kBlockMaskKeys + kWordKeys - 2u) / kWordKeys + 1u;
}

// The number by which the pass looks at a packed row: its query's, or its own.
uint look_number(uint packed) { return kByQueries ? packed_query(packed) : packed; }

ScoreRow row_of(uint batch, uint kv_head, uint number) {
  if (kByQueries) return score_row(batch, packed_head(kv_head, 0u), number);
  return score_row(batch, packed_head(kv_head, number), packed_query(number));
}

// One bit of each key: the key's own in masks of bits, the highest of its eight in masks of bytes. Of a number all bits.
uint key_bits(uint word) {
  if (kMaskAdds) return word;
  if (kMaskType == VKATTN_MASK_BITS) return word;
  return ((word & 0x7f7f7f7fu) + 0x7f7f7f7fu | word) & 0x80808080u;
}

// The bits that the numbers in a word show, of which only the bits in `asked` count.
uint look_at_numbers(uint word, uint asked) {
  const uint infinities = kMaskType == VKATTN_MASK_FLOAT32 ? 0xff800000u : 0xfc00fc00u;
  const uint signs = kMaskType == VKATTN_MASK_FLOAT32 ? 0x80000000u : 0x80008000u;
  if (((word ^ infinities) & asked) == 0u) return kHiddenSeen;
  return (word & ~signs & asked) == 0u ? kVisibleSeen : kAllSeen;
}

// The bits that one position shows.
uint look_at(ScoreRow row, uint key) {
  if (!may_see(row, key)) return kHiddenSeen;
  if (!kMaskAdds) return kVisibleSeen;
  const uint number = floatBitsToUint(mask_number(row.mask_index, key));
  return number << 1 == 0u ? kVisibleSeen : kAllSeen;
}

// The bits that the word-th word of a block's row shows.
uint look_at_word(ScoreRow row, uint first_key, uint keys, uint word) {
  const bool bits = kMaskType == VKATTN_MASK_BITS;
  const uint begin = (bits ? 0u : row.mask_index % kWordKeys) + first_key;  // from the beginning of the row's first word
  const uint index = begin / kWordKeys + word;
  const uint low = max(begin, index * kWordKeys) - index * kWordKeys;
  const uint end = min(begin + keys, index * kWordKeys + kWordKeys);
  if (end <= index * kWordKeys) return 0u;  // the row has ended
  const uint count = end - index * kWordKeys - low;
  const uint asked = key_bits(~0u) & ~0u >> 32u - count * kKeyBits << low * kKeyBits;
  const uint found = mask_words[row.mask_index / (bits ? 1u : kWordKeys) + index];
  if (kMaskAdds) return look_at_numbers(found, asked);
  const uint visible = key_bits(found) & asked;
  return (visible != 0u ? kVisibleSeen : 0u) | (visible != asked ? kHiddenSeen : 0u);
}

// Looks at all words of a block in one invocation, so that it finds each row once.
uint look_at_words(uint batch, uint kv_head, uint first, uint rows, uint first_key, uint keys) {
  uint seen = 0u;
  for (uint r = 0; r < rows && seen != kAllSeen; ++r) {
    const ScoreRow row = row_of(batch, kv_head, first + r);
    [[unroll]] for (uint word = 0; word < block_words(); ++word) seen |= look_at_word(row, first_key, keys, word);
  }
  return seen;
}

// Looks at positions (or words) first, first + step, … of the block.
uint look(uint batch, uint kv_head, uint first_row, uint first_key, uint first, uint step) {
  const uint rows = min(kBlockMaskRows, most_packed_rows() - first_row);
  const uint keys = min(kBlockMaskKeys, params.kv_length - first_key);
  if (is_out_of_sight(batch, kv_head, first_row, rows, first_key, keys)) return kHiddenSeen;
  const uint first_look = look_number(first_row);
  const uint looks = look_number(first_row + rows - 1u) - first_look + 1u;
  uint seen = 0u;
  if (kMayLookAtWords && features.mask_key_stride == 1u) {
    if (!kSharedBlock) return look_at_words(batch, kv_head, first_look, looks, first_key, keys);
    for (uint i = first; i < looks * block_words() && seen != kAllSeen; i += step) {
      const ScoreRow row = row_of(batch, kv_head, first_look + i / block_words());
      seen |= look_at_word(row, first_key, keys, i % block_words());
    }
    return seen;
  }
  // If the mask is equal for all keys of a row, the first key tells.
  const bool alike = !kUserHides && features.mask_key_stride == 0u;
  const uint columns = alike ? 1u : keys;
  for (uint i = first; i < looks * columns && seen != kAllSeen; i += step) {
    const ScoreRow row = row_of(batch, kv_head, first_look + i / columns);
    seen |= look_at(row, first_key + i % columns);
  }
  return seen;
}

uint class_of(uint seen) {
  if ((seen & kVisibleSeen) == 0u) return VKATTN_BLOCK_HIDDEN;
  return (seen & kHiddenSeen) != 0u ? VKATTN_BLOCK_MIXED : VKATTN_BLOCK_VISIBLE;
}

void main() {
  const uint group = workgroup_number();
  if (group >= params.tile_count) return;
  const uint index = params.first_tile + group;
  const uint block = kSharedBlock ? index : index * kWorkgroupSize + gl_LocalInvocationIndex;
  if (block >= features.block_count) return;  // uniform if a barrier follows
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
