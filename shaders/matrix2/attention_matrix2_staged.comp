// Attention on matrix units with VK_NV_cooperative_matrix2, staged: a workgroup computes a block of query rows in matrices
// of subgroup scope, from tiles of keys and values that it stages in shared memory itself.
//
//                  kKeys keys, staged                 kValueBlocks matrices of kValueBlock dims, V staged
//                +----------------------+           +------------------------------------------+
//   subgroup 0   | one matrix of scores |  softmax  | sums: its own kRows rows                 |
//   subgroup 1   | of its kRows rows    |    ->     | ...                                      |
//   ...          +----------------------+           +------------------------------------------+
//
//   a tile:  values to registers . scores . values to the stage, next keys to registers | sums . keys to the stage |
//            (each | is a barrier of the workgroup)
//
// Budget. Example: 8 subgroups of 32 lanes, 16 rows x 64 keys, kRowColumns = 8, 128 dims in Q, K and V in blocks of 16.
//   registers      of a lane: (kRows * (value dims + kKeys + 3 * kRowColumns) + kRows * head dims / 2 + the larger of
//                  kKeys * block dims / 2 and kRows * kKeys) / 32 + 4 * the larger of kKeyFetches and kValueFetches =
//                  (3456 + 1024 + 1024) / 32 + 16 = 188: Matrix2Tile::held_registers()
//   shared memory  16 * VKATTN_MATRIX2_STAGE4 bytes = 16 * max(128 * 17, 64 * (17 + 17)) = 34,816
//   memory         each multiply-add reads 2 / (kSubgroups * kRows) bytes of K and V = 1/64
//   stages         each multiply-add reads 2 / kRows bytes of K or V = 1/8
//
// With numbers of rows in lanes (VKATTN_MATRIX2_ROWS_IN_LANES): 4 subgroups, 32 rows x 32 keys, 4 rows of a lane, queries of
// 2 of 8 blocks of 16 dims in registers, 128 dims in Q, K and V in blocks of 16.
//   registers      of a lane: (kRows * (value dims + kKeys) + kRows * held dims / 2 + (kKeys + kRows) * block dims / 2) / 32 +
//                  3 * kLaneRows + 4 * the larger of kKeyFetches and kValueFetches = (5120 + 512 + 512) / 32 + 12 + 16 = 220
//   shared memory  16 * (32 * (17 + 17) + 128 * 13) = 44,032
//   memory         1/64 byte of K and V, as above
//   stages         each multiply-add reads 2 / kRows bytes of K or V = 1/16, and one of Q K^T 96 / 128 * 2 / kKeys = 3/64 of Q
//
// With rows in lanes and scores a tile ahead (kScoresAhead): a tile's keys are staged a tile earlier, and its scores computed
// among the exponentials of the tile before. Example: 4 subgroups, 32 rows x 32 keys, 4 rows of a lane, 64 dims in Q, K and V.
//   a tile:  values to registers . maxima . exponentials and next scores . values to the stage, keys after the next to
//            registers | sums . these keys to the stage |
//   registers      of a lane, with scores twice: (kRows * (value dims + 2 * kKeys) + kRows * held dims / 2 + kKeys *
//                  block dims / 2) / 32 + 12 + 8 = (4096 + 1024 + 256) / 32 + 20 = 188. At 64 keys 268: too many
//   shared memory  16 * max(128 * 9, 32 * (9 + 9)) = 18,432, as much as without
//   time           of a workgroup's tile on an H100, by count: 400 cycles of matrix units, 256 of exponentials, 160 of other
//                  arithmetic. 200 of the 400 go beside the exponentials: at most a quarter, where no other workgroup fills
//                  these gaps. Two of them fit the registers of an SM, without scores ahead three. No GPU has timed it
//
// Not taken, by these sums: all queries in registers, 260; all in the stage, 52,224 bytes of NVIDIA's 49,152; 64 keys at 128
// dims, 260 registers without any query.
// Tried on an H100 and lost (docs/trials/h100.md): values fetched after the softmax, 155 TFLOP/s in place of 168; 4 subgroups
// of 16 rows with numbers of rows in matrices, which spill, 126.
//
// This form fixes an order that the workgroup-scope form leaves to the driver: a tile's values travel while its scores are
// computed, and the next tile's keys while its values are multiplied, so that two barriers a tile are enough. Scores and
// probabilities stay in matrices, see matrix2/softmax.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/key_walk.glsl"
#include "lib/matrix_quantised.glsl"
#include "matrix2/softmax.glsl"
#include "matrix2/stages.glsl"

