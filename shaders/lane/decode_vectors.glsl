// The two products of lane_decode by vectors at addresses: lanes are dims in both, so K, V and Q are read as vectors of 8
// elements that lie side by side (lib/lane_vectors.glsl). It is made for llvmpipe of Mesa 26.1 with vectors of 256 bits, and has
// subgroups of 8 lanes.
//
//   scores   a pass: kPassKeys keys x kRows rows, one vector of partial sums each. Then the lanes of 8 vectors are added
//            crosswise (sum_of_eight()), and each lane has a score.
//   values   a pass: kChunk vectors of dims x kRows rows of sums, over the step's keys; a weight is read at one address
//
// Budget. Example: 4 rows, 8 keys a lane; 128 dims of e = 4 bytes in Q, K and V.
//   registers   kRows * kPassKeys sums + kRows of Q + 1 of K, or kChunk * kRows sums + kRows weights + 1 of V = 16 + 5
//   workspace   4 bytes for each word of VKATTN_LANE_DECODE_TILE_WORDS: a tile has its own = 5,632 bytes
//   memory      each multiply-add reads e / kRows bytes of K and V = 1
//   stages      4 / kPassKeys bytes of Q and 4 / (8 * kChunk) of weights for each multiply-add; each step reads and writes the
//               sums
//
// What lanes exchange lies in the workspace, as loads from shared memory have checks of bounds too. Three rules make it fast
// (docs/trials/lavapipe.md#lane_decode-by-vectors):
// - There is no control barrier (stage_barrier()).
// - What two loops need is computed before both. NIR computes equal values once, in the first loop, and hands them on in
//   registers with masked stores, and LLVM no longer sees constants: the lanes' bits and the lanes' own places are globals.
// - For the same reason two loops have no equal constants among the offsets of addresses. So the host takes a number from the
//   addresses of V, of probabilities and of sums (VKATTN_LANE_DECODE_*_BACK), and offsets here begin with it.
//
// Lost on lavapipe: exchange through shared memory, 0.499 ms in place of 0.294; a barrier of the subgroup, 0.93 s to compile in
// place of 0.07; 4 keys a value turn, 0.434 in place of 0.378; 2 vectors of dims a value pass, 0.416, and 8, 0.384; float16 by
// words, 0.264 in place of 0.216 to 0.224; lines of K and V read first, 0.440 in place of 0.378.
#ifndef VKATTN_LANE_DECODE_VECTORS
#define VKATTN_LANE_DECODE_VECTORS

#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

// The last three are of the window's tiles in the workspace: queries and places of keys, probabilities, sums.
#define VKATTN_ADDRESS_PARAMS uint64_t key_address, value_address, tile_address, weight_address, sum_address;

#include "lane/decode_rows.glsl"
#include "lib/lane_vectors.glsl"
#include "shared/lane_decode_tile.h"

