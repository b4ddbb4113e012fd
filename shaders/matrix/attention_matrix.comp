// Attention on matrix units (VK_KHR_cooperative_matrix): a workgroup computes a block of query rows from tiles of keys
// and values, which it stages in shared memory.
//
//                  kBlockKeys keys, staged               kSliceDims dims of V, staged
//                +--------------------------+          +---------------------------------+
//   subgroup 0   | kRowBlocks x kKeyBlocks  |  softmax | kRowBlocks x kValueBlocks       |   kSubgroupRows =
//                | matrices of scores       |   ->     | matrices of sums                |   kRowBlocks * kM rows
//   subgroup 1   | its own rows, all keys   |          | its own rows, all dims          |
//   ...          +--------------------------+          +---------------------------------+   kSubgroups of them
//
// Budget. Example: 4 subgroups of 32 lanes, matrices of 16x16x16, kRowBlocks = 1, 32 keys, 128 dims in Q, K and V.
//   registers      of a lane: kSubgroupRows * (kSliceDims + kBlockKeys) / 32 sums and scores + kSubgroupRows * head
//                  dims / (2 * 32) of Q with kQueryInRegisters = 64 + 16 + 32 (RDNA3 holds an operand twice), + 4 *
//                  (kKeyFetches + 2 * kValueFetches) with kPrefetch = 32
//   shared memory  16 * (VKATTN_MATRIX_KEY_STAGE4 + VKATTN_MATRIX_VALUE_STAGE4 + VKATTN_MATRIX_SCORE_STAGE4
//                  + VKATTN_MATRIX_FACTOR_STAGE4 + VKATTN_MATRIX_QUERY_STAGE4) bytes
//                  = 16 * (32 * 17 + 32 * 17 + 64 * 9 + 16 + 1) = 26,896; with values transposed, which take 128 * 5,
//                  28,432; quantised tensors add stages for scales
//   memory         each multiply-add reads 2 / kBlockRows bytes of K and V = 1/32
//   stages         each multiply-add reads 2 / kSubgroupRows bytes of K or V = 1/8; each row and key has 6 bytes of
//                  score and probability, shared by all dims of both products = 6/256
//
// Lost by compilers (docs/trials/gpu_compilers.md): queries in shared memory on RDNA3, half of the workgroups of a WGP at 128
// dims; 16 keys a tile, a sixth more for each key; S^T = K Q^T by columns, 396 instructions of a tile in place of 304 there.
//
// Each subgroup owns whole rows, so that softmax state never crosses subgroups and a tile takes two workgroup barriers.
// Scores and sums are float32, operands 16-bit.
//
// A driver chooses how a matrix lies over the lanes. Work that needs rows and columns goes through the subgroup's stage in
// shared memory: scores as float32, probabilities over them, and one factor for each row, which a load with stride 0
// spreads over an accumulator.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require

#include "lib/dropout.glsl"
#include "lib/key_walk.glsl"
#include "lib/online_softmax.glsl"
#include "lib/partials.glsl"
#include "lib/scores.glsl"
#include "lib/softmax_start.glsl"
#include "matrix/quantised.glsl"
#include "matrix/stages.glsl"
#include "matrix/tiles.glsl"

// A probability is exp2(score - reference). The reference is the row's maximum less kHeadroom when it was last raised;
// it is raised again when a score exceeds it by more than kLimit. So probabilities use float16's range: at most 2^15, and
// normal numbers down to 2^-21 of the maximum. Beyond 2^27 float32 counts in steps of 16. A headroom of 7 is then rounded
// away; a headroom of 11 would become 16 and give a probability of 2^16, which float16 does not hold.
const float kHeadroom = 7.0;
const float kLimit = 15.0;

float row_reference[kLaneRows];
float row_sum[kLaneRows];    // over this lane's keys only, until store_rows()
ScoreRow score_rows[kLaneRows];
int row_key_begin[kLaneRows], row_key_end[kLaneRows];  // a row sees keys begin .. end - 1

uint packed_row(TilePosition tile, uint row_in_subgroup) { return tile.first_row + subgroup_row + row_in_subgroup; }

uvec4 subgroup_query(TilePosition tile, uint row, uint dim) {
  // The last row stands for rows beyond it; they are not stored.
  const uint packed = min(packed_row(tile, row), packed_row_count() - 1u);
  return query_bits8(query_row(tile.batch, packed_head(tile.kv_head, packed), packed_query(packed)), dim);
}

