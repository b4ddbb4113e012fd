// Features: what a problem does to its scores, which rows and keys a batch entry has, and where its keys lie. Shaders
// are built without (VKATTN_FEATURES 0) and with them; a feature that a problem does not use is left out by its
// specialization constant. All that depends on VKATTN_FEATURES is here and in lib/quantised.glsl.
//
// For all invocations of a workgroup alike, begin_entry(batch, kv_head) sets what follows from a batch entry.
#ifndef VKATTN_LIB_FEATURES
#define VKATTN_LIB_FEATURES

#include "lib/online_softmax.glsl"
#include "lib/packed.glsl"
#include "lib/specialization.glsl"

layout(set = 0, binding = VKATTN_BINDING_KV_LENGTHS, std430) readonly buffer KvLengths { int kv_lengths[]; };

// A score of -inf, which only infinities among Q and K make, hides its key from the kernels on single threads even where
// its value is no number. All steps then look through their scores.
layout(constant_id = VKATTN_SPEC_STRICT_NONFINITE) const bool kStrictNonfinite = false;

// What a row's scores depend on besides the key: heads, queries and batch entries of the window.
struct ScoreRow {
  uint batch;
  uint head;
  uint query;
  uint mask_index;  // of key 0
  float slope_log2;
};

float without_infinity(float score) {
  return kStrictNonfinite && floatBitsToUint(score) == 0xff800000u ? kHiddenScore : score;
}

#if VKATTN_FEATURES

layout(constant_id = VKATTN_SPEC_MASK_TYPE) const uint kMaskType = VKATTN_MASK_NONE;
layout(constant_id = VKATTN_SPEC_HAS_LEFT_LIMIT) const bool kHasLeftLimit = false;
layout(constant_id = VKATTN_SPEC_ALIGN_BOTTOM_RIGHT) const bool kAlignBottomRight = false;
layout(constant_id = VKATTN_SPEC_HAS_SOFTCAP) const bool kHasSoftcap = false;
layout(constant_id = VKATTN_SPEC_ALIBI) const uint kAlibi = VKATTN_ALIBI_NONE;
layout(constant_id = VKATTN_SPEC_HAS_SINKS) const bool kHasSinks = false;
layout(constant_id = VKATTN_SPEC_HAS_QUERY_LENGTHS) const bool kHasQueryLengths = false;
layout(constant_id = VKATTN_SPEC_PACKED_QUERIES) const bool kPackedQueries = false;
layout(constant_id = VKATTN_SPEC_KEY_MAPPING) const uint kKeyMapping = VKATTN_KEYS_CONTIGUOUS;
layout(constant_id = VKATTN_SPEC_CACHE_ROWS) const uint kCacheRows = 1;
layout(constant_id = VKATTN_SPEC_HAS_DROPOUT) const bool kHasDropout = false;
layout(constant_id = VKATTN_SPEC_BLOCK_ROWS) const uint kBlockMaskRows = 0;
layout(constant_id = VKATTN_SPEC_BLOCK_KEYS) const uint kBlockMaskKeys = 32;

#include "shared/feature_params.h"

layout(set = 0, binding = VKATTN_BINDING_FEATURE_PARAMS, std430) readonly buffer Features { FeatureParams features; };
layout(set = 0, binding = VKATTN_BINDING_MASK, std430) readonly buffer Mask { uint mask_words[]; };
layout(set = 0, binding = VKATTN_BINDING_QUERY_LENGTHS, std430) readonly buffer QueryLengths { int query_lengths[]; };
layout(set = 0, binding = VKATTN_BINDING_PAGE_TABLE, std430) readonly buffer PageTable { int page_table[]; };
layout(set = 0, binding = VKATTN_BINDING_ALIBI_SLOPES, std430) readonly buffer Slopes { float alibi_slopes[]; };
layout(set = 0, binding = VKATTN_BINDING_SINKS, std430) readonly buffer Sinks { float sinks[]; };
layout(set = 0, binding = VKATTN_BINDING_KEY_SCALES, std430) readonly buffer KeyScales { float key_scales[]; };
layout(set = 0, binding = VKATTN_BINDING_VALUE_SCALES, std430) readonly buffer ValueScales { float value_scales[]; };

#include "lib/score_function.glsl"

