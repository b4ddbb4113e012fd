// The backward pass's workspace and its tensors beside those of the forward pass (lib/tensors.glsl).
//
// For each gradient NAME that is written:
//   uint NAME_row(batch, head, row)              index of the row's first element
//   void store_NAME(row_index, dim, value)       one element, in its storage type
#ifndef VKATTN_BACKWARD_GRADIENTS
#define VKATTN_BACKWARD_GRADIENTS

#include "lib/forms.glsl"

#if VKATTN_FEATURES

#include "lib/tensors.glsl"
#include "shared/backward_constants.h"
#include "shared/backward_params.h"

layout(constant_id = VKATTN_SPEC_GRAD_OUTPUT_TYPE) const uint kGradOutputType = VKATTN_TYPE_FLOAT32;
layout(constant_id = VKATTN_SPEC_GRAD_OUTPUT_DIM_STRIDE) const uint kGradOutputDimStride = 1;
layout(constant_id = VKATTN_SPEC_GRAD_OUTPUT_VECTOR_LOADS) const bool kGradOutputVectorLoads = false;
layout(constant_id = VKATTN_SPEC_OUTPUT_VECTOR_LOADS) const bool kOutputVectorLoads = false;
layout(constant_id = VKATTN_SPEC_HAS_GRAD_LSE) const bool kHasGradLse = false;
layout(constant_id = VKATTN_SPEC_GRAD_QUERY_TYPE) const uint kGradQueryType = VKATTN_TYPE_FLOAT32;
layout(constant_id = VKATTN_SPEC_GRAD_QUERY_DIM_STRIDE) const uint kGradQueryDimStride = 1;
layout(constant_id = VKATTN_SPEC_GRAD_KEY_TYPE) const uint kGradKeyType = VKATTN_TYPE_FLOAT32;
layout(constant_id = VKATTN_SPEC_GRAD_KEY_DIM_STRIDE) const uint kGradKeyDimStride = 1;
layout(constant_id = VKATTN_SPEC_GRAD_VALUE_TYPE) const uint kGradValueType = VKATTN_TYPE_FLOAT32;
layout(constant_id = VKATTN_SPEC_GRAD_VALUE_DIM_STRIDE) const uint kGradValueDimStride = 1;
layout(constant_id = VKATTN_SPEC_GRAD_QUERY_VECTORS) const bool kGradQueryVectors = false;
layout(constant_id = VKATTN_SPEC_GRAD_KEY_VECTORS) const bool kGradKeyVectors = false;
layout(constant_id = VKATTN_SPEC_GRAD_VALUE_VECTORS) const bool kGradValueVectors = false;
layout(constant_id = VKATTN_SPEC_GRAD_QUERY_SUMS_APART) const bool kGradQuerySumsApart = false;
layout(constant_id = VKATTN_SPEC_GRAD_KEY_SUMS_APART) const bool kGradKeySumsApart = false;
layout(constant_id = VKATTN_SPEC_GRAD_VALUE_SUMS_APART) const bool kGradValueSumsApart = false;
layout(constant_id = VKATTN_SPEC_GRAD_MASK_TYPE) const uint kGradMaskType = VKATTN_TYPE_FLOAT32;
layout(constant_id = VKATTN_SPEC_HAS_GRAD_QUERY) const bool kHasGradQuery = true;
layout(constant_id = VKATTN_SPEC_HAS_GRAD_KEY) const bool kHasGradKey = true;
layout(constant_id = VKATTN_SPEC_HAS_GRAD_VALUE) const bool kHasGradValue = true;
layout(constant_id = VKATTN_SPEC_HAS_GRAD_SLOPES) const bool kHasGradSlopes = false;
layout(constant_id = VKATTN_SPEC_HAS_GRAD_SINKS) const bool kHasGradSinks = false;
layout(constant_id = VKATTN_SPEC_PAIR_TILE) const uint kPairTile = 0;
layout(constant_id = VKATTN_SPEC_KEEPS_DELTAS) const bool kKeepsDeltas = false;
// D of a row, <dO, O> minus the gradient of its lse, is kept for the gradients of sinks, or for later chunks.
const bool kWritesDeltas = kHasGradSinks || kKeepsDeltas;
layout(constant_id = VKATTN_SPEC_KEEPS_SCORE_GRADIENTS) const bool kKeepsScoreGradients = false;
layout(constant_id = VKATTN_SPEC_SCALED_FACTORS) const uint kScaledFactors = 0;

