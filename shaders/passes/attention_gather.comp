// Copies a tensor into the one buffer that kernels share on devices with few storage buffers. An invocation copies one word.
//
//   bound range:  | not read | source       |            not read: up to the alignment of descriptors
//   target:       |          | copy         |            from target_word on, so that distances stay
//
// Budget: 2 registers (word, index); no shared memory; each word is read and written once.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/workgroups.glsl"
#include "shared/attention_constants.h"
#include "shared/gather_params.h"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 64;

layout(set = 0, binding = VKATTN_BINDING_GATHER_SOURCE, std430) readonly buffer Source { uint source_words[]; };
layout(set = 0, binding = VKATTN_BINDING_GATHER_TARGET, std430) writeonly buffer Target { uint target_words[]; };

layout(push_constant, std430) uniform PushConstants { GatherParams params; };

void main() {
  const uint index = workgroup_number() * kWorkgroupSize + gl_LocalInvocationIndex;
  if (index >= params.unit_count) return;
  // A source that begins inside of a word may end in one word more.
  const uint first = params.source_offset >> 2;
  const uint words = ((params.source_offset & 3u) + params.source_bytes + 3u) >> 2;
  const uint unit = params.first_unit + index;
  if (unit < words) target_words[params.target_word + first + unit] = source_words[first + unit];
}