// A mask that is added to scores, rather than hiding keys only.
const bool kMaskAdds = kMaskType == VKATTN_MASK_FLOAT32 || kMaskType == VKATTN_MASK_FLOAT16;
// That finish_score() may return kHiddenScore.
const bool kScoresHide = kMaskType != VKATTN_MASK_NONE || kUserHides || kHasUserScore || kStrictNonfinite;
// That it may do so by may_see(): only steps of which a block mask says so can do without asking.
const bool kStepsHide = kMaskType != VKATTN_MASK_NONE || kUserHides;
// Keys that are looked up rather than calculated.
const bool kLooksUpKeys = kKeyMapping == VKATTN_KEYS_PAGED || kKeyMapping == VKATTN_KEYS_RING;
// That it may return something else than it was given.
const bool kFinishesScores = kScoresHide || kHasSoftcap || kAlibi != VKATTN_ALIBI_NONE || kHasUserScore;
const bool kHasBlockMask = kBlockMaskRows != 0;
// That a row may see a later key than the first.
const bool kHasKeyBegin = kHasLeftLimit || kKeyMapping == VKATTN_KEYS_RING;
uint query_first_row = 0;  // of the batch entry, in packed tensors
uint key_first_row = 0;
int entry_kv_length = 0;       // keys of the batch entry
uint entry_query_length = 0;   // rows of the batch entry in this window
int entry_position_shift = 0;  // what bottom-right alignment adds to offsets
float key_scale = 1.0;         // of float8
float value_scale = 1.0;

void begin_entry(uint batch, uint kv_head) {
  const uint lengths = params.kv_lengths_offset + batch;
  int query_length = int(features.problem_query_length);
  entry_kv_length = int(params.kv_length);
  if (kKeyMapping == VKATTN_KEYS_PACKED) {
    const ivec2 keys =
        packed_extent(kv_lengths[lengths], kv_lengths[lengths + 1u], features.total_kv_length, params.kv_length);
    key_first_row = uint(keys.x);
    entry_kv_length = keys.y;
  } else if (kHasKvLengths) {
    entry_kv_length = clamp(kv_lengths[lengths], 0, int(params.kv_length));
  }
  if (kPackedQueries) {
    const uint first = features.query_lengths_offset + batch;
    const ivec2 queries = packed_extent(query_lengths[first], query_lengths[first + 1u], features.total_query_length,
                                        features.problem_query_length);
    query_first_row = uint(queries.x);
    query_length = queries.y;
  } else if (kHasQueryLengths) {
    query_length = clamp(query_lengths[features.query_lengths_offset + batch], 0, query_length);
  }
  entry_query_length = uint(clamp(query_length - int(features.first_row), 0, int(params.query_length)));
  entry_position_shift = entry_kv_length + int(features.problem_query_length) - query_length;
  if (kKeyType == VKATTN_TYPE_FLOAT8_E4M3) key_scale = key_scales[features.key_scales_offset + kv_head];
  if (kValueType == VKATTN_TYPE_FLOAT8_E4M3) value_scale = value_scales[features.value_scales_offset + kv_head];
}

int visible_kv_length(uint batch) { return entry_kv_length; }
// A row among those that the workspace has room for.
uint workspace_row(uint batch, uint head, uint query) {
  if (kPackedQueries) return head * features.total_query_length + query_first_row + query;
  return (batch * params.query_heads + head) * params.query_length + query;
}
int readable_kv_length() { return entry_kv_length; }  // keys before it have memory
uint visible_query_length() { return entry_query_length; }
int right_alignment(int kv_length) { return kCausalMode == VKATTN_CAUSAL_BOTTOM_RIGHT ? entry_position_shift : 0; }

// The first key that a row may see. Grows with the row.
int visible_key_begin(int row, int kv_length) {
  int begin = 0;
  if (kKeyMapping == VKATTN_KEYS_RING) begin = max(kv_length - int(kCacheRows), 0);
  if (kHasLeftLimit) begin = max(begin, row + (kAlignBottomRight ? entry_position_shift : 0) + features.left_offset);
  return min(begin, kv_length);
}

// The batch entry (or page) and the row of K and V that hold a key.
uvec2 key_slot(uint batch, uint key) {
  if (kKeyMapping == VKATTN_KEYS_PACKED) return uvec2(0u, key_first_row + key);
  if (kKeyMapping == VKATTN_KEYS_RING) return uvec2(batch, key % kCacheRows);
  if (kKeyMapping == VKATTN_KEYS_PAGED) {
    const int page = page_table[features.page_table_offset + batch * features.page_table_stride + key / kCacheRows];
    return uvec2(clamp(page, 0, int(features.page_count) - 1), key % kCacheRows);
  }
  return uvec2(batch, key);
}

