#version 450
#extension GL_GOOGLE_include_directive : require
#define WORLD_ACCESS readonly
#include "world.glsl"
// Draws memories, agents, or lines from the selected agent to its memories, an instance for each. It reads what attention and
// steering have written.
layout(push_constant) uniform Push {
  vec4 colors[kKinds];
  uint drawn;     // 0: memories, 1: agents, 2: lines
  uint selected;  // an agent
  float pixel;    // the size of a pixel, where the world has the size 2
};
layout(location = 0) flat out vec4 color;
layout(location = 1) out vec2 within;    // from -1 to 1
layout(location = 2) flat out uint kind; // 0: a square, 1: a disc, 2: a ring, 3: a line

void main() {
  const uint i = gl_InstanceIndex;
  const vec2 corner = 2.0 * vec2(gl_VertexIndex & 1, gl_VertexIndex >> 1) - 1.0;
  within = corner;
  vec2 place;
  if (drawn == 0) {
    kind = 0;
    color = vec4(colors[uint(memories[i].z)].rgb, 0.55);
    place = memories[i].xy + 3.0 * pixel * corner;
  } else if (drawn == 1) {
    kind = i == selected ? 2 : 1;
    color = vec4(colors[agents[i].need].rgb, 1.0);
    place = agents[i].place + (i == selected ? 9.0 : 6.0) * pixel * corner;
  } else {
    kind = 3;
    color = vec4(colors[agents[selected].need].rgb, clamp(sqrt(links[i]), 0.0, 1.0));
    const vec2 from = agents[selected].place, way = memories[i].xy - from;
    const vec2 across = vec2(-way.y, way.x) / max(length(way), 1e-4);
    place = from + 0.5 * (corner.x + 1.0) * way + (0.5 + 2.0 * links[i]) * pixel * corner.y * across;
    if (links[i] < 0.001) place = vec2(2.0);
  }
  gl_Position = vec4(place, 0.0, 1.0);
}