layout(buffer_reference, std430, buffer_reference_align = 16) buffer StagedQuads { uvec4 quad[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer StagedNumbers { float number[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer StagedWords { uint word[]; };

layout(constant_id = VKATTN_SPEC_LANE_DECODE_SCORE_VECTORS) const uint kScoreVectors = 8;
layout(constant_id = VKATTN_SPEC_LANE_DECODE_VALUE_VECTORS) const uint kChunk = 4;

const uint kPassKeys = VKATTN_LANE_DECODE_PASS_KEYS(kRows);
const uint kLaneRows = kVector / kPassKeys;  // rows that a vector of scores has
const uint kGroups = (kRows + kLaneRows - 1) / kLaneRows;

// Places in words, of the part at tile_address, then of that at weight_address.
const uint kKeyPlaces = 0, kQueries = kStepKeys;
const uint kWeights = VKATTN_LANE_DECODE_WEIGHT_BACK / 4, kValuePlaces = kWeights + kGroups * kLaneRows * kStepKeys;
const uint kSums = VKATTN_LANE_DECODE_SUM_BACK / 4;

uint64_t tile_at, weights_at, sums_at;              // of this tile
uint64_t lane_tile_at, lane_weights_at, lane_sums_at;  // there, of the lane's own word in a vector
uint64_t lane_scores_at;                            // the lane's score in a vector of sum_of_eight()

float staged_vector(uint64_t at, uint quad) {
  StagedQuads words = StagedQuads(at);
  return uintBitsToFloat(vector_of(words.quad[quad], words.quad[quad + 1]));
}

// Where rows do not count from the bound range, it is the tensor's first byte there (lib/tensors.glsl).
uint first_bytes(uint offset, uint type) { return type >= VKATTN_TYPE_Q8_0 ? offset : 0; }

// Stages the rows in K and V of the step's keys, in bytes.
void find_keys(TilePosition tile, int first_key, int key_end) {
  stage_barrier();  // the last step's were read
  [[unroll]] for (uint u = 0; u < kLaneKeys; ++u) {
    const uvec2 slot = key_slot(tile.batch, source_key(lane_key(first_key, u), key_end));
    const uint key_bytes = bytes_of(key_row_at(slot, tile.kv_head), kKeyType);
    const uint value_bytes = bytes_of(value_row_at(slot, tile.kv_head), kValueType);
    StagedWords(lane_tile_at).word[kKeyPlaces + u * kThreads] = key_bytes + first_bytes(params.key_offset, kKeyType);
    StagedWords(lane_weights_at).word[kValuePlaces + u * kThreads] =
        value_bytes + first_bytes(params.value_offset, kValueType);
  }
  stage_barrier();  // they are complete
}

float partial[kGroups * 8];

// The scores of kPassKeys keys.
void score_pass(uint key) {
  [[unroll]] for (uint i = 0; i < kGroups * 8; ++i) partial[i] = 0.0;  // rows that are not there keep it
  StagedWords places = StagedWords(tile_at + uint64_t(key * 4));
  uint64_t rows[kPassKeys];
  [[unroll]] for (uint j = 0; j < kPassKeys; ++j) rows[j] = key_address + uint64_t(places.word[kKeyPlaces + j]);
  uint pass = 0;
  [[dont_unroll]] do {
    const uint64_t queries = tile_at + uint64_t(pass * (kScoreVectors * 32));
    const uint64_t dims = uint64_t(pass * bytes_of(kScoreVectors * 8, kKeyType));
    [[unroll]] for (uint i = 0; i < kScoreVectors; ++i) {
      float query[kRows];
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        query[r] = staged_vector(queries, (kQueries + r * kHeadDim) / 4 + 2 * i);
      }
      [[unroll]] for (uint j = 0; j < kPassKeys; ++j) {
        const float element = vector_at(rows[j] + dims, 0, i, kKeyType);
        [[unroll]] for (uint r = 0; r < kRows; ++r) partial[r * kPassKeys + j] += query[r] * element;
      }
    }
    pass += 1;
  } while (pass < kHeadDim / (8 * kScoreVectors));
  [[unroll]] for (uint g = 0; g < kGroups; ++g) {
    StagedNumbers(lane_scores_at + uint64_t(key * 4)).number[kWeights + g * kLaneRows * kStepKeys] =
        sum_of_eight(vec4(partial[g * 8], partial[g * 8 + 1], partial[g * 8 + 2], partial[g * 8 + 3]),
                     vec4(partial[g * 8 + 4], partial[g * 8 + 5], partial[g * 8 + 6], partial[g * 8 + 7]));
  }
}

// scores = q k, in log2 units. A row's scores of a step lie side by side in the stage.
void compute_scores(TilePosition tile, int first_key, int key_end, bool masked) {
  const uint keys = masked ? min(kStepKeys, uint(key_end - first_key)) : kStepKeys;
  uint key = 0;
  [[dont_unroll]] do {
    score_pass(key);
    key += kPassKeys;
  } while (key < keys);
  stage_barrier();  // the scores are complete
  [[unroll]] for (uint i = 0; i < kLaneKeys * kRows; ++i) {
    scores[i] = staged_vector(weights_at, (kWeights + i % kRows * kStepKeys + i / kRows * kThreads) / 4);
    if (kKeyType == VKATTN_TYPE_FLOAT8_E4M3) scores[i] *= key_scale_of(0, 0);
  }
}

// Hands the step's probabilities to all lanes. Each lane has its own keys in the stage, also where dropout takes them out.
void stage_weights(int first_key) {
  stage_barrier();  // all scores were read
  StagedNumbers own = StagedNumbers(lane_weights_at);
  [[unroll]] for (uint i = 0; i < kLaneKeys * kRows; ++i) {
    own.number[kWeights + i % kRows * kStepKeys + i / kRows * kThreads] = scores[i];
  }
  if (kHasDropout) {
    uint u = 0;
    [[dont_unroll]] do {
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        const uint place = kWeights + r * kStepKeys + u * kThreads;
        own.number[place] = kept_weight(own.number[place], r, lane_key(first_key, u));
      }
      u += 1;
    } while (u < kLaneKeys);
  }
  stage_barrier();  // the weights are complete
}

float chunk_sums[kRows * kChunk];

// Adds kValueKeys keys to the sums. Hidden V rows are skipped, not multiplied by 0.
void value_pass(uint key, uint64_t dims, bool masked) {
  const uint64_t staged = weights_at + uint64_t(key * 4);
  [[unroll]] for (uint j = 0; j < kValueKeys; ++j) {
    const uint64_t row = value_address + dims + uint64_t(StagedWords(staged).word[kValuePlaces + j]);
    float weight[kRows];
    [[unroll]] for (uint r = 0; r < kRows; ++r) weight[r] = StagedNumbers(staged).number[kWeights + r * kStepKeys + j];
    [[unroll]] for (uint i = 0; i < kChunk; ++i) {
      const float value = vector_at(row, VKATTN_LANE_DECODE_VALUE_BACK, i, kValueType);
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        const float product = weight[r] * value;
        chunk_sums[r * kChunk + i] += looks_for_hidden(masked) && weight[r] < 0.0 ? 0.0 : product;
      }
    }
  }
}

// sums += p v, over kChunk vectors of dims at a time.
void add_values(TilePosition tile, int first_key, int key_end, bool masked) {
  const uint keys = masked ? min(kStepKeys, uint(key_end - first_key)) : kStepKeys;
  uint chunk = 0;
  [[dont_unroll]] do {
    const uint64_t staged = uint64_t(chunk * (kChunk * 32));
    [[unroll]] for (uint i = 0; i < kRows * kChunk; ++i) {
      const float sum = staged_vector(sums_at + staged, (kSums + i / kChunk * kValueDim) / 4 + i % kChunk * 2);
      chunk_sums[i] = sum * row_rescale[i / kChunk];
    }
    const uint64_t dims = uint64_t(chunk * bytes_of(kChunk * 8, kValueType));
    uint key = 0;
    [[dont_unroll]] do {
      value_pass(key, dims, masked);
      key += kValueKeys;
    } while (key < keys);
    StagedNumbers own = StagedNumbers(lane_sums_at + staged);
    [[unroll]] for (uint i = 0; i < kRows * kChunk; ++i) {
      own.number[kSums + i / kChunk * kValueDim + i % kChunk * 8] = chunk_sums[i];
    }
    chunk += 1;
  } while (chunk < kValueDim / (8 * kChunk));
}

void find_places(TilePosition tile) {
  begin_vectors();
  const uint row_tile = (params.first_tile + workgroup_number()) / (params.window_parts >> 16);
  const uint words = VKATTN_LANE_DECODE_TILE_WORDS(kRows, kLaneKeys, kHeadDim, kValueDim);
  const uint place = (row_tile * params.kv_splits + tile.split) * words * 4;
  const uint weights = place + 4 * VKATTN_LANE_DECODE_QUERY_WORDS(kRows, kLaneKeys, kHeadDim);
  const uint sums = weights + 4 * VKATTN_LANE_DECODE_WEIGHT_WORDS(kRows, kLaneKeys);
  tile_at = tile_address + uint64_t(place);
  weights_at = weight_address + uint64_t(weights);
  sums_at = sum_address + uint64_t(sums);
  lane_tile_at = tile_at + uint64_t(lane() * 4);
  lane_weights_at = weights_at + uint64_t(lane() * 4);
  lane_sums_at = sums_at + uint64_t(lane() * 4);
  lane_scores_at = weights_at + uint64_t((lane() / kPassKeys * kStepKeys + lane() % kPassKeys) * 4);
}

// Stages scaled queries, their dims in the order of K's vectors, and sums of 0.
void begin_stages(TilePosition tile) {
  find_places(tile);
  uint r = 0;
  [[dont_unroll]] do {
    const uint row = packed_row(tile, r);
    const uint source = query_row(tile.batch, packed_head(tile.kv_head, row), packed_query(row));
    uint i = 0;
    [[dont_unroll]] do {
      const uint place = kQueries + r * kHeadDim + i * 8;
      StagedNumbers(lane_tile_at + uint64_t(place * 4)).number[0] = query_at(source, dim_of(i, kKeyType)) * params.scale_log2;
      i += 1;
    } while (i * 8 < kHeadDim);
    r += 1;
  } while (r < kRows);
  uint place = 0;
  [[dont_unroll]] do {
    StagedNumbers(lane_sums_at + uint64_t(VKATTN_LANE_DECODE_SUM_BACK + place * 4)).number[0] = 0.0;
    place += 8;
  } while (place < kRows * kValueDim);
  stage_barrier();  // the queries are complete
}

void store_rows(TilePosition tile) {
  float inverse[kRows];
  const float scale = kValueType == VKATTN_TYPE_FLOAT8_E4M3 ? value_scale_of(0, 0) : 1.0;
  [[unroll]] for (uint r = 0; r < kRows; ++r) inverse[r] = finish_row(r) * scale;
  uint i = 0;
  [[dont_unroll]] do {
    StagedNumbers own = StagedNumbers(lane_sums_at + uint64_t(i * 32));
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      const float sum = own.number[kSums + r * kValueDim];
      // A row that sees no key is 0, whatever the scale is.
      const float result = kValueType == VKATTN_TYPE_FLOAT8_E4M3 && sum == 0.0 ? 0.0 : sum * inverse[r];
      if (has_row(tile, r)) store_result(result_index[r], dim_of(i, kValueType), result);
    }
    i += 1;
  } while (i * 8 < kValueDim);
}

#endif
