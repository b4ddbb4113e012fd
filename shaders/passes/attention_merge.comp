// Merges attention over parts of the keys by their log-sum-exp, from the outputs and lse of any plans. An invocation computes
// one word of the outputs, or of the lse.
//
//                  row 0                     row 1
//   outputs:     | word | word | ... |     | word | ... |     one invocation each: 1 element of float32, 2 of 16 bits
//   lse:         | word |                  | word |           one invocation each, in a dispatch after the outputs
//
// Budget: 4 registers (largest lse, weight, sum, result); no shared memory; for each part of an element of e bytes, e + 8 bytes
// are read: the element, and twice the part's lse, first to find the largest.
//
// Outputs may overwrite the first part's outputs, and the lse may overwrite its lse.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/types.glsl"
#include "lib/workgroups.glsl"
#include "shared/merge_constants.h"
#include "shared/merge_params.h"

layout(local_size_x_id = VKATTN_MERGE_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_MERGE_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 64;
layout(constant_id = VKATTN_MERGE_SPEC_PART_TYPE) const uint kPartType = VKATTN_TYPE_FLOAT32;
layout(constant_id = VKATTN_MERGE_SPEC_OUTPUT_TYPE) const uint kOutputType = VKATTN_TYPE_FLOAT32;
layout(constant_id = VKATTN_MERGE_SPEC_WRITES_LSE) const bool kWritesLse = false;

layout(set = 0, binding = VKATTN_MERGE_BINDING_PARTS, std430) readonly buffer Parts { uint part_words[]; };
layout(set = 0, binding = VKATTN_MERGE_BINDING_PART_LSE, std430) readonly buffer PartLse { float part_lse[]; };
layout(set = 0, binding = VKATTN_MERGE_BINDING_OUTPUT, std430) buffer Output { uint output_words[]; };
layout(set = 0, binding = VKATTN_MERGE_BINDING_LSE, std430) buffer Lse { float lse[]; };

layout(push_constant, std430) uniform PushConstants { MergeParams params; };

const uint kNothing = 0xff800000u;  // the bits of -inf: the lse of a part that saw no key

// Compares bits, as GLSL does not promise comparisons with infinities.
bool saw_nothing(float value) { return floatBitsToUint(value) == kNothing; }

float lse_of(uint part, uint row) { return part_lse[params.part_lse_offset + part * params.rows + row]; }

float element_of(uint part, uint element) {
  const uint index = params.parts_offset + part * params.rows * params.value_dim + element;
  if (kPartType == VKATTN_TYPE_FLOAT32) return uintBitsToFloat(part_words[index]);
  return decode_16bit(part_words[index >> 1] >> (index & 1u) * 16u & 0xffffu, kPartType);
}

float largest_lse(uint row) {
  float largest = uintBitsToFloat(kNothing);
  for (uint part = 0; part < params.parts; ++part) {
    const float value = lse_of(part, row);
    if (!saw_nothing(value)) largest = saw_nothing(largest) ? value : max(largest, value);
  }
  return largest;
}

float merged_element(uint element) {
  const uint row = element / params.value_dim;
  const float largest = largest_lse(row);
  if (saw_nothing(largest)) return 0.0;
  float sum = 0.0;
  float result = 0.0;
  for (uint part = 0; part < params.parts; ++part) {
    const float value = lse_of(part, row);
    if (saw_nothing(value)) continue;  // its output is not read
    const float weight = exp(value - largest);
    sum += weight;
    result += weight * element_of(part, element);
  }
  return result / sum;
}

float merged_lse(uint row) {
  const float largest = largest_lse(row);
  if (saw_nothing(largest)) return largest;
  float sum = 0.0;
  for (uint part = 0; part < params.parts; ++part) {
    const float value = lse_of(part, row);
    if (!saw_nothing(value)) sum += exp(value - largest);
  }
  return largest + log(sum);
}

void main() {
  const uint group = workgroup_number();
  const uint index = group * kWorkgroupSize + gl_LocalInvocationIndex;
  if (index >= params.unit_count) return;
  const uint unit = params.first_unit + index;
  if (kWritesLse) {
    lse[params.lse_offset + unit] = merged_lse(unit);
  } else if (kOutputType == VKATTN_TYPE_FLOAT32) {
    output_words[params.output_offset + unit] = floatBitsToUint(merged_element(unit));
  } else {  // the offset is a whole number of words
    const uint low = encode_16bit(merged_element(2u * unit), kOutputType);
    const uint high = encode_16bit(merged_element(2u * unit + 1u), kOutputType);
    output_words[(params.output_offset >> 1) + unit] = low | high << 16;
  }
}
