#version 450
#extension GL_GOOGLE_include_directive : require
#include "item.glsl"
// output[row] = token_embedding[tokens[row]] + position_embedding[positions[row]]. An item is an element.
layout(std430, set = 0, binding = 0) readonly buffer Tokens { uint tokens[]; };
layout(std430, set = 0, binding = 1) readonly buffer Positions { uint positions[]; };
layout(std430, set = 0, binding = 2) readonly buffer TokenEmbedding { float token_embedding[]; };
layout(std430, set = 0, binding = 3) readonly buffer PositionEmbedding { float position_embedding[]; };
layout(std430, set = 0, binding = 4) writeonly buffer Output { float output_rows[]; };
layout(push_constant) uniform Push { uint rows, width; };

void main() {
  const uint i = item();
  if (i >= rows * width) return;
  const uint row = i / width, column = i % width;
  output_rows[i] = token_embedding[tokens[row] * width + column] + position_embedding[positions[row] * width + column];
}
