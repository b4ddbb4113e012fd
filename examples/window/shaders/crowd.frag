#version 450
layout(location = 0) flat in vec4 color;
layout(location = 1) in vec2 within;
layout(location = 2) flat in uint kind;
layout(location = 0) out vec4 drawn;

void main() {
  drawn = color;
  const float radius = length(within);
  const float edge = 0.5 * fwidth(radius) + 1e-4;
  if (kind == 1 || kind == 2) drawn.a *= 1.0 - smoothstep(1.0 - 2.0 * edge, 1.0, radius);
  if (kind == 2 && abs(radius - 0.82) < 0.15) drawn.rgb = vec3(0.13, 0.15, 0.18);  // the selected agent's ring
}
