#version 450
#extension GL_GOOGLE_include_directive : require
// The next token of each text. With temperature 0 it is the likeliest one, the first of several. Otherwise it is drawn from
// softmax(logits / temperature), of the fewest likeliest tokens whose probabilities reach top_p. A Gumbel number is added to each
// logit, and the largest sum wins: this draws by the probabilities. A workgroup has a text.
layout(local_size_x = 128) in;
#include "sum.glsl"
layout(std430, set = 0, binding = 0) buffer Logits { float logits[]; };
layout(std430, set = 0, binding = 1) readonly buffer Settings { uint seed, draw; float temperature, top_p; };
layout(std430, set = 0, binding = 2) writeonly buffer Chosen { uint chosen[]; };
layout(push_constant) uniform Push { uint width; float softcap; };
shared uint places[gl_WorkGroupSize.x];
const float kLeast = -3.4028235e38;

// The place of the largest value; its value is left in values[0].
uint place_of_largest(float value, uint place) {
  const uint lane = gl_LocalInvocationID.x;
  barrier();
  values[lane] = value;
  places[lane] = place;
  barrier();
  for (uint apart = gl_WorkGroupSize.x / 2; apart > 0; apart /= 2) {
    if (lane < apart) {
      const float other = values[lane + apart];
      const uint other_place = places[lane + apart];
      if (other > values[lane] || (other == values[lane] && other_place < places[lane])) {
        values[lane] = other;
        places[lane] = other_place;
      }
    }
    barrier();
  }
  return places[0];
}

// Bits that depend on all bits of x: xor-shifts and products with odd numbers.
uint mixed(uint x) {
  x = (x ^ (x >> 16)) * 0x9e3779b1u;
  x = (x ^ (x >> 15)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

void main() {
  const uint text = gl_WorkGroupID.x, first = text * width, lane = gl_LocalInvocationID.x;
  float best = kLeast;
  uint place = 0xffffffffu;
  for (uint i = lane; i < width; i += gl_WorkGroupSize.x) {
    if (softcap > 0) logits[first + i] = softcap * tanh(clamp(logits[first + i] / softcap, -10.0, 10.0));
    if (logits[first + i] > best) {
      best = logits[first + i];
      place = i;
    }
  }
  place = place_of_largest(best, place);
  const float largest = values[0];
  if (temperature > 0) {
    const float scale = 1.0 / temperature;
    float least = kLeast;  // of (logit - largest) / temperature
    if (top_p < 1) {
      float part = 0;
      for (uint i = lane; i < width; i += gl_WorkGroupSize.x) part += exp((logits[first + i] - largest) * scale);
      const float wanted = top_p * sum_of_all(part);
      // The largest bound above which the sum reaches what is wanted. Below -32 a token's share is below 2^-46.
      float low = -32, high = 0;
      for (int step = 0; step < 28; ++step) {
        const float middle = 0.5 * (low + high);
        part = 0;
        for (uint i = lane; i < width; i += gl_WorkGroupSize.x) {
          const float z = (logits[first + i] - largest) * scale;
          if (z >= middle) part += exp(z);
        }
        if (sum_of_all(part) >= wanted) low = middle; else high = middle;
      }
      least = low;
    }
    best = kLeast;
    place = 0xffffffffu;
    const uint key = mixed(mixed(seed ^ mixed(draw)) ^ text);
    for (uint i = lane; i < width; i += gl_WorkGroupSize.x) {
      const float z = (logits[first + i] - largest) * scale;
      if (z < least) continue;
      const float uniform_number = (float(mixed(key ^ mixed(i)) >> 8) + 0.5) * (1.0 / 16777216.0);
      const float sum = z - log(-log(uniform_number));
      if (sum > best) {
        best = sum;
        place = i;
      }
    }
    place = place_of_largest(best, place);
  }
  if (lane == 0) chosen[text] = place;  // 0xffffffff where no logit is a number
}
