// Counts the memory of a program. A soak run must hold as much after an hour as after minutes.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdint>

namespace vkattn::soak {

/// The number of calls of operator new without a delete, by the driver and the program together.
[[nodiscard]] std::int64_t live_allocations() noexcept;

/// Counts the device memory of a runtime's buffers from now on. A process may do this for one runtime only.
void count_device_memory(const Runtime& runtime);
/// The number of bytes, and of pieces.
struct DeviceMemory {
  std::uint64_t bytes = 0;
  std::uint64_t pieces = 0;
  [[nodiscard]] bool operator==(const DeviceMemory&) const = default;
};
[[nodiscard]] DeviceMemory device_memory();

}  // namespace vkattn::soak
