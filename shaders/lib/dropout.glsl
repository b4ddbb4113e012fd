// Dropout of probabilities by random words that depend on position and seed alone.
#ifndef VKATTN_LIB_DROPOUT
#define VKATTN_LIB_DROPOUT

#include "lib/scores.glsl"

#if VKATTN_FEATURES

layout(constant_id = VKATTN_SPEC_HAS_DROPOUT) const bool kHasDropout = false;

// Four random words of Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011), one for each of 4 neighbouring keys.
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

// The words of keys 4 * four to 4 * four + 3.
uvec4 drop_words(ScoreRow row, uint four) {
  const uint head = (features.first_batch + row.batch) * features.problem_heads + features.first_head + row.head;
  const uvec4 counter = uvec4(four, features.first_row + row.query, head, features.dropout_offset);
  return philox(counter, uvec2(features.dropout_seed_low, features.dropout_seed_high));
}

// The probability, or 0 if dropout drops it. drop_scale() makes up for dropped ones.
float kept_probability(float probability, ScoreRow row, uint key) {
  if (!kHasDropout) return probability;
  return drop_words(row, key / 4u)[key & 3u] >= features.dropout_threshold ? probability : 0.0;
}

// A bit for each of up to 32 neighbouring keys: dropout keeps it. Four keys share a call of philox(), and code that is
// unrolled over keys contains philox() once.
uint keys_that_are_kept(ScoreRow row, uint first_key, uint keys) {
  if (!kHasDropout) return 0xffffffffu;
  const uint before = first_key & 3u;  // keys of the first four that lie before first_key
  uint bits = 0, place = 0;
  [[dont_unroll]] do {
    const uvec4 kept = uvec4(greaterThanEqual(drop_words(row, (first_key + place) / 4u), uvec4(features.dropout_threshold)));
    const uint four = kept.x | kept.y << 1 | kept.z << 2 | kept.w << 3;
    bits |= place < before ? four >> before : four << place - before;
    place += 4;
  } while (place < before + keys);
  return bits;
}

float drop_scale() { return kHasDropout ? features.dropout_scale : 1.0; }

#else

const bool kHasDropout = false;
float kept_probability(float probability, ScoreRow row, uint key) { return probability; }
uint keys_that_are_kept(ScoreRow row, uint first_key, uint keys) { return 0xffffffffu; }
float drop_scale() { return 1.0; }

#endif

bool is_kept(uint kept, uint key) { return !kHasDropout || (kept >> key & 1u) != 0u; }

#endif
