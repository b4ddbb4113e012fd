// The push constants that the shaders of appends and the host share.
#pragma once

#include <cstdint>

namespace vkattn::detail {

namespace shared {
using uint = std::uint32_t;
#include "shared/cache_params.h"
}  // namespace shared
using shared::AppendParams;

}  // namespace vkattn::detail