layout(set = 0, binding = VKATTN_BINDING_FEATURE_PARAMS, std430) readonly buffer BackwardParameters {
  FeatureParams before_backward;
  BackwardParams backward;
};

// Each number of dQ and dK is sum_scale times the sum of products (pair_scale * pair) * (operand_scale * row).
// kScaledFactors says which of the two scales differ from 1; the others multiply nothing.
float scaled_pair(float gradient) { return kScaledFactors > 0u ? gradient * backward.pair_scale : gradient; }
float scaled_operand(float number) { return kScaledFactors > 1u ? number * backward.operand_scale : number; }
vec4 scaled_operand(vec4 row) { return kScaledFactors > 1u ? row * backward.operand_scale : row; }

#undef VKATTN_QUANTISED_INPUT
#define VKATTN_QUANTISED_INPUT VKATTN_NO_QUANTISED_INPUT
VKATTN_INPUT(grad_output, VKATTN_BINDING_GRAD_OUTPUT, kGradOutputType, kValueDim, kGradOutputDimStride,
             kGradOutputVectorLoads, VKATTN_QUERIES_BY_ADDRESS)
// The forward pass has written this tensor; here it is read.
VKATTN_INPUT(forward_output, VKATTN_BINDING_OUTPUT, kOutputType, kValueDim, kOutputDimStride, kOutputVectorLoads,
             false)

// Two elements of 16 bits share a word: see store_output_16bit() in lib/tensors.glsl.
#if VKATTN_STORAGE_16BIT
#define VKATTN_GRADIENT_HALVES(NAME, BINDING) \
  layout(set = 0, binding = BINDING, std430) buffer NAME##Halves { uint16_t NAME##_halves[]; }; \
  void store_##NAME##_16bit(uint index, uint bits) { NAME##_halves[index] = uint16_t(bits); }
#else
#define VKATTN_GRADIENT_HALVES(NAME, BINDING)                        \
  void store_##NAME##_16bit(uint index, uint bits) {                 \
    const uint shift = (index & 1u) * 16u;                           \
    atomicAnd(NAME##_words[index >> 1], ~(0xffffu << shift));        \
    atomicOr(NAME##_words[index >> 1], bits << shift);               \
  }
#endif

#define VKATTN_GRADIENT(NAME, BINDING, TYPE, DIM_STRIDE)                                \
  layout(set = 0, binding = BINDING, std430) buffer NAME##Words { uint NAME##_words[]; }; \
  VKATTN_GRADIENT_HALVES(NAME, BINDING)                                                 \
  void store_##NAME(uint row_index, uint dim, float value) {                            \
    const uint index = row_index + dim * DIM_STRIDE;                                    \
    if (TYPE == VKATTN_TYPE_FLOAT32) {                                                  \
      NAME##_words[index] = floatBitsToUint(value);                                     \
    } else {                                                                            \
      store_##NAME##_16bit(index, encode_16bit(value, TYPE));                           \
    }                                                                                   \
  }

VKATTN_GRADIENT(grad_query, VKATTN_BINDING_GRAD_QUERY, kGradQueryType, kGradQueryDimStride)
VKATTN_GRADIENT(grad_key, VKATTN_BINDING_GRAD_KEY, kGradKeyType, kGradKeyDimStride)
VKATTN_GRADIENT(grad_value, VKATTN_BINDING_GRAD_VALUE, kGradValueType, kGradValueDimStride)

uint grad_output_row(uint batch, uint head, uint row) {
  return backward.grad_output_offset + batch * backward.grad_output_batch_stride +
         head * backward.grad_output_head_stride + (query_first_row + row) * backward.grad_output_row_stride;
}

layout(set = 0, binding = VKATTN_BINDING_GRAD_LSE, std430) readonly buffer GradLse { float grad_lse[]; };

// Makes D of a row from <dO, O>. A score s reaches the row's lse by its probability p alone, so its gradient has p * dlse more:
// p * (dP - <dO, O>) + p * dlse = p * (dP - D).
void subtract_grad_lse(inout float delta, uint batch, uint head, uint row) {
  if (!kHasGradLse) return;
  delta -= grad_lse[backward.grad_lse_offset + lse_index(batch, head, row) - params.lse_offset];
}

