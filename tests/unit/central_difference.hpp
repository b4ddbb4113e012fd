// Derivatives of what can be computed only, for tests of gradients.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace vkattn::tests {

/// Of a function of float32 at a number. The divisor is what the step became in float32.
template <class Function>
[[nodiscard]] double central_difference(float number, Function function) {
  const float above = number + 0x1p-10F, below = number - 0x1p-10F;
  return (function(above) - function(below)) / (static_cast<double>(above) - static_cast<double>(below));
}

/// That a gradient by these numbers is that of the loss, which reads them; 0 by those that are infinite.
template <class Loss>
void expect_gradient(std::vector<float>& numbers, const std::vector<double>& gradient, Loss loss) {
  ASSERT_EQ(numbers.size(), gradient.size());
  double largest = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const float before = numbers[i];
    if (!std::isfinite(before)) {
      EXPECT_EQ(gradient[i], 0) << i;
      continue;
    }
    const double difference = central_difference(before, [&](float number) {
      numbers[i] = number;
      return loss();
    });
    numbers[i] = before;
    EXPECT_NEAR(difference, gradient[i], 2e-5 * (1 + std::abs(gradient[i]))) << i;
    largest = std::max(largest, std::abs(gradient[i]));
  }
  EXPECT_GT(largest, 1e-2) << "a comparison without force";
}

}  // namespace vkattn::tests
