// Rounding to storage types: see storage_tolerance.hpp.
#include "reference/storage_tolerance.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn::reference {

namespace {

/// The distance of neighbouring numbers of a 16-bit type at |value|, as far down as its subnormals.
double unit_in_last_place(DataType type, double magnitude) {
  const bool half = type == DataType::kFloat16;
  const int mantissa_bits = half ? 10 : 7;
  const int least_exponent = half ? -14 : -126;
  int exponent = least_exponent;
  if (magnitude > 0 && std::isfinite(magnitude)) exponent = std::max(std::ilogb(magnitude), least_exponent);
  return std::ldexp(1.0, exponent - mantissa_bits);
}

}  // namespace

double storage_tolerance(DataType type, double magnitude) {
  if (type == DataType::kFloat32) return 0;
  const double unit = unit_in_last_place(type, magnitude);
  // Vulkan lets a device flush float16 subnormals to zero unless it promises to keep them, so below 2^-14 the
  // whole number may be lost.
  if (type == DataType::kFloat16 && magnitude < 0x1p-14 + unit) return std::max(unit, magnitude);
  return unit;
}

}  // namespace vkattn::reference
