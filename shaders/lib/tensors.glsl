// Tensors in storage buffers. Each has one binding, seen as words, as 8 or 16 bytes, and, on devices with 16-bit storage, as
// 16-bit elements. Element indices are relative to the bound range.
//
// For each input NAME this defines
//   uint  NAME_row(batch, head, row)   index of the row's first element; for K and V the row of a key in the cache
//   float NAME_at(row_index, dim)      one element
//   vec4  NAME_full4(row_index, dim)   elements dim .. dim + 3, all of which exist; dim is a multiple of 4
//   vec4  NAME_part4(row_index, dim)   elements dim .. dim + 3, 0 beyond the last dim
//   vec4  NAME_at4(row_index, dim)     NAME_full4 or NAME_part4, whichever is needed
#ifndef VKATTN_LIB_TENSORS
#define VKATTN_LIB_TENSORS

#include "lib/entries.glsl"
#include "lib/online_softmax.glsl"
#include "lib/quantised.glsl"
#include "lib/types.glsl"
#include "lib/views.glsl"

// BY_ADDRESS: 4 elements of float32 are loaded by an address, see VKATTN_QUAD. Kernels that know better define
// VKATTN_KEYS_BY_ADDRESS, for K and V, or VKATTN_QUERIES_BY_ADDRESS, for Q and dO.
#ifndef VKATTN_QUERIES_BY_ADDRESS
#define VKATTN_QUERIES_BY_ADDRESS false
#endif
#ifndef VKATTN_KEYS_BY_ADDRESS
#define VKATTN_KEYS_BY_ADDRESS false
#endif

// If the type is quantised, row indices count from the tensor's first element and NAME_offset is in bytes; otherwise row
// indices count from the bound range.
#define VKATTN_INPUT(NAME, BINDING, TYPE, DIMS, DIM_STRIDE, VECTOR_LOADS, BY_ADDRESS)                           \
  layout(set = 0, binding = BINDING, std430) readonly buffer NAME##Words { uint NAME##_words[]; };              \
  VKATTN_HALVES(NAME, BINDING)                                                                                  \
  VKATTN_VECTORS(NAME, BINDING)                                                                                 \
  VKATTN_QUANTISED_INPUT(NAME, TYPE, VECTOR_LOADS)                                                              \
                                                                                                                \
  float NAME##_at(uint row_index, uint dim) {                                                                   \
    const uint index = row_index + dim * DIM_STRIDE;                                                            \
    if (TYPE >= VKATTN_TYPE_Q8_0) return NAME##_quantised(index);                                               \
    if (TYPE == VKATTN_TYPE_FLOAT32) return uintBitsToFloat(NAME##_words[index]);                               \
    return decode_16bit(VKATTN_HALF_BITS(NAME, index), TYPE);                                                   \
  }                                                                                                             \
                                                                                                                \
  vec4 NAME##_full4(uint row_index, uint dim) {                                                                 \
    if (TYPE >= VKATTN_TYPE_Q8_0 && DIM_STRIDE == 1u) {                                                         \
      return NAME##_quantised4(row_index, dim);                                                                 \
    }                                                                                                           \
    if (!VECTOR_LOADS) {                                                                                        \
      return vec4(NAME##_at(row_index, dim), NAME##_at(row_index, dim + 1u), NAME##_at(row_index, dim + 2u),    \
                  NAME##_at(row_index, dim + 3u));                                                              \
    }                                                                                                           \
    const uint index = (row_index + dim) >> 2;                                                                  \
    if (TYPE == VKATTN_TYPE_FLOAT32) {                                                                          \
      if (BY_ADDRESS) return uintBitsToFloat(VKATTN_QUAD(NAME, index));                                         \
      return uintBitsToFloat(VKATTN_LOAD4(NAME, index));                                                        \
    }                                                                                                           \
    const uvec2 pair = VKATTN_LOAD2(NAME, index);                                                               \
    return vec4(decode_pair(pair.x, TYPE), decode_pair(pair.y, TYPE));                                          \
  }                                                                                                             \
                                                                                                                \
  vec4 NAME##_part4(uint row_index, uint dim) {                                                                 \
    vec4 result = vec4(0.0);                                                                                    \
    if (dim < DIMS) result.x = NAME##_at(row_index, dim);                                                       \
    if (dim + 1u < DIMS) result.y = NAME##_at(row_index, dim + 1u);                                             \
    if (dim + 2u < DIMS) result.z = NAME##_at(row_index, dim + 2u);                                             \
    if (dim + 3u < DIMS) result.w = NAME##_at(row_index, dim + 3u);                                             \
    return result;                                                                                              \
  }                                                                                                             \
                                                                                                                \
  vec4 NAME##_at4(uint row_index, uint dim) {                                                                   \
    return dim + 4u <= DIMS ? NAME##_full4(row_index, dim) : NAME##_part4(row_index, dim);                      \
  }

