// What all that reads SPIR-V's words goes by (SPIR-V 1.6, section 2.3).
#pragma once

#include <cstddef>

namespace vkattn::detail {

inline constexpr std::size_t kSpirvHeaderWords = 5;  ///< before a module's first instruction

}  // namespace vkattn::detail
