// The most host memory that this process has held.
#pragma once

#include <cstdint>

namespace vkattn::bench {

/// Peak resident bytes since reset_peak_memory(), or since the process started if the system cannot reset the
/// peak. 0 if the system does not tell.
[[nodiscard]] std::uint64_t peak_memory_bytes();

/// Resident bytes now. 0 if the system does not tell.
[[nodiscard]] std::uint64_t resident_memory_bytes();

/// Gives freed memory back to the system, and starts a new peak from the resident memory of now. Returns
/// false if the system cannot do that (only Linux can).
bool reset_peak_memory();

}  // namespace vkattn::bench
