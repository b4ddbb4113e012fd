// GELU in its tanh form (arXiv:1606.08415): x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3).
const float kRoot = 0.7978845608, kCubic = 0.044715;

// tanh(u). The clamp changes nothing in float32; without it some drivers' tanh overflows.
float gelu_tanh(float x) {
  return tanh(clamp(kRoot * (x + kCubic * x * x * x), -10.0, 10.0));
}