void stage_queries(TilePosition tile, uint first_dim) {
  const uint count = kSubgroupRows * (kStageDims / 8);
  [[unroll]] for (uint n = 0; n < (count + kSubgroupSize - 1) / kSubgroupSize; ++n) {
    const uint i = gl_SubgroupInvocationID + n * kSubgroupSize;
    if (count % kSubgroupSize != 0 && i >= count) break;
    const uint row = i / (kStageDims / 8);
    const uint dim8 = i % (kStageDims / 8);
    score_stage[(subgroup_row + row) * kScoreStride4 + dim8] = subgroup_query(tile, row, first_dim + dim8 * 8u);
  }
}

// Loads the blocks of queries that the stage holds at a time, the first of which is block `first`.
void load_query_stage(TilePosition tile, uint first) {
  if (first > 0) subgroup_barrier();  // the stage was read before the next dims overwrite it
  stage_queries(tile, first * kK);
  subgroup_barrier();  // the stage is complete before other lanes load from it
  [[unroll]] for (uint b = 0; b < min(kStageOperands, kHeadBlocks - first); ++b) {
    [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
      coopMatLoad(query_blocks[r * kHeadBlocks + first + b], score_stage,
                  (subgroup_row + r * kM) * kScoreStride4 + b * (kK / 8), kScoreStride4,
                  gl_CooperativeMatrixLayoutRowMajor);
    }
  }
}

// No loop remains around the matrices: RADV (Mesa 25.0) splits matrices that a loop carries, and then holds each 16-bit
// element in its own register.
void load_queries_to_registers(TilePosition tile) {
#define VKATTN_LOAD_QUERY_STAGE(S) load_query_stage(tile, (S) * kStageOperands)
  VKATTN_STEPS((kHeadBlocks + kStageOperands - 1) / kStageOperands, VKATTN_LOAD_QUERY_STAGE)
}

void load_queries_to_shared(TilePosition tile) {
  for (uint i = gl_SubgroupInvocationID; i < kSubgroupRows * (kKeyStride8 - 1); i += kSubgroupSize) {
    const uint row = i / (kKeyStride8 - 1);
    const uint dim8 = i % (kKeyStride8 - 1);
    query_stage[(subgroup_row + row) * kKeyStride8 + dim8] = subgroup_query(tile, row, dim8 * 8u);
  }
}

// Writes Q K^T of the subgroup's rows and the tile to the subgroup's stage.
void compute_scores() {
  MatrixC scores[kRowBlocks * kKeyBlocks];
  [[unroll]] for (uint i = 0; i < kRowBlocks * kKeyBlocks; ++i) scores[i] = MatrixC(0.0);
  [[unroll]] for (uint b = 0; b < kHeadBlocks; ++b) {
    MatrixA queries[kRowBlocks];
    [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) { VKATTN_LOAD_QUERIES(queries[r], r, b) }
    [[unroll]] for (uint n = 0; n < kKeyBlocks; ++n) {
      MatrixB keys;
      VKATTN_LOAD_KEYS(keys, b, n)
      [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
        scores[r * kKeyBlocks + n] = coopMatMulAdd(queries[r], keys, scores[r * kKeyBlocks + n]);
      }
    }
  }
  [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
    [[unroll]] for (uint n = 0; n < kKeyBlocks; ++n) store_scores(scores[r * kKeyBlocks + n], r, n);
  }
}

bvec4 hidden_keys(uint row_index, ivec4 keys) {
  const bvec4 behind = greaterThanEqual(keys, ivec4(row_key_end[row_index]));
  if (!kHasKeyBegin) return behind;
  const bvec4 before = lessThan(keys, ivec4(row_key_begin[row_index]));
  return bvec4(behind.x || before.x, behind.y || before.y, behind.z || before.z, behind.w || before.w);
}

vec4 finish_scores(vec4 scores, uint row_index, ivec4 keys, int key_end, bool masked) {
  const uvec4 existing = uvec4(min(keys, ivec4(key_end - 1)));
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    scores[i] = finish_score(scores[i], score_rows[row_index], existing[i], masked);
  }
  return scores;
}

vec4 kept_probabilities(vec4 probabilities, uint row_index, ivec4 keys) {
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    probabilities[i] = kept_probability(probabilities[i], score_rows[row_index], uint(keys[i]));
  }
  return probabilities;
}

