// What a program holds: for a soak, which must hold the same after an hour as after minutes.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdint>

namespace vkattn::soak {

/// Calls of operator new that were not followed by a delete, the driver's with the program's own.
[[nodiscard]] std::int64_t live_allocations() noexcept;

/// Counts the device memory of a runtime's buffers from here on. One runtime of a process.
void count_device_memory(const Runtime& runtime);
/// Bytes, and pieces of them.
struct DeviceMemory {
  std::uint64_t bytes = 0;
  std::uint64_t pieces = 0;
  [[nodiscard]] bool operator==(const DeviceMemory&) const = default;
};
[[nodiscard]] DeviceMemory device_memory();

}  // namespace vkattn::soak
