#version 450
// The weights of one head as coloured cells: a row for each query, a column for each key. It reads the buffer that attention has
// written.
layout(std430, set = 0, binding = 0) readonly buffer Weights { float weights[]; };
layout(std430, set = 0, binding = 1) readonly buffer Colors { vec4 colors[]; };  // from weight 0 to weight 1
layout(push_constant) uniform Push {
  uint first, row_stride, tokens;  // where the head's weights begin, and how far its rows are apart
  int left;         // the keys that a query sees before itself; below 0: all
  uint causal;      // 1: no keys after itself
  int row;          // the query that is pointed at; below 0: none
  uint square_root; // 1: colours go by the square root of weights
  float side;       // of the map, in pixels
};
layout(location = 0) in vec2 place;
layout(location = 0) out vec4 color;

const vec3 kHidden = vec3(0.90, 0.905, 0.915), kMarked = vec3(0.84, 0.37, 0.0);

void main() {
  const vec2 cell = place * float(tokens);
  const ivec2 index = min(ivec2(cell), ivec2(tokens - 1));
  const int query = index.y, key = index.x;
  const bool hidden = (causal != 0 && key > query) || (left >= 0 && abs(query - key) > left);
  const float weight = weights[first + query * row_stride + key];
  // Of a weight that is no number: 0.
  const float share = weight > 0.0 ? min(square_root != 0 ? sqrt(weight) : weight, 1.0) : 0.0;
  const float at = share * float(colors.length() - 1);
  const int below = int(at);
  vec3 rgb = mix(colors[below].rgb, colors[min(below + 1, colors.length() - 1)].rgb, at - float(below));
  if (hidden) rgb = kHidden;
  const float pixels = side / float(tokens);  // of a cell
  const vec2 inside = fract(cell) * pixels;
  if (pixels > 5.0 && min(inside.x, inside.y) < 1.0) rgb = mix(rgb, vec3(1.0), hidden ? 0.6 : 0.25);
  if (query == row && (inside.y < 1.5 || inside.y > pixels - 1.5)) rgb = kMarked;
  color = vec4(rgb, 1.0);
}
