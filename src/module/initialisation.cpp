// First values of weights: see vkattn/initialisation.hpp.
#include <vkattn/initialisation.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <random>

namespace vkattn {

namespace {

// Numbers are made by single operations and std::fma alone: compilers may join a product and a sum, and the
// functions of their libraries differ in the last bits.

/// From 0 to below 1, in steps of 2^-53.
double uniform(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11U) * 0x1p-53;
}

/// The natural logarithm of a number from above 0 to 1, within 2^-48 of its magnitude or so.
double portable_log(double value) {
  int exponent = 0;
  double mantissa = std::frexp(value, &exponent);
  if (mantissa < std::numbers::sqrt2 / 2) {
    mantissa += mantissa;
    --exponent;
  }
  // log(m) = 2 atanh((m - 1) / (m + 1)), whose series has the powers 1, 3, 5, …
  const double ratio = (mantissa - 1) / (mantissa + 1);
  const double square = ratio * ratio;
  double sum = 0;
  for (int power = 23; power >= 1; power -= 2) sum = std::fma(sum, square, 1.0 / power);
  return std::fma(static_cast<double>(exponent), std::numbers::ln2, 2 * ratio * sum);
}

/// Two normal numbers by Marsaglia's polar method.
std::array<double, 2> normal_pair(std::mt19937_64& random) {
  for (;;) {
    const double x = std::fma(2.0, uniform(random), -1.0);
    const double y = std::fma(2.0, uniform(random), -1.0);
    const double square = std::fma(x, x, y * y);
    if (square >= 1 || square == 0) continue;
    const double factor = std::sqrt(-2 * portable_log(square) / square);
    return {x * factor, y * factor};
  }
}

}  // namespace

void initialise(std::span<float> values, std::int64_t fan_in, std::int64_t fan_out, Initialisation how,
                std::uint64_t seed, float gain) {
  const bool is_xavier = how == Initialisation::kXavierUniform || how == Initialisation::kXavierNormal;
  const auto in = static_cast<double>(std::max<std::int64_t>(fan_in, 1));
  const auto out = static_cast<double>(std::max<std::int64_t>(fan_out, 1));
  const double variance = is_xavier ? 2 / (in + out) : 2 / in;
  std::mt19937_64 random(seed);
  if (how == Initialisation::kXavierUniform || how == Initialisation::kHeUniform) {
    const double bound = std::sqrt(3 * variance) * static_cast<double>(gain);
    for (float& value : values) value = static_cast<float>(std::fma(2.0, uniform(random), -1.0) * bound);
    return;
  }
  const double deviation = std::sqrt(variance) * static_cast<double>(gain);
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const std::array<double, 2> pair = normal_pair(random);
    values[i] = static_cast<float>(pair[0] * deviation);
    if (i + 1 < values.size()) values[i + 1] = static_cast<float>(pair[1] * deviation);
  }
}

}  // namespace vkattn
