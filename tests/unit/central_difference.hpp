// Derivatives of what can be computed only, for tests of gradients.
#pragma once

namespace vkattn::tests {

/// Of a function of float32 at a number. The divisor is what the step became in float32.
template <class Function>
[[nodiscard]] double central_difference(float number, Function function) {
  const float above = number + 0x1p-10F, below = number - 0x1p-10F;
  return (function(above) - function(below)) / (static_cast<double>(above) - static_cast<double>(below));
}

}  // namespace vkattn::tests
