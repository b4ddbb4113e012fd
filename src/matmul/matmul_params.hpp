// The push constants that the shaders of matrix multiplication and the host share.
#pragma once

#include <cstdint>

namespace vkattn::detail {

namespace shared {
using uint = std::uint32_t;
#include "shared/matmul_params.h"
}  // namespace shared
using shared::MatmulParams;

}  // namespace vkattn::detail