// Queries that registers have no room for come from the stage.
void multiply_queries(inout ScoreMatrix scores, KeyMatrix key_block, uint block) {
  if (block < kHeldBlocks) {
    scores = coopMatMulAdd(queries[block], key_block, scores);
  } else {
    QueryMatrix staged;
    load_staged_queries(staged, block);
    scores = coopMatMulAdd(staged, key_block, scores);
  }
}

void compute_scores(out ScoreMatrix scores) {
  scores = ScoreMatrix(0.0);
  [[unroll]] for (uint b = 0; b < kHeadBlocks; ++b) {
    KeyMatrix key_block;
    load_keys(key_block, b);
    multiply_queries(scores, key_block, b);
  }
}

ScoreMatrix next_scores;  // with kScoresAhead, of the staged keys

void compute_next_scores() {
  if (kScoresAhead) compute_scores(next_scores);
}

// Products of the next scores need nothing of the exponentials, so a compiler can mix both. Masked steps are few: they have
// these products later, where subgroups that see nothing of the tile have them too. The next scores must not be computed before
// finish_scores(): in Mesa 26.1 a copy of a global matrix, as `scores` is of next_scores, changes with it
// (docs/trials/lavapipe.md).
void compute_probabilities(inout ScoreMatrix scores, int first_key, bool masked) {
  finish_scores(scores, first_key, masked);
  raise_references(scores);
  if (!masked) compute_next_scores();
  exponentiate(scores, masked);
  if (kHasDropout) coopMatPerElementNV(scores, scores, keep, first_key);
}

void accumulate_values(ProbabilityMatrix probabilities) {
  [[unroll]] for (uint b = 0; b < kValueBlocks; ++b) {
    ValueMatrix values;
    load_values(values, b);
    sums[b] = coopMatMulAdd(probabilities, values, sums[b]);
  }
}

// Processes one tile whose values are not staged yet. The staged keys are its own or, with kScoresAhead, those of the next tile:
// the last tile has none, and computes scores that nobody reads. Stages the following keys.
void process_tile(int first_key, int following_key, bool sees, bool masked) {
  fetch_values(first_key);
  ProbabilityMatrix probabilities = ProbabilityMatrix(0.0);
  if (sees) {
    ScoreMatrix scores;
    if (kScoresAhead) {
      scores = next_scores;
    } else {
      compute_scores(scores);
    }
    if (masked) {
      compute_probabilities(scores, first_key, true);
    } else {
      compute_probabilities(scores, first_key, false);
    }
    probabilities = ProbabilityMatrix(scores);
  }
  if (masked) compute_next_scores();
  place_values();
  fetch_keys(following_key);
  workgroup_barrier();  // values are complete; keys were read
  if (sees) accumulate_values(probabilities);
  place_keys();
  workgroup_barrier();  // keys are complete; values were read
}

void store_rows() {
  finish_rows();
  divide_sums();
  // A separate multiplication: the factor may be so small that a device takes it for 0.
  if (kValuesQuantised) {
    [[unroll]] for (uint b = 0; b < kValueBlocks; ++b) sums[b] = sums[b] * value_head_scale();
  }
  VKATTN_MATRIX_STEPS(kValueBlocks, store_block)
}

void main() {
  tile = tile_position(kBlockRows);
  if (!tile.valid) return;  // uniform over the workgroup, so no barrier is missed
  first_row = tile.first_row + gl_SubgroupID * kRows;
  kv_length = visible_kv_length(tile.batch);
  const KeyWalk walk = walk_keys(tile, kBlockRows, kv_length, int(kKeys), int(kKeys));
  const KeyWalk own = walk_of_rows(walk, first_row, kRows, kv_length);
  keys = walk.keys;
  load_queries();
  begin_sums();
  int first_key = first_step(walk);
  fetch_keys(first_key);
  place_keys();
  workgroup_barrier();  // the first keys are complete
  int staged_key = first_key;
  if (kScoresAhead) {
    staged_key = next_step(walk, first_key);
    fetch_keys(staged_key);
    compute_next_scores();
    workgroup_barrier();  // the first keys were read
    place_keys();
    workgroup_barrier();  // the second keys are complete
  }
  while (first_key < keys.end) {  // tested at both ends, see lib/key_walk.glsl
    const int following_key = next_step(walk, staged_key);
    process_tile(first_key, following_key, sees_step(own, first_key), is_masked(own, first_key));
    first_key = kScoresAhead ? staged_key : following_key;
    staged_key = following_key;
    if (first_key >= keys.end) break;
  }
  store_rows();
}
