// What storing a result, or rounding a factor of a product, may add to its error.
#pragma once

#include <vkattn/data_type.hpp>

namespace vkattn::reference {

/// Of float32. Below it a device may flush to zero.
inline constexpr double kLeastNormal = 0x1p-126;
inline constexpr double kLeastFloat16 = 0x1p-14;

/// One unit in the last place of a 16-bit result of that magnitude, 0 for float32.
[[nodiscard]] double storage_tolerance(DataType type, double magnitude);

/// What rounding probabilities, or gradients of scores, to nearest may add, as a share of them.
[[nodiscard]] double rounding_tolerance(DataType type);

/// What may be lost of each of them: as a number, of a probability, or as a share of the largest. Kernels
/// keep a row's largest at 2^7 or more before they round it to float16, whose last place is 2^-24.
[[nodiscard]] double least_weight(DataType type);

}  // namespace vkattn::reference
