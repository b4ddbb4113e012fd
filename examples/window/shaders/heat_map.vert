#version 450
// A rectangle over the whole viewport. `place` goes from 0 to 1, beginning at the upper left corner.
layout(location = 0) out vec2 place;

void main() {
  place = vec2(gl_VertexIndex & 1, gl_VertexIndex >> 1);
  gl_Position = vec4(2.0 * place - 1.0, 0.0, 1.0);
}
