// The parameters that the shaders of the backward pass and the host share.
#pragma once

#include <cstdint>

namespace vkattn::detail {

namespace shared {
using uint = std::uint32_t;
#include "shared/backward_params.h"
}  // namespace shared
using shared::BackwardParams;

}  // namespace vkattn::detail
