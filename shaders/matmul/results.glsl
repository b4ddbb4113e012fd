// Where sums go: to the output, plus bias and the output's old elements, or, if the inner dimension is split, to the workspace.
#ifndef VKATTN_MATMUL_RESULTS
#define VKATTN_MATMUL_RESULTS

#include "lib/types.glsl"
#include "matmul/specialization.glsl"

layout(set = 0, binding = VKATTN_MATMUL_BINDING_BIAS, std430) readonly buffer BiasWords { uint bias_words[]; };
layout(set = 0, binding = VKATTN_MATMUL_BINDING_OUTPUT, std430) buffer OutputWords { uint output_words[]; };
layout(set = 0, binding = VKATTN_MATMUL_BINDING_PARTIALS, std430) buffer Partials { float partials[]; };

#if VKATTN_STORAGE_16BIT
layout(set = 0, binding = VKATTN_MATMUL_BINDING_OUTPUT, std430) buffer OutputHalves { uint16_t output_halves[]; };

uint output_half(uint index) { return uint(output_halves[index]); }
void store_output_half(uint index, uint bits) { output_halves[index] = uint16_t(bits); }
#else
// Another invocation may write the other half of the word at the same time. Each half has one writer, so the atomics give the
// same word in any order.
uint output_half(uint index) { return atomicOr(output_words[index >> 1], 0u) >> (index & 1u) * 16u & 0xffffu; }
void store_output_half(uint index, uint bits) {
  const uint shift = (index & 1u) * 16u;
  atomicAnd(output_words[index >> 1], ~(0xffffu << shift));
  atomicOr(output_words[index >> 1], bits << shift);
}
#endif

float bias_at(uint row, uint column) {
  const uint index = params.bias_offset + row * params.bias_row_stride + column * params.bias_column_stride;
  if (kBiasType == VKATTN_TYPE_FLOAT32) return uintBitsToFloat(bias_words[index]);
  return decode_16bit(bias_words[index >> 1] >> (index & 1u) * 16u & 0xffffu, kBiasType);
}

uint output_index(uint batch, uint row, uint column) {
  return params.output_offset + batch * params.output_batch_stride + row * params.output_row_stride +
         column * params.output_column_stride;
}

// Stores a sum over all of the inner dimension.
void store_output(uint batch, uint row, uint column, float sum) {
  const uint index = output_index(batch, row, column);
  float result = sum;
  if (kHasBias) result += bias_at(row, column);
  if (kOutputType == VKATTN_TYPE_FLOAT32) {
    if (kAccumulates) result += uintBitsToFloat(output_words[index]);
    output_words[index] = floatBitsToUint(result);
  } else {
    if (kAccumulates) result += decode_16bit(output_half(index), kOutputType);
    store_output_half(index, encode_16bit(result, kOutputType));
  }
}

uint partial_index(uint part, uint batch, uint row, uint column) {
  return ((part * params.batch + batch) * params.rows + row) * params.columns + column;
}

// Stores a sum over a part of the inner dimension.
void store_sum(uint part, uint batch, uint row, uint column, float sum) {
  if (kSplit) {
    partials[partial_index(part, batch, row, column)] = sum;
  } else {
    store_output(batch, row, column, sum);
  }
}

#endif