// Turns the lane's part of one row of scores into probabilities. Returns true if it raised the row's reference.
bool update_row(uint row_index, int first_key, int key_end, bool masked) {
  const uint row = subgroup_row + lane_row + row_index * kSubgroupSize;
  const uint stage_row = row * kScoreStride4;
  const int part_key = first_key + int(lane_part * kLaneKeys8 * 8u);
  vec4 scores[kLaneKeys8 * 2];
  const float scale = params.scale_log2 * key_head_scale();
  float maximum = kHiddenScore;
  [[unroll]] for (uint v = 0; v < kLaneKeys8 * 2; ++v) {
    // `precise` keeps it from being fused with the subtraction below: the reference is the maximum of rounded products.
    precise const vec4 scaled =
        uintBitsToFloat(score_stage[stage_row + lane_part * kLaneKeys8 * 2u + v]) * scale;
    scores[v] = scaled;
    const ivec4 keys = part_key + int(v * 4u) + ivec4(0, 1, 2, 3);
    if (kFinishesScores) scores[v] = finish_scores(scaled, row_index, keys, key_end, masked);
    if (masked) scores[v] = mix(scores[v], vec4(kHiddenScore), hidden_keys(row_index, keys));
    maximum = max(max(maximum, max(scores[v].x, scores[v].y)), max(scores[v].z, scores[v].w));
  }
  [[unroll]] for (uint lanes = kSubgroupRows; lanes < kSubgroupSize; lanes *= 2) {
    maximum = max(maximum, subgroupShuffleXor(maximum, lanes));
  }
  const float old_reference = row_reference[row_index];
  const bool raised = maximum - old_reference > kLimit;  // as a difference: a sum would be rounded
  const float reference = raised ? maximum - kHeadroom : old_reference;
  const float rescale = rescale_factor(old_reference, reference);
  if (lane_part == 0) factor_stage[row] = rescale;
  float sum = row_sum[row_index] * rescale;
  // Probabilities overwrite the row's scores, also those of its other lanes, which must have read them.
  if (kRowLanes > 1) subgroup_barrier();
  [[unroll]] for (uint v = 0; v < kLaneKeys8; ++v) {
    vec4 low = exp2(scores[v * 2] - reference);
    vec4 high = exp2(scores[v * 2 + 1] - reference);
    const ivec4 keys = part_key + int(v * 8u) + ivec4(0, 1, 2, 3);
    bvec4 low_hidden = bvec4(false);
    bvec4 high_hidden = bvec4(false);
    if (looks_for_hidden(masked)) {
      low_hidden = kScoresHide ? equal(scores[v * 2], vec4(kHiddenScore)) : hidden_keys(row_index, keys);
      high_hidden = kScoresHide ? equal(scores[v * 2 + 1], vec4(kHiddenScore)) : hidden_keys(row_index, keys + 4);
      low = mix(low, vec4(0.0), low_hidden);
      high = mix(high, vec4(0.0), high_hidden);
    }
    sum += (low.x + low.y) + (low.z + low.w) + ((high.x + high.y) + (high.z + high.w));
    if (kHasDropout) {
      low = kept_probabilities(low, row_index, keys);
      high = kept_probabilities(high, row_index, keys + 4);
    }
    if (kValuesScaled) {  // the products with the scales are rounded, not these
      const uint part = stage_row + lane_part * kLaneKeys8 * 2u + v * 2;
      score_stage[part] = floatBitsToUint(mix(low, vec4(kHiddenProbability), low_hidden));
      score_stage[part + 1] = floatBitsToUint(mix(high, vec4(kHiddenProbability), high_hidden));
    } else {
      score_stage[stage_row + lane_part * kLaneKeys8 + v] = pack_operands8(low, high);
    }
  }
  row_reference[row_index] = reference;
  row_sum[row_index] = sum;
  return raised;
}

bool update_softmax(int first_key, int key_end, bool masked) {
  bool raised = false;
#define VKATTN_UPDATE_ROW(I) raised = update_row(I, first_key, key_end, masked) || raised
  VKATTN_STEPS(kLaneRows, VKATTN_UPDATE_ROW)
  return raised;
}

// Multiplies the sums by the factors of their rows.
void scale_sums() {
  [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
    MatrixC factors;
    coopMatLoad(factors, factor_stage, subgroup_row + r * kM, 0, gl_CooperativeMatrixLayoutColumnMajor);
    [[unroll]] for (uint n = 0; n < kValueBlocks; ++n) {
      sums[r * kValueBlocks + n] = sums[r * kValueBlocks + n] * factors;
    }
  }
}

