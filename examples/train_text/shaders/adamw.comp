#version 450
#extension GL_GOOGLE_include_directive : require
#include "item.glsl"
// AdamW (arXiv:1711.05101). An item is one element of all parameters.
layout(std430, set = 0, binding = 0) readonly buffer Gradients { float gradients[]; };
layout(std430, set = 0, binding = 1) buffer Values { float values[]; };
layout(std430, set = 0, binding = 2) buffer Means { float means[]; };
layout(std430, set = 0, binding = 3) buffer Squares { float squares[]; };
// mean_factor and square_factor are 1 / (1 - beta^step). They remove the bias of means and squares, which begin with zeros.
layout(std430, set = 0, binding = 4) readonly buffer Rates {
  float rate, mean_beta, square_beta, decay, mean_factor, square_factor;
};
layout(push_constant) uniform Push { uint count; };

void main() {
  const uint i = item();
  if (i >= count) return;
  const float gradient = gradients[i];
  const float mean = means[i] + (1.0 - mean_beta) * (gradient - means[i]);
  const float square = squares[i] + (1.0 - square_beta) * (gradient * gradient - squares[i]);
  means[i] = mean;
  squares[i] = square;
  values[i] -= rate * (mean * mean_factor / (sqrt(square * square_factor) + 1e-8) + decay * values[i]);
}
