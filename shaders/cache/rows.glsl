// The two tensors of cache_append.comp, as stored bits: rows that it reads, and rows that it writes.
#ifndef VKATTN_CACHE_ROWS
#define VKATTN_CACHE_ROWS

#include "cache/params.glsl"
#include "lib/forms.glsl"
#include "lib/types.glsl"

layout(constant_id = VKATTN_APPEND_SPEC_DIMS) const uint kDims = 64;
layout(constant_id = VKATTN_APPEND_SPEC_SOURCE_TYPE) const uint kSourceType = VKATTN_TYPE_FLOAT32;
layout(constant_id = VKATTN_APPEND_SPEC_TARGET_TYPE) const uint kTargetType = VKATTN_TYPE_FLOAT32;
layout(constant_id = VKATTN_APPEND_SPEC_SOURCE_DIM_STRIDE) const uint kSourceDimStride = 1;
layout(constant_id = VKATTN_APPEND_SPEC_TARGET_DIM_STRIDE) const uint kTargetDimStride = 1;
layout(constant_id = VKATTN_APPEND_SPEC_SOURCE_QUADS) const bool kSourceQuads = false;
layout(constant_id = VKATTN_APPEND_SPEC_TARGET_QUADS) const bool kTargetQuads = false;

// None is `restrict`, as queries may be rotated in place.
layout(set = 0, binding = VKATTN_APPEND_BINDING_SOURCE, std430) readonly buffer SourceWords { uint source_words[]; };
layout(set = 0, binding = VKATTN_APPEND_BINDING_SOURCE, std430) readonly buffer SourcePairs { uvec2 source_pairs[]; };
layout(set = 0, binding = VKATTN_APPEND_BINDING_SOURCE, std430) readonly buffer SourceQuads { uvec4 source_quads[]; };
layout(set = 0, binding = VKATTN_APPEND_BINDING_TARGET, std430) buffer TargetWords { uint target_words[]; };
layout(set = 0, binding = VKATTN_APPEND_BINDING_TARGET, std430) buffer TargetPairs { uvec2 target_pairs[]; };
layout(set = 0, binding = VKATTN_APPEND_BINDING_TARGET, std430) buffer TargetQuads { uvec4 target_quads[]; };

// Stores a part of a word; another invocation may store the other parts. Each part has one writer, so the atomics give the
// same word in any order.
void store_part(uint word, uint shift, uint mask, uint bits) {
  atomicAnd(target_words[word], ~(mask << shift));
  atomicOr(target_words[word], bits << shift);
}

#if VKATTN_STORAGE_16BIT
layout(set = 0, binding = VKATTN_APPEND_BINDING_SOURCE, std430) readonly buffer SourceHalves {
  uint16_t source_halves[];
};
layout(set = 0, binding = VKATTN_APPEND_BINDING_TARGET, std430) buffer TargetHalves { uint16_t target_halves[]; };

uint source_half(uint index) { return uint(source_halves[index]); }
void store_half(uint index, uint bits) { target_halves[index] = uint16_t(bits); }
#else
uint source_half(uint index) { return (source_words[index >> 1] >> ((index & 1u) * 16u)) & 0xffffu; }
void store_half(uint index, uint bits) { store_part(index >> 1, (index & 1u) * 16u, 0xffffu, bits); }
#endif

uint source_bits(uint index) {
  return kSourceType == VKATTN_TYPE_FLOAT32 ? source_words[index] : source_half(index);
}

void store_bits(uint index, uint bits) {
  if (kTargetType == VKATTN_TYPE_FLOAT32) {
    target_words[index] = bits;
  } else if (kTargetType == VKATTN_TYPE_FLOAT8_E4M3) {
    store_part(index >> 2, (index & 3u) * 8u, 0xffu, bits);
  } else {
    store_half(index, bits);
  }
}

// Dims dim .. dim + 3 of a row that lie before `end`; 0 for the others.
uvec4 source_bits4(uint row_index, uint dim, uint end) {
  if (kSourceQuads && dim + 4u <= end) {
    const uint index = (row_index + dim) >> 2;
    if (kSourceType == VKATTN_TYPE_FLOAT32) return source_quads[index];
    const uvec2 pair = source_pairs[index];
    return uvec4(pair.x & 0xffffu, pair.x >> 16, pair.y & 0xffffu, pair.y >> 16);
  }
  uvec4 bits = uvec4(0u);
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    if (dim + i < end) bits[i] = source_bits(row_index + (dim + i) * kSourceDimStride);
  }
  return bits;
}

void store_bits4(uint row_index, uint dim, uint end, uvec4 bits) {
  if (kTargetQuads && dim + 4u <= end) {
    const uint index = (row_index + dim) >> 2;
    if (kTargetType == VKATTN_TYPE_FLOAT32) {
      target_quads[index] = bits;
    } else if (kTargetType == VKATTN_TYPE_FLOAT8_E4M3) {
      target_words[index] = bits.x | bits.y << 8 | bits.z << 16 | bits.w << 24;
    } else {
      target_pairs[index] = uvec2(bits.x | bits.y << 16, bits.z | bits.w << 16);
    }
    return;
  }
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    if (dim + i < end) store_bits(row_index + (dim + i) * kTargetDimStride, bits[i]);
  }
}

vec4 decode4(uvec4 bits) {
  if (kSourceType == VKATTN_TYPE_FLOAT32) return uintBitsToFloat(bits);
  return vec4(decode_16bit(bits.x, kSourceType), decode_16bit(bits.y, kSourceType), decode_16bit(bits.z, kSourceType),
              decode_16bit(bits.w, kSourceType));
}

#endif
