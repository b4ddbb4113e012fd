// Dropout of probabilities by random words that follow from position and seed alone.
#ifndef VKATTN_LIB_DROPOUT
#define VKATTN_LIB_DROPOUT

#include "lib/scores.glsl"

#if VKATTN_FEATURES

layout(constant_id = VKATTN_SPEC_HAS_DROPOUT) const bool kHasDropout = false;

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

#else

const bool kHasDropout = false;
float kept_probability(float probability, ScoreRow row, uint key) { return probability; }
float drop_scale() { return 1.0; }

#endif

#endif
