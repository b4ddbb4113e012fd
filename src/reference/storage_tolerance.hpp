// Errors of storing a result, of rounding a factor of a product, and of the ends of float32.
#pragma once

#include <vkattn/data_type.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace vkattn::reference {

/// The least normal number of float32. A device may flush smaller ones to zero.
inline constexpr double kLeastNormal = 0x1p-126;
inline constexpr double kLeastFloat16 = 0x1p-14;

/// No step of float32 arithmetic, in log2 units too, makes a number below it infinite.
inline constexpr auto kLargestNumber = static_cast<double>(2.3e38F);

/// The tolerance of what is undefined: any number is right, and NaN.
inline constexpr double kUndefined = -std::numeric_limits<double>::infinity();

/// Whether finite inputs have made a number that float32 may not hold.
[[nodiscard]] inline bool overflows(double magnitude) {
  return std::isfinite(magnitude) && magnitude > kLargestNumber;
}

/// A sum of products, with what float32 may lose of it at either end.
class ProductSum {
 public:
  double sum = 0;
  double magnitude = 0;

  void add(double a, double b) { add(a, b, std::abs(a)); }
  /// `least` is the least magnitude that a has in any step.
  void add(double a, double b, double least) {
    const double product = a * b, size = std::abs(product);
    sum += product;
    magnitude += size;
    if (std::isfinite(size) && std::min({least, std::abs(b), size}) < kLeastNormal) lost_ += size;
    ++terms_;
  }
  /// The error of a device that flushes factors, products and sums below kLeastNormal.
  [[nodiscard]] double flushed() const { return std::min(lost_ + terms_ * kLeastNormal, magnitude); }

 private:
  double lost_ = 0;
  double terms_ = 0;
};

/// The error of a probability, as a share of it, if a score has this error: numerator and denominator both
/// err. Finite, as it is multiplied by zeros too.
[[nodiscard]] inline double share_of_score(double lost) {
  constexpr double kAnythingGoes = 64;
  return std::expm1(std::min(2 * lost, kAnythingGoes));
}

/// The largest number of a type whose numbers have a scale beside them; 0 for others.
[[nodiscard]] double largest_stored(DataType type);

/// One unit in the last place of a 16-bit result of that magnitude, 0 for float32.
[[nodiscard]] double storage_tolerance(DataType type, double magnitude);

/// The error of rounding probabilities, or gradients of scores, to nearest, as a share of them.
[[nodiscard]] double rounding_tolerance(DataType type);

/// The error of each of them: as a number for a probability, else as a share of the largest. Kernels keep a
/// row's largest at 2^7 or more before they round it to float16, whose last place is 2^-24.
[[nodiscard]] double least_weight(DataType type);

}  // namespace vkattn::reference
