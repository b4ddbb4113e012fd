#version 450
#extension GL_GOOGLE_include_directive : require
#include "item.glsl"
// losses[row] = -log softmax(logits[row])[targets[row]]. The gradient of the mean over the rows, (softmax - 1 at the target) /
// rows, overwrites the logits. An item is a row.
layout(std430, set = 0, binding = 0) readonly buffer Targets { uint targets[]; };
layout(std430, set = 0, binding = 1) buffer Logits { float logits[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Losses { float losses[]; };
layout(push_constant) uniform Push { uint rows, width; };

void main() {
  const uint row = item();
  if (row >= rows) return;
  const uint begin = row * width, end = begin + width, target = begin + targets[row];
  float largest = logits[begin];
  for (uint i = begin + 1; i < end; ++i) largest = max(largest, logits[i]);
  float sum = 0;
  for (uint i = begin; i < end; ++i) sum += exp(logits[i] - largest);
  losses[row] = log(sum) + largest - logits[target];
  for (uint i = begin; i < end; ++i) {
    logits[i] = (exp(logits[i] - largest) / sum - (i == target ? 1.0 : 0.0)) / float(rows);
  }
}
