// GELU in its tanh form (arXiv:1606.08415): x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3).
const float kRoot = 0.7978845608, kCubic = 0.044715;

// tanh(u); where it is 1 or -1 in float32 anyway, some drivers' own overflows.
float gelu_tanh(float x) {
  return tanh(clamp(kRoot * (x + kCubic * x * x * x), -10.0, 10.0));
}
