// The part of the workspace that a tile of lane_decode has to itself where it reads K and V by vectors
// (shaders/lane/decode_vectors.glsl). GLSL and C++ read this.
#ifndef VKATTN_SHARED_LANE_DECODE_TILE_H
#define VKATTN_SHARED_LANE_DECODE_TILE_H

// Keys of a pass over scores: 8 / keys rows share a vector of results.
#define VKATTN_LANE_DECODE_PASS_KEYS(ROWS) ((ROWS) <= 3 ? 8 : (ROWS) <= 6 ? 4 : 2)
#define VKATTN_LANE_DECODE_SCORE_ROWS(ROWS) ((ROWS) <= 3 ? (ROWS) : ((ROWS) + 1) / 2 * 2 <= 6 ? ((ROWS) + 1) / 2 * 2 : 8)

// Words of the three parts, of subgroups of 8 lanes: rows in K and queries; probabilities and rows in V; sums.
#define VKATTN_LANE_DECODE_QUERY_WORDS(ROWS, LANE_KEYS, HEAD_DIM) (8 * (LANE_KEYS) + (ROWS) * (HEAD_DIM))
#define VKATTN_LANE_DECODE_WEIGHT_WORDS(ROWS, LANE_KEYS) ((VKATTN_LANE_DECODE_SCORE_ROWS(ROWS) + 1) * 8 * (LANE_KEYS))
#define VKATTN_LANE_DECODE_TILE_WORDS(ROWS, LANE_KEYS, HEAD_DIM, VALUE_DIM) \
  (VKATTN_LANE_DECODE_QUERY_WORDS(ROWS, LANE_KEYS, HEAD_DIM) +              \
   VKATTN_LANE_DECODE_WEIGHT_WORDS(ROWS, LANE_KEYS) + (ROWS) * (VALUE_DIM))

// Bytes that the host takes from the addresses of V, of probabilities and of sums: each is more than the offsets before it.
#define VKATTN_LANE_DECODE_VALUE_BACK 1048576
#define VKATTN_LANE_DECODE_WEIGHT_BACK 2097152
#define VKATTN_LANE_DECODE_SUM_BACK 4194304

#endif
