#version 450
// Draws a bar for each instance, standing on the lower edge. A negative `height` means that the buffer has the heights.
layout(std430, set = 0, binding = 4) readonly buffer Bars { float bars[]; };
layout(push_constant) uniform Push { vec4 color; float height; uint count; };
layout(location = 0) flat out vec4 bar_color;

void main() {
  const vec2 corner = vec2(gl_VertexIndex & 1, gl_VertexIndex >> 1);
  const float top = height >= 0.0 ? height : bars[gl_InstanceIndex];
  const vec2 place = vec2((float(gl_InstanceIndex) + corner.x) / float(count), 1.0 - corner.y * top);
  gl_Position = vec4(2.0 * place - 1.0, 0.0, 1.0);
  bar_color = color;
}
