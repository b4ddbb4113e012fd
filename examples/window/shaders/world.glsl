// What the crowd's shaders know of its world, as crowd.hpp has it. WORLD_ACCESS is `readonly` where it is not changed.
const uint kAgents = 64, kMemories = 256, kKinds = 6, kDims = 64, kDanger = 1;
const uint kCodeDims = kDims - 3;

struct Agent {
  vec2 place, speed;
  vec2 target, danger;  // where attention sends it, and what it flees from
  uint need, reached;   // the kind that it looks for, and how often it has found what it looked for
  vec2 unused;
};

layout(std430, set = 0, binding = 0) WORLD_ACCESS buffer World {
  Agent agents[kAgents];
  vec4 memories[kMemories];  // place, kind, 0
  float codes[kKinds * kDims];
  float links[kMemories];  // weights of the selected agent
};
