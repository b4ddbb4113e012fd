// Attention of a few query rows over many keys (decode), for CPU implementations: a workgroup is one vector of a CPU, a
// subgroup of kThreads lanes. It computes kRows rows of one KV head, from all keys of its part that these rows see.
//
//             a step: kThreads * kLaneKeys keys              its sums
//           +-------------------------------------+        +---------------------------------+
//           | kRows scores of each key            |        | dims of kRows rows, over all    |
//           | -> softmax: lane l has keys l, l +  |  x V   | keys so far                     |
//           |    kThreads, ... -> probabilities   |   ->   |                                 |
//           +-------------------------------------+        +---------------------------------+
//
// A subgroup's lanes exchange without a barrier of the workgroup, which would turn the shader into coroutines. There are two
// forms of the two products, each with its budget: by gathers (decode_gathers.glsl), and by vectors at the addresses of K and
// V (decode_vectors.glsl), which takes rows of whole vectors, in a third to two thirds of the time.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/forms.glsl"

#if VKATTN_BUFFER_ADDRESSES
#include "lane/decode_vectors.glsl"
#else
#include "lane/decode_gathers.glsl"
#endif
#include "lib/key_walk.glsl"

// One step. `masked` is a constant once inlined.
void attend(TilePosition tile, int first_key, int key_end, bool masked) {
  find_keys(tile, first_key, key_end);
  compute_scores(tile, first_key, key_end, masked);
  update_softmax(first_key, key_end, masked);
  stage_weights(first_key);
  add_values(tile, first_key, key_end, masked);
}

void main() {
  const TilePosition tile = tile_position(kRows);
  if (!tile.valid) return;  // uniform over the workgroup, so no barrier is missed
  const int kv_length = visible_kv_length(tile.batch);
  const KeyWalk walk = walk_keys(tile, kRows, kv_length, int(kStepKeys), int(kStepKeys));
  begin_rows(tile, kv_length, walk.keys.part_end);
  begin_stages(tile);
  int full = first_full(walk);
  if (full < walk.full_end) {  // loops are tested at their end, see lib/key_walk.glsl
    [[dont_unroll]] do {
      attend(tile, full, walk.keys.end, false);
      full = next_full(walk, full);
    } while (full < walk.full_end);
  }
  int key = first_masked(walk);
  if (key < walk.keys.end) {
    [[dont_unroll]] do {
      attend(tile, key, walk.keys.end, true);
      key = next_masked(walk, key);
    } while (key < walk.keys.end);
  }
  store_rows(tile);
  store_lse_of_rows(tile);
}