uint grad_query_row(uint batch, uint head, uint row) {
  return backward.grad_query_offset + batch * backward.grad_query_batch_stride +
         head * backward.grad_query_head_stride + (query_first_row + row) * backward.grad_query_row_stride;
}

uint grad_key_row(uint batch, uint head, uint key) {
  const uvec2 slot = key_slot(batch, key);
  return backward.grad_key_offset + slot.x * backward.grad_key_batch_stride + head * backward.grad_key_head_stride +
         slot.y * backward.grad_key_row_stride;
}

uint grad_value_row(uint batch, uint head, uint key) {
  const uvec2 slot = key_slot(batch, key);
  return backward.grad_value_offset + slot.x * backward.grad_value_batch_stride +
         head * backward.grad_value_head_stride + slot.y * backward.grad_value_row_stride;
}

// Running sums, and numbers of rows.
layout(set = 0, binding = VKATTN_BINDING_SUMS, std430) buffer Sums { float sums[]; };

// The running sums of a gradient NAME lie in the gradient itself, or, if APART, in the workspace. row_index is where a row
// begins in the gradient, sum_index where it begins in the workspace.
//   float load_NAME_sum(row_index, sum_index, dim)
//   void  store_NAME_sum(row_index, sum_index, dim, value)
//   vec4  load_NAME_sum4(row_index, sum_index, dim)   dims dim .. dim + 3, all of which exist
//   void  store_NAME_sum4(row_index, sum_index, dim, value)
#define VKATTN_SUMS(NAME, APART, DIM_STRIDE)                                                                        \
  float load_##NAME##_sum(uint row_index, uint sum_index, uint dim) {                                               \
    return APART ? sums[sum_index + dim] : uintBitsToFloat(NAME##_words[row_index + dim * DIM_STRIDE]);             \
  }                                                                                                                 \
                                                                                                                    \
  void store_##NAME##_sum(uint row_index, uint sum_index, uint dim, float value) {                                  \
    if (APART) {                                                                                                    \
      sums[sum_index + dim] = value;                                                                                \
    } else {                                                                                                        \
      store_##NAME(row_index, dim, value);                                                                          \
    }                                                                                                               \
  }

#if VKATTN_WIDE_LOADS
// A CPU stores a vector's lanes one by one, and 8 bytes as fast as 4.
layout(set = 0, binding = VKATTN_BINDING_SUMS, std430) buffer SumWides { uint64_t sum_wides[]; };
#define VKATTN_SUMS4(NAME, BINDING, APART, DIMS, VECTORS)                                                           \
  layout(set = 0, binding = BINDING, std430) buffer NAME##Wides { uint64_t NAME##_wides[]; };                       \
                                                                                                                    \
  vec4 load_##NAME##_sum4(uint row_index, uint sum_index, uint dim) {                                               \
    if (APART ? DIMS % 4 == 0 : VECTORS) {                                                                          \
      const uint wide = ((APART ? sum_index : row_index) + dim) >> 1;                                               \
      return APART ? uintBitsToFloat(uvec4(unpackUint2x32(sum_wides[wide]),                                         \
                                           unpackUint2x32(sum_wides[wide + 1u])))                                   \
                   : uintBitsToFloat(uvec4(unpackUint2x32(NAME##_wides[wide]),                                      \
                                           unpackUint2x32(NAME##_wides[wide + 1u])));                               \
    }                                                                                                               \
    vec4 result;                                                                                                    \
    [[unroll]] for (uint d = 0; d < 4; ++d) result[d] = load_##NAME##_sum(row_index, sum_index, dim + d);           \
    return result;                                                                                                  \
  }                                                                                                                 \
                                                                                                                    \
  void store_##NAME##_sum4(uint row_index, uint sum_index, uint dim, vec4 value) {                                  \
    if (APART ? DIMS % 4 == 0 : VECTORS) {                                                                          \
      const uint wide = ((APART ? sum_index : row_index) + dim) >> 1;                                               \
      const uint64_t low = packUint2x32(floatBitsToUint(value.xy)), high = packUint2x32(floatBitsToUint(value.zw)); \
      if (APART) {                                                                                                  \
        sum_wides[wide] = low;                                                                                      \
        sum_wides[wide + 1u] = high;                                                                                \
      } else {                                                                                                      \
        NAME##_wides[wide] = low;                                                                                   \
        NAME##_wides[wide + 1u] = high;                                                                             \
      }                                                                                                             \
      return;                                                                                                       \
    }                                                                                                               \
    [[unroll]] for (uint d = 0; d < 4; ++d) store_##NAME##_sum(row_index, sum_index, dim + d, value[d]);            \
  }
#else
#define VKATTN_SUMS4(NAME, BINDING, APART, DIMS, VECTORS)                                                           \
  vec4 load_##NAME##_sum4(uint row_index, uint sum_index, uint dim) {                                               \
    vec4 result;                                                                                                    \
    [[unroll]] for (uint d = 0; d < 4; ++d) result[d] = load_##NAME##_sum(row_index, sum_index, dim + d);           \
    return result;                                                                                                  \
  }                                                                                                                 \
                                                                                                                    \
  void store_##NAME##_sum4(uint row_index, uint sum_index, uint dim, vec4 value) {                                  \
    [[unroll]] for (uint d = 0; d < 4; ++d) store_##NAME##_sum(row_index, sum_index, dim + d, value[d]);            \
  }
