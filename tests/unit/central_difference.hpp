// Numerical derivatives of functions, for tests of gradients.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace vkattn::tests {

/// The derivative of a function of float32 at a number. It divides by the step as float32 rounded it.
template <class Function>
[[nodiscard]] double central_difference(float number, Function function) {
  const float above = number + 0x1p-10F, below = number - 0x1p-10F;
  return (function(above) - function(below)) / (static_cast<double>(above) - static_cast<double>(below));
}

/// Checks that the gradient with respect to these numbers is that of the loss, which reads them. It must be 0
/// for infinite numbers.
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
