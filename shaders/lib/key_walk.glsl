// The walk of a tile of rows, in steps, over the keys that it sees of its part; all kernels share it. A step is masked
// if it hides a key from some of the rows, otherwise it is full. These functions give the first keys of steps:
//   first_step(), next_step()       all steps in order; is_masked() tells which they are
//   first_full(), next_full()       the full steps, from walk.full_begin to walk.full_end, for kernels that have a loop
//                                   of their own, without tests, for full steps
//   first_masked(), next_masked()   the steps before and after these, and those of mixed blocks between them
// The walk skips steps whose blocks the block mask hides whole.
//
// A loop over steps is tested at both ends:
//   int key = first_step(walk);
//   while (key < walk.keys.end) {
//     ...
//     key = next_step(walk, key);
//     if (key >= walk.keys.end) break;
//   }
// With a test at the end alone, AMD's compiler (ACO of Mesa 25.0) moves code out of the loop, as the body runs at least once;
// so many values then live across the loop that fewer subgroups fit. The registers of lane and decode bear that: their loops
// are tested at the end, and lie behind a test that there are keys, as keys that do not exist may have no memory. The loop
// of tile lies behind such a test too: with a test at the beginning, lavapipe (Mesa 26.1) runs the body once more after the
// last step, under an empty mask, and has crashed there if the loop was never entered (docs/reliability.md).
#ifndef VKATTN_LIB_KEY_WALK
#define VKATTN_LIB_KEY_WALK

#include "lib/block_mask.glsl"
#include "lib/grid.glsl"
#include "lib/key_ranges.glsl"

struct KeyWalk {
  KeyRange keys;
  uint batch;
  uint kv_head;
  uint first_row;  // of the tile: it finds the tile's blocks in the block mask
  int step;        // keys of a step
  int full_step;   // keys of a full step, a multiple of `step`
  int full_begin;  // the keys of full steps, a whole number of steps
  int full_end;
};

// The keys of a part that rows first_row .. first_row + rows - 1 see. The first row exists; rows that do not see nothing.
KeyRange keys_of_rows(uint first_row, uint rows, int kv_length, int part_begin, int step) {
  const uint last_row = min(first_row + rows, packed_row_count()) - 1u;
  return visible_keys(int(packed_query(first_row)), int(packed_query(last_row)), kv_length, part_begin, step);
}

// The walk of a tile of `rows` rows. Blocks of a block mask begin at multiples of full_step.
KeyWalk walk_keys(TilePosition tile, uint rows, int kv_length, int step, int full_step) {
  KeyWalk walk;
  const int part_begin = part_begin_of(int(packed_query(tile.first_row)), kv_length, tile.split);
  walk.keys = keys_of_rows(tile.first_row, rows, kv_length, part_begin, step);
  walk.batch = tile.batch;
  walk.kv_head = tile.kv_head;
  walk.first_row = tile.first_row;
  walk.step = step;
  walk.full_step = full_step;
  walk.full_begin = first_full_step(walk.keys, step);
  if (kHasBlockMask && full_step != step) walk.full_begin = (walk.full_begin + full_step - 1) / full_step * full_step;
  walk.full_end =
      walk.full_begin + (max(walk.keys.full_end, walk.full_begin) - walk.full_begin) / full_step * full_step;
  return walk;
}

// The same steps as `rows` rows of the tile, from first_row on, see them. If no such rows exist, they see nothing.
KeyWalk walk_of_rows(KeyWalk walk, uint first_row, uint rows, int kv_length) {
  KeyWalk own = walk;
  own.keys.end = 0;
  if (first_row < packed_row_count()) {
    own.keys = keys_of_rows(first_row, rows, kv_length, walk.keys.part_begin, walk.step);
  }
  return own;
}

// True if some row sees a key of the step.
bool sees_step(KeyWalk walk, int key) { return key < walk.keys.end && key + walk.step > walk.keys.begin; }

int first_step(KeyWalk walk) {
  return next_visible_key(walk.batch, walk.kv_head, walk.first_row, walk.keys.begin, walk.keys.end);
}

int next_step(KeyWalk walk, int key) {
  return next_visible_key(walk.batch, walk.kv_head, walk.first_row, key + walk.step, walk.keys.end);
}

bool is_masked(KeyWalk walk, int key) {
  const bool visible = block_class(walk.batch, walk.kv_head, walk.first_row, key) == VKATTN_BLOCK_VISIBLE;
  return !(visible && is_full_step(walk.keys, key, uint(walk.step)));
}

// The first key from `key` on in a block that full steps take or, if `masked`, that masked steps take. Full steps take the
// visible blocks from full_begin to full_end; masked steps take all others that are not hidden.
int skip_blocks(KeyWalk walk, int key, bool masked) {
  if (!kHasBlockMask) return key;
  const int end = masked ? walk.keys.end : walk.full_end;
  bool skipped = true;
  [[dont_unroll]] while (key < end && skipped) {
    const uint found = block_class(walk.batch, walk.kv_head, walk.first_row, key);
    const bool full = found == VKATTN_BLOCK_VISIBLE && key >= walk.full_begin && key < walk.full_end;
    skipped = masked ? full || found == VKATTN_BLOCK_HIDDEN : found != VKATTN_BLOCK_VISIBLE;
    if (skipped) key = next_block(key);
  }
  return key;
}

int first_full(KeyWalk walk) { return skip_blocks(walk, walk.full_begin, false); }
int next_full(KeyWalk walk, int key) { return skip_blocks(walk, key + walk.full_step, false); }

int first_masked(KeyWalk walk) {
  const bool before = kHasBlockMask || (kHasKeyBegin && walk.keys.begin < walk.full_begin);
  return skip_blocks(walk, before ? walk.keys.begin : walk.full_end, true);
}

int next_masked(KeyWalk walk, int key) {
  int next = key + walk.step;
  if (kHasKeyBegin && !kHasBlockMask && next == walk.full_begin) next = walk.full_end;
  return skip_blocks(walk, next, true);
}

#endif
