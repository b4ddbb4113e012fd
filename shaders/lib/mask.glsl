// The mask tensor: numbers that are added to scores, by themselves or times a slope, or bytes or bits that hide keys.
#ifndef VKATTN_LIB_MASK
#define VKATTN_LIB_MASK

#include "lib/features.glsl"
#include "lib/online_softmax.glsl"

#if VKATTN_FEATURES

layout(constant_id = VKATTN_SPEC_MASK_HEADS_REPEAT) const bool kMaskHeadsRepeat = false;

layout(set = 0, binding = VKATTN_BINDING_MASK, std430) readonly buffer Mask { uint mask_words[]; };

// True if the mask is added to scores; other masks only hide keys.
const bool kMaskAdds = kMaskType == VKATTN_MASK_FLOAT32 || kMaskType == VKATTN_MASK_FLOAT16;

// The index of a row's mask for key 0. Batch entry, head and query count within the window.
uint mask_row(uint batch, uint head, uint query) {
  if (kMaskType == VKATTN_MASK_NONE) return 0u;
  // A window has all heads of a mask whose heads repeat.
  const uint mask_head = kMaskHeadsRepeat ? (features.first_head + head) % features.mask_heads : head;
  return features.mask_offset + batch * features.mask_batch_stride + mask_head * features.mask_head_stride +
         query * features.mask_row_stride;
}

// Whether a mask of bits or bytes shows the key. mask_index is that of the row, here and below.
bool mask_shows(uint mask_index, uint key) {
  const uint along_keys = key * features.mask_key_stride;
  if (kMaskType == VKATTN_MASK_BITS) {
    return (mask_words[mask_index + (along_keys >> 5)] >> (along_keys & 31u) & 1u) != 0u;
  }
  const uint index = mask_index + along_keys;
  return (mask_words[index >> 2] >> (index & 3u) * 8u & 0xffu) != 0u;
}

// The number of an additive mask.
float mask_number(uint mask_index, uint key) {
  const uint index = mask_index + key * features.mask_key_stride;
  return kMaskType == VKATTN_MASK_FLOAT32 ? uintBitsToFloat(mask_words[index])
                                          : unpackHalf2x16(mask_words[index >> 1] >> (index & 1u) * 16u).x;
}

// The largest number of an additive mask whose product with the slope is a score in log2 units, at most 2.3e38 * log2(e).
float most_mask_number(float slope_log2) {
  const float size = abs(slope_log2);
  return size < 0.976 ? 3.402823466e+38 : 2.3e38 * kLog2E / size;
}

// What the mask adds to a score, in log2 units: its number, or, if `scales`, that times the slope. Larger products than the
// largest score count as this, and plus infinity as NaN. The number is not minus infinity.
float mask_in_log2_units(float number, bool scales, float slope_log2, float most) {
  if (!scales) return kMaskType == VKATTN_MASK_FLOAT16 ? kLog2E * number : logit_in_log2_units(number);
  return is_finite(number) ? slope_log2 * clamp(number, -most, most) : uintBitsToFloat(0x7fc00000u);
}

#endif

#endif
