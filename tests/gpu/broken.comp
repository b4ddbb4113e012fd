#version 450
// A kernel with the faults that the harness must find: it leaves elements of the output unwritten and writes before
// and after the output.
layout(local_size_x = 64) in;
layout(std430, set = 0, binding = 0) buffer Words { uint words[]; };
layout(push_constant) uniform Parameters {
  uint first;   // word of the first element
  uint count;   // words of the output
  uint skip;    // leave every skip-th word unwritten; 0: none
  uint before;  // words to write before the output
  uint behind;  // words to write behind it
};

void main() {
  const uint begin = first - before;
  const uint end = first + count + behind;
  for (uint i = begin + gl_GlobalInvocationID.x; i < end; i += gl_NumWorkGroups.x * 64u) {
    const bool inside = i >= first && i < first + count;
    if (inside && skip != 0u && (i - first) % skip == skip - 1u) continue;
    words[i] = floatBitsToUint(0.0);
  }
}
