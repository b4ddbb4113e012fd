// The start of a row's softmax before any key: the attention sink, a logit of each head that has no value.
#ifndef VKATTN_LIB_SOFTMAX_START
#define VKATTN_LIB_SOFTMAX_START

#include "lib/features.glsl"
#include "lib/online_softmax.glsl"

#if VKATTN_FEATURES

layout(constant_id = VKATTN_SPEC_HAS_SINKS) const bool kHasStart = false;
layout(set = 0, binding = VKATTN_BINDING_SINKS, std430) readonly buffer Sinks { float sinks[]; };

// The sink of a head; minus infinity if there is none. It counts in the first part of the keys only.
float sink_of(uint head, uint split) {
  return !kHasStart || split != 0u ? uintBitsToFloat(0xff800000u) : sinks[features.sinks_offset + head];
}

// The score of the start in log2 units; kHiddenScore without a start or if its sink is not finite.
float start_score(uint head, uint split) {
  const float sink = sink_of(head, split);
  return (floatBitsToUint(sink) & 0x7fffffffu) < 0x7f800000u ? logit_in_log2_units(sink) : kHiddenScore;
}

// The start's term in a sum of exp2(score - start_score()): 0 for minus infinity, NaN for any other sink that is not finite,
// as a maximum may drop a NaN but a sum keeps it.
float start_weight(uint head, uint split) {
  const uint bits = floatBitsToUint(sink_of(head, split));
  if (bits == 0xff800000u) return 0.0;
  return (bits & 0x7fffffffu) < 0x7f800000u ? 1.0 : uintBitsToFloat(0x7fc00000u);
}

#else

const bool kHasStart = false;
float start_score(uint head, uint split) { return kHiddenScore; }
float start_weight(uint head, uint split) { return 0.0; }

#endif

#endif