// sums += P V.
void accumulate_values() {
  [[unroll]] for (uint b = 0; b < kProductBlocks; ++b) {
    MatrixA probabilities[kRowBlocks];
    [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
      coopMatLoad(probabilities[r], score_stage, (subgroup_row + r * kM) * kScoreStride4 + b * (kK / 8),
                  kScoreStride4, gl_CooperativeMatrixLayoutRowMajor);
    }
    [[unroll]] for (uint n = 0; n < kValueBlocks; ++n) {
      MatrixB values;
      VKATTN_LOAD_VALUES(values, b, n)
      [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
        sums[r * kValueBlocks + n] = coopMatMulAdd(probabilities[r], values, sums[r * kValueBlocks + n]);
      }
    }
  }
}

void process_tile(int first_key, int key_end, bool masked) {
  if (kKeysScaled) {
    compute_scaled_scores();
  } else {
    compute_scores();
  }
  subgroup_barrier();  // scores are complete before other lanes read them
  bool raised = false;
  if (masked) {
    raised = update_softmax(first_key, key_end, true);
  } else {
    raised = update_softmax(first_key, key_end, false);
  }
  subgroup_barrier();  // probabilities and factors are complete before other lanes read them
  if (subgroupAny(raised)) scale_sums();
  if (kValuesScaled) {
    accumulate_scaled_values();
  } else {
    accumulate_values();
  }
}

void place_block(uint n, uint first) {
  [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
    coopMatStore(sums[r * kValueBlocks + n], score_stage,
                 (subgroup_row + r * kM) * kScoreStride4 + (n - first) * (kN / 4), kScoreStride4,
                 gl_CooperativeMatrixLayoutRowMajor);
  }
}

// Places the blocks of the sums from `first` on, as many as the stage holds, where `first` is the counter of a loop.
// Constant indices keep the sums in registers. The branch is uniform.
void place_chosen_blocks(uint first) {
  [[unroll]] for (uint n = 0; n < kValueBlocks; ++n) {
    if (n / kStageBlocks == first / kStageBlocks) place_block(n, first);
  }
}

// Writes the blocks from the stage to the outputs.
void store_stage(TilePosition tile, uint first, uint slice) {
  subgroup_barrier();  // the blocks are complete before other lanes read them
  for (uint i = gl_SubgroupInvocationID; i < kSubgroupRows * kBlockKeys; i += kSubgroupSize) {
    const uint row = i / kBlockKeys;
    const uint column = i % kBlockKeys;
    const uint slice_dim = first * kN + column;
    const uint dim = slice * kSliceDims + slice_dim;
    const uint packed = packed_row(tile, row);
    if (packed >= packed_row_count() || slice_dim >= kSliceDims || dim >= kValueDim) continue;
    const uint head = packed_head(tile.kv_head, packed);
    const uint target = result_row(tile.batch, head, packed_query(packed), tile.split);
    store_result(target, dim,
                 uintBitsToFloat(score_stage[(subgroup_row + row) * kScoreStride4 + column / 4][column % 4]));
  }
  subgroup_barrier();  // the blocks were read before the next ones, or the next slice's scores, overwrite them
}

// The same for a constant `first`.
void store_blocks(TilePosition tile, uint first, uint slice) {
  [[unroll]] for (uint n = first; n < min(first + kStageBlocks, kValueBlocks); ++n) place_block(n, first);
  store_stage(tile, first, slice);
}

// Adds the row's start to its sum, and returns the factor of the row's sums. It comes last: probabilities relative to a
// start far above the scores would not fit 16 bits.
float add_start(TilePosition tile, uint head, inout float reference, inout float sum) {
  const float weight = start_weight(head, tile.split);
  if (weight == 0.0) return 1.0;
  const float start = start_score(head, tile.split);
  const float raised = max(reference, start - kHeadroom);
  const float factor = rescale_factor(reference, raised);
  reference = raised;
  sum = sum * factor + weight * exp2(start - raised);
  return factor;
}

