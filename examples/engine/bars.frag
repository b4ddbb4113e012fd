#version 450
layout(location = 0) flat in vec4 bar_color;
layout(location = 0) out vec4 color;

void main() { color = bar_color; }
