// Special numbers of tests.
#pragma once

#include <cstdint>
#include <limits>

namespace vkattn::tests {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
inline constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
inline constexpr std::int64_t kTwo30 = std::int64_t{1} << 30;

}  // namespace vkattn::tests
