// Host memory of a test program: what is alive, and allocations that fail on purpose.
#pragma once

#include <cstdint>

namespace vkattn::tests {

/// From here on the n-th allocation of this thread throws; 0: none does.
void fail_allocation(std::uint64_t n) noexcept;

/// Whether that one has come.
[[nodiscard]] bool allocation_failed() noexcept;

/// How many allocations are alive that were made where nothing was left out of the count.
[[nodiscard]] std::int64_t live_allocations() noexcept;

/// Leaves what this thread allocates out of all this, while it lives: memory of the test's own.
class UncountedMemory {
 public:
  UncountedMemory() noexcept;
  UncountedMemory(const UncountedMemory&) = delete;
  UncountedMemory& operator=(const UncountedMemory&) = delete;
  ~UncountedMemory();
};

}  // namespace vkattn::tests
