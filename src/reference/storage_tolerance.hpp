// What storing a result may add to its error.
#pragma once

#include <vkattn/data_type.hpp>

namespace vkattn::reference {

/// Of float32. Below it a device may flush to zero.
inline constexpr double kLeastNormal = 0x1p-126;

/// One unit in the last place of a 16-bit result of that magnitude, 0 for float32.
[[nodiscard]] double storage_tolerance(DataType type, double magnitude);

}  // namespace vkattn::reference
