#version 450
#extension GL_GOOGLE_include_directive : require
#include "item.glsl"
// stream[row] = factor * tokens_table[tokens[row]] + positions_table[positions[row]]. An item is an element.
layout(std430, set = 0, binding = 0) readonly buffer Tokens { uint tokens[]; };
layout(std430, set = 0, binding = 1) readonly buffer Positions { uint positions[]; };
layout(std430, set = 0, binding = 2) readonly buffer TokenTable { uint token_table[]; };
layout(std430, set = 0, binding = 3) readonly buffer PositionTable { uint position_table[]; };
layout(std430, set = 0, binding = 4) writeonly buffer Stream { float stream[]; };
layout(push_constant) uniform Push { uint rows, width, type, has_positions; float factor; };  // type: 0 f32, 1 f16, 2 bf16

float element(uint word, uint i) {
  if (type == 0) return uintBitsToFloat(word);
  const uint half_word = (i & 1) == 0 ? word & 0xffff : word >> 16;
  return type == 1 ? unpackHalf2x16(half_word).x : uintBitsToFloat(half_word << 16);
}

void main() {
  const uint i = item();
  if (i >= rows * width) return;
  const uint row = i / width, token = tokens[row] * width + i % width, position = positions[row] * width + i % width;
  const uint shift = type == 0 ? 0 : 1;  // elements of a word, as a power of two
  float value = factor * element(token_table[token >> shift], token);
  if (has_positions != 0) value += element(position_table[position >> shift], position);
  stream[i] = value;
}
