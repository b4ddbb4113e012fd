#version 450
#extension GL_GOOGLE_include_directive : require
#define WORLD_ACCESS
#include "world.glsl"
// Attention steers a crowd. Each agent asks for all kinds of memories at once, a head for each kind, and goes to where the head
// of its need looks. An invocation is an agent.
layout(local_size_x = 64) in;
layout(std430, set = 0, binding = 1) writeonly buffer Query { float query[]; };   // (kinds, agents, dims)
layout(std430, set = 0, binding = 2) readonly buffer Output { vec4 attended[]; };  // (kinds, agents): place, 1, 0
layout(std430, set = 0, binding = 3) readonly buffer Weights { float weights[]; };
layout(push_constant) uniform Push {
  uint stage;          // 0: ask, 1: take the answers, 2: move
  uint selected;       // the agent whose weights are kept
  float seconds;       // since the last frame
  float nearness;      // how much nearer memories count more
};

// The dot product with a memory's key is nearness * (2 a.m - |m|^2) and what their codes have in common: near memories of this
// kind have the largest scores.
void ask(uint agent) {
  for (uint kind = 0; kind < kKinds; ++kind) {
    const uint first = (kind * kAgents + agent) * kDims;
    const vec2 place = 2.0 * nearness * agents[agent].place;
    query[first] = place.x;
    query[first + 1] = place.y;
    query[first + 2] = -nearness;
    for (uint i = 3; i < kDims; ++i) query[first + i] = codes[kind * kDims + i];
  }
}

void take(uint agent) {
  agents[agent].target = attended[agents[agent].need * kAgents + agent].xy;
  agents[agent].danger = attended[kDanger * kAgents + agent].xy;
  const uint first = (agents[selected].need * kAgents + selected) * kMemories;
  for (uint i = agent; i < kMemories; i += kAgents) links[i] = weights[first + i];
}

void move(uint agent) {
  Agent a = agents[agent];
  const vec2 way = a.target - a.place, away = a.place - a.danger;
  vec2 force = 1.2 * way / max(length(way), 0.1);
  force += 0.06 * away / max(dot(away, away), 0.01);
  for (uint i = 0; i < kAgents; ++i) {
    const vec2 apart = a.place - agents[i].place;
    const float square = dot(apart, apart);
    if (i != agent && square < 0.01) force += 0.004 * apart / max(square, 1e-4);
  }
  a.speed += seconds * (force - 2.0 * a.speed);
  a.speed /= max(length(a.speed) / 0.6, 1.0);
  a.place = clamp(a.place + seconds * a.speed, vec2(-0.97), vec2(0.97));
  if (length(way) < 0.05) {  // it has what it needed; kinds 0, 2, 3, 4 and 5 are needs
    a.need = (a.need + 1 + (agent + a.reached) % 3) % kKinds;
    if (a.need == kDanger) a.need = 2;
    ++a.reached;
    a.target = a.place - 0.2 * away / max(length(away), 0.1);
  }
  barrier();  // all have read the places of the others
  agents[agent] = a;
}

void main() {
  const uint agent = gl_LocalInvocationID.x;
  if (stage == 0) ask(agent);
  if (stage == 1) take(agent);
  if (stage == 2) move(agent);
}