#define VKATTN_QUANTISED_INPUT VKATTN_NO_QUANTISED_INPUT
VKATTN_INPUT(query, VKATTN_BINDING_QUERY, kQueryType, kHeadDim, kQueryDimStride, kQueryVectorLoads,
             VKATTN_QUERIES_BY_ADDRESS)
#undef VKATTN_QUANTISED_INPUT
#define VKATTN_QUANTISED_INPUT VKATTN_QUANTISED_KEYS
VKATTN_INPUT(key, VKATTN_BINDING_KEY, kKeyType, kHeadDim, kKeyDimStride, kKeyVectorLoads, VKATTN_KEYS_BY_ADDRESS)
VKATTN_INPUT(value, VKATTN_BINDING_VALUE, kValueType, kValueDim, kValueDimStride, kValueVectorLoads,
             VKATTN_KEYS_BY_ADDRESS)

uint query_row(uint batch, uint head, uint row) {
  return params.query_offset + batch * params.query_batch_stride + head * params.query_head_stride +
         (query_first_row + row) * params.query_row_stride;
}

uint key_row_at(uvec2 slot, uint head) {
  return (kKeyType >= VKATTN_TYPE_Q8_0 ? 0u : params.key_offset) + slot.x * params.key_batch_stride +
         head * params.key_head_stride + slot.y * params.key_row_stride;
}

uint value_row_at(uvec2 slot, uint head) {
  return (kValueType >= VKATTN_TYPE_Q8_0 ? 0u : params.value_offset) + slot.x * params.value_batch_stride +
         head * params.value_head_stride + slot.y * params.value_row_stride;
}

uint key_row(uint batch, uint head, uint key) {
  return key_row_at(key_slot(batch, key), head);
}

uint value_row(uint batch, uint head, uint key) {
  return value_row_at(key_slot(batch, key), head);
}

// Dims that a pass over rows in memory loads or stores at a time. A CPU moves 8 bytes of a lane as fast as 4.
#if VKATTN_WIDE_LOADS
const uint kPassDims = 4;
#else
const uint kPassDims = 1;
#endif

layout(set = 0, binding = VKATTN_BINDING_OUTPUT, std430) buffer OutputWords { uint output_words[]; };
layout(set = 0, binding = VKATTN_BINDING_LSE, std430) buffer LseWords { uint lse_words[]; };

uint output_row(uint batch, uint head, uint row) {
  return params.output_offset + batch * params.output_batch_stride + head * params.output_head_stride +
         (query_first_row + row) * params.output_row_stride;
}

#if VKATTN_STORAGE_16BIT
layout(set = 0, binding = VKATTN_BINDING_OUTPUT, std430) buffer OutputHalves { uint16_t output_halves[]; };

void store_output_16bit(uint index, uint bits) { output_halves[index] = uint16_t(bits); }
#else
// Two elements share a word and may belong to different invocations, even to different rows. Each half has one writer, so
// the two atomics give the same word in any order.
void store_output_16bit(uint index, uint bits) {
  const uint shift = (index & 1u) * 16u;
  atomicAnd(output_words[index >> 1], ~(0xffffu << shift));
  atomicOr(output_words[index >> 1], bits << shift);
}
#endif

void store_output(uint row_index, uint dim, float value) {
  const uint index = row_index + dim * kOutputDimStride;
  if (kOutputType == VKATTN_TYPE_FLOAT32) {
    output_words[index] = floatBitsToUint(value);
  } else {
    store_output_16bit(index, encode_16bit(value, kOutputType));
  }
}

uint lse_index(uint batch, uint head, uint row) {
  return params.lse_offset + batch * params.lse_batch_stride + head * params.lse_head_stride +
         (query_first_row + row) * params.lse_row_stride;
}

// Stores the log-sum-exp of a row, from its maximum and sum in log2 units; the bits of -inf for a row that saw no key.
void store_lse(uint batch, uint head, uint row, float maximum_log2, float sum) {
  if (!kHasLse) return;
  const float kLn2 = 0.693147180559945;
  lse_words[lse_index(batch, head, row)] = sum == 0.0 ? 0xff800000u : floatBitsToUint(kLn2 * log_sum_exp2(maximum_log2, sum));
}

#endif
