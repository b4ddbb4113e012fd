// The mask tensor: numbers that are added to scores, or bytes or bits that hide keys.
#ifndef VKATTN_LIB_MASK
#define VKATTN_LIB_MASK

#include "lib/features.glsl"
#include "lib/online_softmax.glsl"

#if VKATTN_FEATURES

layout(set = 0, binding = VKATTN_BINDING_MASK, std430) readonly buffer Mask { uint mask_words[]; };

// True if the mask is added to scores; other masks only hide keys.
const bool kMaskAdds = kMaskType == VKATTN_MASK_FLOAT32 || kMaskType == VKATTN_MASK_FLOAT16;

// The index of a row's mask for key 0.
uint mask_row(uint batch, uint head, uint query) {
  if (kMaskType == VKATTN_MASK_NONE) return 0u;
  return features.mask_offset + batch * features.mask_batch_stride + head * features.mask_head_stride +
         query * features.mask_row_stride;
}

// The score after the mask, in log2 units; kHiddenScore if the mask hides the key. mask_index is that of the row.
float masked_score(float score, uint mask_index, uint key) {
  const uint along_keys = key * features.mask_key_stride;
  if (kMaskType == VKATTN_MASK_BITS) {
    const bool visible = (mask_words[mask_index + (along_keys >> 5)] >> (along_keys & 31u) & 1u) != 0u;
    return visible ? score : kHiddenScore;
  }
  const uint index = mask_index + along_keys;
  if (kMaskType == VKATTN_MASK_BYTES) {
    return (mask_words[index >> 2] >> (index & 3u) * 8u & 0xffu) != 0u ? score : kHiddenScore;
  }
  const float bias = kMaskType == VKATTN_MASK_FLOAT32
                         ? uintBitsToFloat(mask_words[index])
                         : unpackHalf2x16(mask_words[index >> 1] >> (index & 1u) * 16u).x;
  // Compares bits, as GLSL does not promise comparisons with infinities. A finite bias hides nothing.
  if (floatBitsToUint(bias) == 0xff800000u) return kHiddenScore;
  return score + (kMaskType == VKATTN_MASK_FLOAT16 ? kLog2E * bias : logit_in_log2_units(bias));
}

#endif

#endif