#endif

// The same for `dims` dims, at most 4. If they are 4, `dim` is a multiple of 4.
//   vec4  load_NAME_sums(row_index, sum_index, dim, dims)
//   void  store_NAME_sums(row_index, sum_index, dim, dims, value)
//   void  store_NAME_dims(row_index, dim, dims, value)   results, which lie in the gradient wherever the sums lay
#define VKATTN_SUMS_OF_DIMS(NAME, APART)                                                                             \
  vec4 load_##NAME##_sums(uint row_index, uint sum_index, uint dim, uint dims) {                                    \
    if (dims == 4u) return load_##NAME##_sum4(row_index, sum_index, dim);                                           \
    vec4 result = vec4(0.0);                                                                                        \
    [[unroll]] for (uint d = 0; d < dims; ++d) result[d] = load_##NAME##_sum(row_index, sum_index, dim + d);        \
    return result;                                                                                                  \
  }                                                                                                                 \
                                                                                                                    \
  void store_##NAME##_sums(uint row_index, uint sum_index, uint dim, uint dims, vec4 value) {                       \
    if (dims == 4u) {                                                                                               \
      store_##NAME##_sum4(row_index, sum_index, dim, value);                                                        \
    } else {                                                                                                        \
      [[unroll]] for (uint d = 0; d < dims; ++d) store_##NAME##_sum(row_index, sum_index, dim + d, value[d]);       \
    }                                                                                                               \
  }                                                                                                                 \
                                                                                                                    \
  void store_##NAME##_dims(uint row_index, uint dim, uint dims, vec4 value) {                                       \
    if (dims == 4u && !APART) {                                                                                     \
      store_##NAME##_sum4(row_index, 0u, dim, value);                                                               \
    } else {                                                                                                        \
      [[unroll]] for (uint d = 0; d < dims; ++d) store_##NAME(row_index, dim + d, value[d]);                        \
    }                                                                                                               \
  }

VKATTN_SUMS(grad_query, kGradQuerySumsApart, kGradQueryDimStride)
VKATTN_SUMS(grad_key, kGradKeySumsApart, kGradKeyDimStride)
VKATTN_SUMS(grad_value, kGradValueSumsApart, kGradValueDimStride)
VKATTN_SUMS4(grad_query, VKATTN_BINDING_GRAD_QUERY, kGradQuerySumsApart, kHeadDim, kGradQueryVectors)
VKATTN_SUMS4(grad_key, VKATTN_BINDING_GRAD_KEY, kGradKeySumsApart, kHeadDim, kGradKeyVectors)
VKATTN_SUMS4(grad_value, VKATTN_BINDING_GRAD_VALUE, kGradValueSumsApart, kValueDim, kGradValueVectors)
VKATTN_SUMS_OF_DIMS(grad_query, kGradQuerySumsApart)
VKATTN_SUMS_OF_DIMS(grad_key, kGradKeySumsApart)
VKATTN_SUMS_OF_DIMS(grad_value, kGradValueSumsApart)

#endif

#endif
