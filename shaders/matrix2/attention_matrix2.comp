// Attention on matrix units with VK_NV_cooperative_matrix2: a workgroup computes kRows query rows in matrices of workgroup
// scope. The driver spreads them over the invocations and moves them through shared memory as it chooses.
//
//                  kKeys keys of a tile             kValueBlocks matrices of kValueBlock dims
//                +----------------------+         +--------------------+--------------------+
//   workgroup:   | one matrix of scores | softmax | sums of block 0    | sums of block 1    | ...
//   kRows rows   |                      |   ->    |                    |                    |
//                +----------------------+         +--------------------+--------------------+
//   a number of a row (reference, sum) stands in all kRowColumns columns of a narrow matrix
//
// Budget. Example: 128 invocations, 64 rows x 64 keys, kRowColumns = 16, 128 dims in Q, K and V.
//   registers      of an invocation: (kRows * (value dims + kKeys + 3 * kRowColumns) sums, scores and numbers of rows +
//                  kRows * head dims / 2 of Q + the larger of kKeys * block dims / 2 of K or V and kRows * kKeys
//                  references) / invocations = (15360 + 4096 + 4096) / 128 = 184: Matrix2Tile::held_registers()
//   shared memory  the shader has none; cooperativeMatrixWorkgroupScopeReservedSharedMemory says what the driver takes
//   memory         each multiply-add reads 2 / kRows bytes of K and V = 1/32; how often the driver reads matrices from
//                  its shared memory is its own choice
//
// Lost on an H100 (docs/trials/h100.md), at 128 dims, where this has 200 TFLOP/s: 32 keys 142, 80 keys 188, 96 keys 139; 128
// rows over 256 invocations 176; a test whether any reference was raised 174.
//
// Masks, exponentials and stores are functions of an element and its place; maxima and sums of rows are reductions. A
// reduction also spreads a row's number from its narrow matrix to the columns of another.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/key_walk.glsl"
#include "lib/partials.glsl"
#include "matrix2/softmax.glsl"

float store_sum(const in uint row, const in uint column, const in float sum, const in float total,
                const in uint first_dim) {
  const uint packed = first_row + row;
  const uint dim = first_dim + column;
  if (packed < packed_row_count() && dim < kValueDim) {
    const uint head = packed_head(tile.kv_head, packed);
    const uint target = result_row(tile.batch, head, packed_query(packed), tile.split);
    store_result(target, dim, total == 0.0 ? 0.0 : sum * drop_scale() / total);
  }
  return sum;
}

void compute_scores(out ScoreMatrix scores, int first_key, bool masked) {
  scores = ScoreMatrix(0.0);
  [[unroll]] for (uint b = 0; b < kHeadBlocks; ++b) {
    KeyMatrix key_block;
    load_keys(key_block, tile.batch, tile.kv_head, uint(first_key), uint(keys.end), b, !masked);
    scores = coopMatMulAdd(queries[b], key_block, scores);
  }
  finish_scores(scores, first_key, masked);
}

void process_tile(int first_key, bool masked) {
  ScoreMatrix scores;
  compute_scores(scores, first_key, masked);
  raise_references(scores);
  exponentiate(scores, masked);
  if (kHasDropout) coopMatPerElementNV(scores, scores, keep, first_key);
  const ProbabilityMatrix probabilities = ProbabilityMatrix(scores);
  [[unroll]] for (uint b = 0; b < kValueBlocks; ++b) {
    ValueMatrix values;
    load_values(values, tile.batch, tile.kv_head, uint(first_key), uint(keys.end), b, !masked);
    sums[b] = coopMatMulAdd(probabilities, values, sums[b]);
  }
}

void begin_rows() {
  [[unroll]] for (uint b = 0; b < kHeadBlocks; ++b) load_queries(queries[b], tile, b);
  begin_sums();
}

void store_rows() {
  finish_rows();
  SumMatrix sum_totals;
  VKATTN_SPREAD_SUMS(sum_totals, row_sum);
  [[unroll]] for (uint b = 0; b < kValueBlocks; ++b) {
    coopMatPerElementNV(sums[b], sums[b], store_sum, sum_totals, b * kValueBlock);
  }
}

void main() {
  tile = tile_position(kRows);
  if (!tile.valid) return;  // uniform over the workgroup, as matrices ask for
  first_row = tile.first_row;
  kv_length = visible_kv_length(tile.batch);
  const KeyWalk walk = walk_keys(tile, kRows, kv_length, int(kKeys), int(kKeys));
  keys = walk.keys;
  begin_rows();
  // Loops are tested at both ends, see lib/key_walk.glsl.
  if (!kStepsHide) {
    // Full tiles need no mask and no test of bounds.
    int full = first_full(walk);
    [[dont_unroll]] while (full < walk.full_end) {
      process_tile(full, false);
      full = next_full(walk, full);
      if (full >= walk.full_end) break;
    }
    int first_key = first_masked(walk);
    [[dont_unroll]] while (first_key < keys.end) {
      process_tile(first_key, true);
      first_key = next_masked(walk, first_key);
      if (first_key >= keys.end) break;
    }
  } else {
    int first_key = first_step(walk);
    [[dont_unroll]] while (first_key < keys.end) {
      process_tile(first_key, is_masked(walk, first_key));
      first_key = next_step(walk, first_key);
      if (first_key >= keys.end) break;
    }
  }
  store_rows();
}