void store_rows(TilePosition tile, uint slice) {
  subgroup_barrier();  // the last tile's factors were read
  [[unroll]] for (uint i = 0; i < kLaneRows; ++i) {
    float sum = row_sum[i];
    [[unroll]] for (uint lanes = kSubgroupRows; lanes < kSubgroupSize; lanes *= 2) {
      sum += subgroupShuffleXor(sum, lanes);
    }
    const uint row = lane_row + i * kSubgroupSize;
    const uint packed = packed_row(tile, row);
    if (lane_part != 0) continue;
    const uint head = packed_head(tile.kv_head, min(packed, packed_row_count() - 1u));
    const float factor = add_start(tile, head, row_reference[i], sum);
    const uint stage_row = subgroup_row + row;
    factor_stage[stage_row] = sum == 0.0 ? 0.0 : factor * drop_scale() * value_head_scale() / sum;
    if (slice == 0 && packed < packed_row_count()) {
      const uint query = packed_query(packed);
      const uint target = result_row(tile.batch, head, query, tile.split);
      store_result_lse(target, tile.batch, head, query, row_reference[i], sum);
    }
  }
  subgroup_barrier();  // factors are complete; the last tile's probabilities were read
  scale_sums();
  if (kWritesOutSteps) {
#define VKATTN_STORE_STAGE(S) store_blocks(tile, (S) * kStageBlocks, slice)
    VKATTN_STEPS((kValueBlocks + kStageBlocks - 1) / kStageBlocks, VKATTN_STORE_STAGE)
  } else {
    [[dont_unroll]] for (uint first = 0; first < kValueBlocks; first += kStageBlocks) {
      place_chosen_blocks(first);
      store_stage(tile, first, slice);
    }
  }
}

void begin_rows(TilePosition tile, int kv_length) {
  [[unroll]] for (uint i = 0; i < kLaneRows; ++i) {
    const uint packed = min(packed_row(tile, lane_row + i * kSubgroupSize), packed_row_count() - 1u);
    const uint head = packed_head(tile.kv_head, packed);
    const uint query = packed_query(packed);
    score_rows[i] = score_row(tile.batch, head, query);
    row_key_begin[i] = visible_key_begin(int(query), kv_length);
    row_key_end[i] = visible_key_end(int(query), kv_length);
    row_reference[i] = kHiddenScore;
    row_sum[i] = 0.0;
  }
  [[unroll]] for (uint i = 0; i < kRowBlocks * kValueBlocks; ++i) sums[i] = MatrixC(0.0);
}

// Computes one slice of the value dims. A head whose sums do not fit the registers takes several slices, each of which
// computes the scores again.
void attend(TilePosition tile, uint slice, int kv_length) {
  begin_rows(tile, kv_length);
  const KeyWalk walk = walk_keys(tile, kBlockRows, kv_length, int(kBlockKeys), int(kBlockKeys));
  const KeyWalk own = walk_of_rows(walk, packed_row(tile, 0), kSubgroupRows, kv_length);
  const int key_end = walk.keys.end;
  int first_key = first_step(walk);
  if (kPrefetch) fetch_tile(tile, first_key, key_end, slice);
  while (first_key < key_end) {  // tested at both ends, see lib/key_walk.glsl
    const int following_key = next_step(walk, first_key);
    workgroup_barrier();  // the previous tile or slice still reads the stages of keys and values
    if (kPrefetch) {
      place_tile(first_key, key_end);
      fetch_tile(tile, following_key, key_end, slice);
    } else {
      load_tile(tile, first_key, key_end, slice);
    }
    load_scales(tile.batch, tile.kv_head, first_key, key_end, slice);
    workgroup_barrier();  // the stages and the queries in shared memory are complete
    if (!kSkipTiles || sees_step(own, first_key)) {
      process_tile(first_key, key_end, is_masked(own, first_key));
    }
    first_key = following_key;
    if (first_key >= key_end) break;
  }
  store_rows(tile, slice);
}

void main() {
  const TilePosition tile = tile_position(kBlockRows);
  if (!tile.valid) return;  // uniform over the workgroup, so no barrier is missed
  if (kQueryInRegisters) {
    load_queries_to_registers(tile);
  } else {
    load_queries_to_shared(tile);
  }
  const int kv_length = visible_kv_length(tile.batch);
  if (kWritesOutSteps && kSlices == 1) {  // a loop around the sums, even of one slice, moves them to memory
    attend(tile, 0, kv_length);
  } else {
    [[dont_unroll]] for (uint slice = 0; slice < kSlices; ++slice) attend(tile, slice, kv_length);
  }
}
