// The host memory that this process has held at the most.
#pragma once

#include <cstdint>

namespace vkattn::bench {

/// Peak resident bytes since reset_peak_memory(), or since the process started where the system cannot reset
/// it; 0 where it does not tell.
[[nodiscard]] std::uint64_t peak_memory_bytes();

/// Starts a new peak from what is resident now; false where the system cannot (only Linux can).
bool reset_peak_memory();

}  // namespace vkattn::bench