// tanh within a few units in the last place, also of small numbers, where a device's own may be off by more.
float accurate_tanh(float x) {
  const float square = x * x;
  // A convergent of Lambert's continued fraction; below 1 it is exact to 2e-9.
  const float small = x * (10395.0 + square * (1260.0 + 21.0 * square)) /
                      (10395.0 + square * (4725.0 + square * (210.0 + square)));
  const float large = 1.0 - 2.0 / (exp2(2.0 * kLog2E * min(abs(x), 20.0)) + 1.0);
  // A NaN, told by its bits, as min() may drop it, comes out of `small` as one.
  const bool is_small = abs(x) < 1.0 || (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u;
  return is_small ? small : (x < 0.0 ? -large : large);
}

// The slope of a head of the window (vkattn::standard_alibi_slope()).
float alibi_slope(uint head) {
  if (kAlibi == VKATTN_ALIBI_GIVEN) return alibi_slopes[features.slopes_offset + head];
  const uint h = features.first_head + head;
  const uint power = 1u << findMSB(features.problem_heads);
  return h < power ? exp2(-8.0 * float(h + 1u) / float(power)) : exp2(-4.0 * float(2u * (h - power) + 1u) / float(power));
}

ScoreRow score_row(uint batch, uint head, uint query) {
  ScoreRow row = ScoreRow(batch, head, query, 0u, 0.0);
  if (kMaskType != VKATTN_MASK_NONE) {
    row.mask_index = features.mask_offset + batch * features.mask_batch_stride + head * features.mask_head_stride +
                     query * features.mask_row_stride;
  }
  if (kAlibi != VKATTN_ALIBI_NONE) row.slope_log2 = kLog2E * alibi_slope(head);
  return row;
}

// A score with its mask, in log2 units.
float masked_score(float score, ScoreRow row, uint key) {
  const uint along_keys = key * features.mask_key_stride;
  if (kMaskType == VKATTN_MASK_BITS) {
    const bool visible = (mask_words[row.mask_index + (along_keys >> 5)] >> (along_keys & 31u) & 1u) != 0u;
    return visible ? score : kHiddenScore;
  }
  const uint index = row.mask_index + along_keys;
  if (kMaskType == VKATTN_MASK_BYTES) {
    return (mask_words[index >> 2] >> (index & 3u) * 8u & 0xffu) != 0u ? score : kHiddenScore;
  }
  const float bias = kMaskType == VKATTN_MASK_FLOAT32
                         ? uintBitsToFloat(mask_words[index])
                         : unpackHalf2x16(mask_words[index >> 1] >> (index & 1u) * 16u).x;
  // Minus infinity, told by its bits, as comparisons with it are not promised. A finite bias hides nothing.
  if (floatBitsToUint(bias) == 0xff800000u) return kHiddenScore;
  return score + (kMaskType == VKATTN_MASK_FLOAT16 ? kLog2E * bias : logit_in_log2_units(bias));
}

float capped_score(float score) {
  return kHasSoftcap ? features.softcap_log2 * accurate_tanh(score * features.softcap_log2_inverse) : score;
}

// That neither a mask nor the user's function hides the key from the row.
bool may_see(ScoreRow row, uint key) {
  if (kMaskType != VKATTN_MASK_NONE && masked_score(0.0, row, key) == kHiddenScore) return false;
  return !kUserHides || user_visible(row.batch, row.head, row.query, key);
}

// That scores of a step are looked through for hidden ones: also the user's score() may say minus infinity, at any time.
bool looks_for_hidden(bool masked) { return masked || kHasUserScore || kStrictNonfinite; }

// From a scaled score in log2 units to the one that enters the softmax: softcap, the user's function, bias and mask,
// ALiBi. kHiddenScore where the key is hidden from the row, in steps that are not masked by the user's score() only.
float finish_score(float score, ScoreRow row, uint key, bool masked) {
  score = capped_score(score);
  if (kHasUserScore) score = user_score(score, row.batch, row.head, row.query, key);
  score = without_infinity(score);
  if ((kHasUserScore || kStrictNonfinite) && score == kHiddenScore) return score;
  if (kAlibi != VKATTN_ALIBI_NONE) {
    const int shift = features.position_offset + (kAlignBottomRight ? entry_position_shift : 0);
    score -= row.slope_log2 * float(abs(int(row.query) + shift - int(key)));
  }
  if (kMaskType != VKATTN_MASK_NONE && (masked || kMaskAdds)) score = masked_score(score, row, key);
  if (kUserHides && masked && !user_visible(row.batch, row.head, row.query, key)) score = kHiddenScore;
  return score;
}

// The sink of a head; minus infinity where there is none. It counts in the first part of the keys.
float sink_of(uint head, uint split) {
  return !kHasSinks || split != 0u ? uintBitsToFloat(0xff800000u) : sinks[features.sinks_offset + head];
}

// In log2 units; kHiddenScore where there is none, or none that is a number.
float sink_score(uint head, uint split) {
  const float sink = sink_of(head, split);
  return (floatBitsToUint(sink) & 0x7fffffffu) < 0x7f800000u ? logit_in_log2_units(sink) : kHiddenScore;
}

// What the sink adds to a sum of exp2(score - sink_score()). A maximum may drop a NaN, a sum keeps it: so a sink that is
// no number, minus infinity apart, is one here.
float sink_weight(uint head, uint split) {
  const uint bits = floatBitsToUint(sink_of(head, split));
  if (bits == 0xff800000u) return 0.0;
  return (bits & 0x7fffffffu) < 0x7f800000u ? 1.0 : uintBitsToFloat(0x7fc00000u);
}

// One word of Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011) for each of 4 neighbouring keys.
uvec4 philox(uvec4 counter, uvec2 key) {
  for (uint round = 0; round < 10; ++round) {
    uint high0, low0, high1, low1;
    umulExtended(0xd2511f53u, counter.x, high0, low0);
    umulExtended(0xcd9e8d57u, counter.z, high1, low1);
    counter = uvec4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
    key += uvec2(0x9e3779b9u, 0xbb67ae85u);
  }
  return counter;
}

// A probability, or 0 where it is dropped. drop_scale() makes up for it.
float kept_probability(float probability, ScoreRow row, uint key) {
  if (!kHasDropout) return probability;
  const uint head = (features.first_batch + row.batch) * features.problem_heads + features.first_head + row.head;
  const uvec4 counter = uvec4(key / 4u, features.first_row + row.query, head, features.dropout_offset);
  const uvec4 words = philox(counter, uvec2(features.dropout_seed_low, features.dropout_seed_high));
  return words[key & 3u] >= features.dropout_threshold ? probability : 0.0;
}

float drop_scale() { return kHasDropout ? features.dropout_scale : 1.0; }

// The block mask has one word (VKATTN_BLOCK_*) for each block of rows and keys. Rows are packed ones (lib/grid.glsl).
layout(set = 0, binding = VKATTN_BINDING_BLOCK_MASK, std430) buffer BlockMask { uint block_mask[]; };

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

const bool kHasKeyBegin = false;
const bool kScoresHide = kStrictNonfinite;
const bool kStepsHide = false;
const bool kHasUserScore = false;
const bool kFinishesScores = false;
const bool kHasBlockMask = false;
const bool kLooksUpKeys = false;
const uint kBlockMaskKeys = 1;
const bool kHasDropout = false;
const bool kHasSinks = false;
const uint query_first_row = 0;

void begin_entry(uint batch, uint kv_head) {}

int visible_kv_length(uint batch) {
  const int kv_length = int(params.kv_length);
  return kHasKvLengths ? clamp(kv_lengths[params.kv_lengths_offset + batch], 0, kv_length) : kv_length;
}

uint workspace_row(uint batch, uint head, uint query) {
  return (batch * params.query_heads + head) * params.query_length + query;
}
int readable_kv_length() { return int(params.kv_length); }
uint visible_query_length() { return params.query_length; }
int right_alignment(int kv_length) { return kCausalMode == VKATTN_CAUSAL_BOTTOM_RIGHT ? kv_length : 0; }
int visible_key_begin(int row, int kv_length) { return 0; }
uvec2 key_slot(uint batch, uint key) { return uvec2(batch, key); }
ScoreRow score_row(uint batch, uint head, uint query) { return ScoreRow(batch, head, query, 0u, 0.0); }
bool looks_for_hidden(bool masked) { return masked || kStrictNonfinite; }
float finish_score(float score, ScoreRow row, uint key, bool masked) { return without_infinity(score); }
float sink_score(uint head, uint split) { return kHiddenScore; }
float sink_weight(uint head, uint split) { return 0.0; }
float kept_probability(float probability, ScoreRow row, uint key) { return probability; }
float drop_scale() { return 1.0; }
uint block_class(uint batch, uint kv_head, uint first_row, int key) { return VKATTN_BLOCK_VISIBLE; }
int next_block(int key) { return key; }
int next_visible_key(uint batch, uint kv_head, uint first_row, int first_key, int key_end) { return first_key; }

#endif

#endif
